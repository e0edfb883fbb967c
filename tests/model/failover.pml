/* Links that are replaced while requests are open (docs/protocol.md): one session, whose links fail
 * again and again, at either end, while they are in use or being set up; writes of every set of
 * links that land late; requests that are restarted, cancelled, given up, preempted and begun in
 * between; and a peer that is lost in the middle of it.
 *
 * run.sh checks it, and that each fault of it (an #ifdef) is found.
 */
#define LINKS 3 /* numbers of links: two sets may fail */
#define QUEUE 12 /* messages under way in one direction */
#include "network.pml"

mtype = {Request, Reject, Failed, Cancel, CancelAck, Received, Restart,
         RailFailed, Relink, RelinkAck, Relinked, LinksClosed};
mtype = {attached, parting, over};
/* A request at the decode node. */
mtype = {unasked, waiting, receiving, cancelling, draining, fencing, ended};
/* A request at the prefill node; `finishing` is stopping, but for the last answer. */
mtype = {unknown, asked, bound, stopping, finishing, released, forgotten};
/* What the decode node's engine was told of a request. */
mtype = {nothing, failed_openly, all};

/* The two nodes, and what each knows of the links: src/messenger/link_failover.cc. */
#define D 0
#define P 1
#define OTHER(me) (1 - (me))
byte initiator;
mtype at[2] = attached;
byte number[2];      /* of the links in use, or being set up */
bool up[2] = true;   /* those are open here */
bool connected[2] = true;
bool replacing[2];
bool told_failed[2]; /* the initiator, that these links failed */
byte old[2];         /* links that are not closed here yet, as bits */
#ifdef OPENED_BY_ONE_IS_MALFORMED
byte both[2] = 1;    /* links opened here that the peer has not said to be closed, as bits */
#endif
byte in_use[2];      /* the last links that were connected */
#define BIT(n) (1 << (n))
#define IS_OPEN(me, n) ((up[me] && number[me] == (n)) || old[me] & BIT(n))

/* Type, then a request or a number of links, then links * 4 + units. */
chan to[2] = [QUEUE] of {mtype, byte, byte};
#define WITH(links, units) ((links) * 4 + (units))

byte failures; /* of rails */
byte losses;   /* of the peer: one node gives up the other in silence */
byte preempts;
bool second;   /* a second request, in the first one's page */

/* The decode node. */
mtype d_state[REQUESTS] = unasked;
mtype told[REQUESTS] = nothing;
bool is_asked[REQUESTS];
byte d_links[REQUESTS];
byte arrived[REQUESTS];
byte posted[REQUESTS];
bool unlinked;

/* The prefill node. */
mtype p_state[REQUESTS] = unknown;
bool origin[REQUESTS];
byte p_links[REQUESTS];
byte sent[REQUESTS];  /* units posted over those */
bool suspended[REQUESTS];
bool source[REQUESTS];
bool preempting[REQUESTS];
bool has_it[REQUESTS];
bool cancel_asked[REQUESTS];
bool rejected[REQUESTS];
bool given_up[REQUESTS];
byte remote_closed;   /* links that the decode node has closed, as told, as bits */

hidden byte a, b, n, j;

#define STARTED (d_state[0] != unasked)
#define COUNTS(r) (d_state[r] == receiving || d_state[r] == cancelling || d_state[r] == draining)

inline say(me, mm, aa, bb) {
  if
  :: at[me] == attached && at[OTHER(me)] == attached ->
     assert(len(to[OTHER(me)]) < QUEUE);
     to[OTHER(me)]!mm(aa, bb)
  :: else
  fi
}

/* A node begins to part from the other: it takes nothing more, and closes all its links. */
inline lose(me) {
  at[me] = parting;
  do
  :: len(to[me]) > 0 -> to[me]?_, _, _
  :: else -> break
  od;
  if
  :: up[me] -> old[me] = old[me] | BIT(number[me]); up[me] = false
  :: else
  fi;
  connected[me] = false;
  replacing[me] = false;
  if
  :: me == D -> requests_fence()
  :: else -> requests_stop()
  fi
}

#include "failover_decode.pml"
#include "failover_prefill.pml"
#include "failover_links.pml"

proctype node(byte me) {
end:
  do
  :: atomic { at[me] == attached && len(to[me]) > 0 ->
       to[me]?m(a, b);
       if
       :: m == Reject || m == Failed || m == CancelAck -> decode_takes()
       :: m == Request || m == Cancel || m == Received || m == Restart -> prefill_takes()
       :: else -> links_take(me)
       fi }
  :: atomic { at[me] == attached && (at[OTHER(me)] == over || (losses > 0 && STARTED)) ->
       if
       :: at[OTHER(me)] == over
       :: else -> losses--
       fi;
       lose(me) }
  :: atomic { failures > 0 && STARTED && up[me] -> failures--; rail_failed(me) }
  /* Links that are given up are closed, sooner or later. */
  :: atomic { old[me] != 0 ->
       if
       :: old[me] & BIT(0) -> n = 0
       :: old[me] & BIT(1) -> n = 1
       :: old[me] & BIT(2) -> n = 2
       fi;
       links_closed(me) }
  :: atomic { at[me] == parting && old[me] == 0 -> all_links_closed(me) }
  od
}

/* A rail of it failed: the initiator has gone on, or soon will. */
#define FAILED(l) (number[initiator] > (l) || told_failed[OTHER(initiator)])

/* One write over one set of links: lands, is lost with a rail that failed, is complete. */
proctype write(byte r; byte unit; byte l) {
end:
  do
  :: d_step { FLIES(r, l, unit) ->
       write_lands(r, l, unit);
       if
       :: COUNTS(r) && d_links[r] == l -> arrived[r]++
       :: else
       fi }
  :: d_step { FLIES(r, l, unit) && FAILED(l) ->
       fly[OF(r, l)] = fly[OF(r, l)] & ~BIT(unit) }
  :: d_step { COMPLETES(r, l, unit) ->
       outstanding[OF(r, l)] = outstanding[OF(r, l)] & ~BIT(unit) }
  /* Over links that are closed nothing reads the source: where the target reads, closed there. */
  :: d_step { outstanding[OF(r, l)] & BIT(unit) && !IS_OPEN(P, l) &&
              (!target_reads || remote_closed & BIT(l) || at[D] == over) ->
       outstanding[OF(r, l)] = outstanding[OF(r, l)] & ~BIT(unit) }
  /* Or it fails, and its sender is told first. */
  :: d_step { outstanding[OF(r, l)] & BIT(unit) && FAILED(l) && !target_reads ->
       outstanding[OF(r, l)] = outstanding[OF(r, l)] & ~BIT(unit);
       if
       :: p_links[r] == l -> suspended[r] = true
       :: else
       fi }
  od
}

/* When nothing can happen any more, everything is over, and the links are in use again. */
proctype finally() {
  byte r, l;
  timeout;
  for (r : 0 .. REQUESTS - 1) {
    HOLD(all_ended, d_state[r] == ended && told[r] == all);
    HOLD(all_ended, p_state[r] == unknown || p_state[r] == forgotten);
    HOLD(page_owned, owner[r] == 0 || ready[owner[r] - 1]);
    for (l : 0 .. LINKS - 1) {
      HOLD(source_kept, !source[r] && outstanding[OF(r, l)] == 0)
    }
  }
  HOLD(all_ended, at[D] == over || (connected[D] && connected[P] && number[D] == number[P]));
  HOLD(all_ended, old[D] == 0 && old[P] == 0)
}

init {
  byte r, l;
  atomic {
    if
    :: CASE == 0 || CASE == 1 -> failures = 2; units = 1 /* more would take too long */
    :: CASE == 0 || CASE == 2 -> failures = 1; second = true
    :: CASE == 0 || CASE == 3 -> failures = 1; preempts = 1
    :: CASE == 0 || CASE == 4 -> failures = 1; losses = 1
    fi;
    if
    :: second
    :: !second -> d_state[1] = ended; told[1] = all
    fi;
    if
    :: initiator = D
    :: initiator = P
    fi;
    if
    :: target_reads = false
    :: target_reads = true
    fi;
    for (r : 0 .. REQUESTS - 1) {
      run decode_request(r);
      run prefill_request(r);
      for (l : 0 .. LINKS - 1) {
        run write(r, 0, l);
        if
        :: UNITS_OF(r) == 2 -> run write(r, 1, l)
        :: else
        fi
      }
    }
    run node(D);
    run node(P);
#ifndef STEPS_ONLY
    run finally()
#endif
  }
}
