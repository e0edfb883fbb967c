/* The request protocol between one decode node and one prefill node (docs/protocol.md), over one
 * rail: two requests that may share a page and a counter, cancelled and given up by both sides at
 * any moment, over control streams that end, between nodes that die, stop and come back.
 *
 * run.sh checks it, and that each fault of it (an #ifdef) is found.
 */
#define SESSIONS 2  /* control streams with their links, one after the other */
#define COUNTERS 2  /* of each set of links */

#define LINKS SESSIONS
#include "network.pml"

#if CASE > 6
#define QUEUE 9 /* messages under way in one direction of a stream */
#else
#define QUEUE 6
#endif

mtype = {Request, Reject, Failed, Cancel, CancelAck, Received};
/* A node's end of a session. */
mtype = {unopened, attached, parting, over};
/* A request at the decode node; receiving, cancelling, draining and fencing are open. */
mtype = {unasked, receiving, cancelling, draining, fencing, ended};
/* A request at the prefill node; `finishing` is stopping, but for the last answer. */
mtype = {unknown, expected, asked, bound, stopping, finishing, released, forgotten};
/* What the decode node's engine was told of a request. */
mtype = {nothing, failed_openly, all};

/* Type, wire id, and units posted or (of a Request) which request it is. */
chan to_prefill[SESSIONS] = [QUEUE] of {mtype, byte, byte};
chan to_decode[SESSIONS] = [QUEUE] of {mtype, byte, byte};
/* A message that comes late or twice, and for which node. */
mtype late_m;
byte late_s, late_w, late_x;
bool late_to_decode;

mtype d_at[SESSIONS] = unopened;
mtype p_at[SESSIONS] = unopened;
bool d_closed[SESSIONS]; /* the decode node's links are closed, and the other node can know it */
bool p_closed[SESSIONS];
bool broken[SESSIONS];   /* the stream says nothing more */

/* How often it may still happen; one kind in each run. */
byte faults;       /* a node dies, is given up in silence, or a stream breaks */
byte untimely;       /* messages that come late or twice */
byte losses;       /* writes that never land */
bool lost;         /* one of them did not */
byte preempts;     /* pages taken back; and the prefill engine may hear of a request first */

/* The decode node. */
byte next_wire = 1;
mtype d_state[REQUESTS] = unasked;
mtype told[REQUESTS] = nothing;
byte session[REQUESTS];
byte wire[REQUESTS];
byte counter[REQUESTS];
byte posted[REQUESTS];  /* as the prefill node says */
bool refused[REQUESTS]; /* the prefill node does not know it any more: no Received */
/* By session and counter: 0 is free, r + 1 is request r's. */
byte holder[SESSIONS * COUNTERS];
byte arrived[SESSIONS * COUNTERS];
#define COUNTER(r) (session[r] * COUNTERS + counter[r])

/* The prefill node. */
mtype p_state[REQUESTS] = unknown;
bool origin[REQUESTS]; /* found by its wire id */
byte p_session[REQUESTS];
byte p_wire[REQUESTS];
byte p_counter[REQUESTS];
bool source[REQUESTS]; /* it has pages */
byte sent[REQUESTS];   /* units posted: units are posted in order, and land in any */
bool preempting[REQUESTS];
bool has_it[REQUESTS]; /* the decode node says so */
bool cancel_asked[REQUESTS];
bool rejected[REQUESTS];
bool given_up[REQUESTS];
byte cancelled[SESSIONS]; /* wire ids cancelled before they were known, as bits */

hidden byte s, w, x, found;

#define NONE REQUESTS
#ifdef SESSIONS_IGNORED
#define D_HEARS(s) ((d_at[0] == attached || d_at[1] == attached) && len(to_decode[s]) > 0)
#define P_HEARS(s) ((p_at[0] == attached || p_at[1] == attached) && len(to_prefill[s]) > 0)
#define SAME_SESSION(other) true
#else
#define D_HEARS(s) (d_at[s] == attached && len(to_decode[s]) > 0)
#define P_HEARS(s) (p_at[s] == attached && len(to_prefill[s]) > 0)
#define SAME_SESSION(other) (other == s)
#endif
#define D_HEARS_LATE (late_m != 0 && late_to_decode)
#define P_HEARS_LATE (late_m != 0 && !late_to_decode)
#ifdef READY_ONE_EARLY
#define READY_AT(r) (UNITS_OF(r) - 1)
#else
#define READY_AT(r) UNITS_OF(r)
#endif
#define OPEN(r) (d_state[r] == receiving || d_state[r] == cancelling || d_state[r] == draining)

/* What is under way to a node that takes nothing more. */
inline drop(stream, to_d, ss) {
  do
#ifndef SESSIONS_IGNORED
  :: len(stream) > 0 -> stream?_, _, _
#endif
  :: else -> break
  od;
  if
  :: late_to_decode == to_d && late_s == ss -> late_m = 0
  :: else
  fi
}

/* Once there is something to fail. */
#define MAY_FAIL (faults > 0 && d_state[0] != unasked)

inline put_off(to_d, mm, ww, xx) {
  untimely--;
  late_m = mm;
  late_w = ww;
  late_x = xx;
  late_s = s;
  late_to_decode = to_d
}
inline send(stream, to_d, mm, ww, xx) {
  assert(len(stream) < QUEUE);
  if
  :: untimely > 0 -> put_off(to_d, mm, ww, xx)
#ifdef EVERY_DUPLICATE
  :: untimely > 0 ->
#else
  :: untimely > 0 && mm != Request ->
#endif
     put_off(to_d, mm, ww, xx); stream!mm(ww, xx)
  :: stream!mm(ww, xx)
  fi
}
inline decode_says(ss, mm, ww, xx) {
  s = ss;
  if
  :: d_at[s] == attached && p_at[s] == attached && !broken[s] ->
     send(to_prefill[s], false, mm, ww, xx)
  :: else
  fi
}
inline prefill_says(ss, mm, ww, xx) {
  s = ss;
  if
  :: p_at[s] == attached && d_at[s] == attached && !broken[s] ->
     send(to_decode[s], true, mm, ww, xx)
  :: else
  fi
}

#include "request_decode.pml"
#include "request_prefill.pml"

/* A stream that breaks: where the target reads, both are on one host, and it ends with a process
 * only. And the next session, once the end of the first is known to either node. */
proctype environment() {
end:
  do
  :: d_step { MAY_FAIL && !target_reads && d_at[0] == attached && p_at[0] == attached ->
       faults--; broken[0] = true }
  :: d_step { d_at[1] == unopened && p_at[1] == unopened && d_state[1] == unasked &&
              !(d_at[0] == attached && p_at[0] == attached) ->
       d_at[1] = attached; p_at[1] = attached }
  od
}

/* One write: lands, gets lost, is complete at the prefill node. */
proctype write(byte r; byte u) {
end:
  do
  :: d_step { FLIES(r, p_session[r], u) -> write_lands(r, p_session[r], u); count(r) }
  :: d_step { losses > 0 && FLIES(r, p_session[r], u) ->
       losses--; lost = true; fly[OF(r, p_session[r])] = fly[OF(r, p_session[r])] & ~(1 << u) }
  :: d_step { COMPLETES(r, p_session[r], u) ->
       outstanding[OF(r, p_session[r])] = outstanding[OF(r, p_session[r])] & ~(1 << u) }
  /* Where the target reads, and the decode node has said that its links are closed. */
  :: d_step { outstanding[OF(r, p_session[r])] & (1 << u) && p_at[p_session[r]] == over &&
              d_closed[p_session[r]] ->
       outstanding[OF(r, p_session[r])] = outstanding[OF(r, p_session[r])] & ~(1 << u) }
  od
}

/* When nothing can happen any more, everything is over: no request waits for ever. */
proctype finally() {
  byte r;
  timeout;
  for (r : 0 .. REQUESTS - 1) {
    HOLD(all_ended, d_state[r] == ended && told[r] == all);
    HOLD(all_ended, p_state[r] == unknown || p_state[r] == forgotten);
    HOLD(source_kept, !source[r] && outstanding[OF(r, 0)] == 0 && outstanding[OF(r, 1)] == 0);
    HOLD(page_owned, owner[r] == 0 || ready[owner[r] - 1])
  }
  for (r : 0 .. SESSIONS * COUNTERS - 1) {
    HOLD(counters_back, holder[r] == 0)
  }
}

init {
  byte r, u;
  atomic {
    if
    :: CASE == 0 || CASE == 1 -> preempts = 1
    :: CASE == 0 || CASE == 2 -> preempts = 1; target_reads = true
    :: CASE == 0 || CASE == 3 -> losses = 1
    :: CASE == 0 || CASE == 4 -> untimely = 1
    :: CASE == 0 || CASE == 5 -> faults = 1
    :: CASE == 0 || CASE == 6 -> faults = 1; target_reads = true
    /* Several kinds at once: only when asked for. */
    :: CASE == 7 -> preempts = 1; faults = 1; losses = 1
    :: CASE == 8 -> preempts = 1; faults = 1; untimely = 1
    :: CASE == 9 -> faults = 2; losses = 1
    fi;
    d_at[0] = attached;
    p_at[0] = attached;
    for (r : 0 .. REQUESTS - 1) {
      run decode_request(r);
      run prefill_request(r);
      for (u : 0 .. UNITS_OF(r) - 1) { run write(r, u) }
    }
    run decode_node();
    run prefill_node();
    run environment();
#ifndef STEPS_ONLY
    run finally()
#endif
  }
}
