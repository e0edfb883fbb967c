/* The prefill node while its links may be replaced: src/messenger/request_sender.cc. */

#define P_OPEN(r) (p_state[r] == asked || p_state[r] == bound)
#define P_ENDED(r) (p_state[r] == finishing || p_state[r] == released)
#define EVERYTHING_SENT(r) (source[r] && sent[r] == UNITS_OF(r))
#define QUIET(r) (outstanding[OF(r, 0)] == 0 && outstanding[OF(r, 1)] == 0 && \
                  outstanding[OF(r, 2)] == 0)

inline give_up(r) {
  given_up[r] = true;
  p_state[r] = stopping
}

inline release_source(r) {
  HOLD(source_kept, !source[r] ||
       (READS_SOURCE(r, 0) == 0 && READS_SOURCE(r, 1) == 0 && READS_SOURCE(r, 2) == 0));
  source[r] = false;
  preempting[r] = false
}

inline forget(r) {
  origin[r] = false;
  if
  :: p_state[r] == released ->
     p_state[r] = forgotten;
     sent[r] = 0;
     has_it[r] = false;
     cancel_asked[r] = false;
     rejected[r] = false;
     given_up[r] = false;
     suspended[r] = false
  :: else
  fi
}

/* The links are given up. */
inline requests_suspend() {
  for (j : 0 .. REQUESTS - 1) {
    if
    :: P_OPEN(j) && origin[j] -> suspended[j] = true
    :: else
    fi
  }
}

/* The peer is lost. */
inline requests_stop() {
  for (j : 0 .. REQUESTS - 1) {
    if
    :: origin[j] ->
       if
       :: P_OPEN(j) -> give_up(j)
       :: else
       fi;
       forget(j)
    :: else
    fi
  }
}

inline prefill_takes() {
  if
  :: m == Request ->
     origin[a] = true;
     p_links[a] = in_use[P];
     p_state[a] = asked
  :: m == Cancel ->
     if
     :: !origin[a] -> say(P, CancelAck, a, 0)
     :: origin[a] && P_ENDED(a) -> say(P, CancelAck, a, WITH(p_links[a], sent[a]))
     :: else ->
        cancel_asked[a] = true;
        if
        :: P_OPEN(a) -> give_up(a)
        :: else
        fi
     fi
  :: m == Received ->
     if
     :: origin[a] && P_ENDED(a) -> forget(a)
     :: origin[a] && !P_ENDED(a) && EVERYTHING_SENT(a) -> has_it[a] = true; forget(a)
     :: origin[a] && p_state[a] == stopping && !EVERYTHING_SENT(a) -> forget(a)
     :: else
     fi
  :: m == Restart ->
     if
     :: b >> 2 == in_use[P] && origin[a] && P_ENDED(a) ->
        say(P, Failed, a, WITH(in_use[P], 0))
     :: b >> 2 == in_use[P] && origin[a] && !P_ENDED(a) ->
        p_links[a] = in_use[P];
#ifndef NOT_SENT_AGAIN
        sent[a] = 0;
#endif
        suspended[a] = false
     :: else
     fi
  fi;
  a = 0;
  b = 0
}

proctype prefill_request(byte r) {
end:
  do
  :: d_step { p_state[r] == asked && !source[r] -> source[r] = true; p_state[r] = bound }
  :: d_step { p_state[r] == bound && !suspended[r] && !preempting[r] && sent[r] < UNITS_OF(r) ->
       if
       :: up[P] && number[P] == p_links[r] ->
          POSTED_HERE(r, p_links[r], sent[r]);
          if
          :: IS_OPEN(D, p_links[r]) ->
             fly[OF(r, p_links[r])] = fly[OF(r, p_links[r])] | BIT(sent[r])
          :: else
          fi;
          sent[r]++
       :: else -> suspended[r] = true /* they are closed: it is refused */
       fi }
  :: d_step { p_state[r] == bound && preempts > 0 && !preempting[r] ->
       preempts--; preempting[r] = true }
  :: d_step { p_state[r] == bound && preempting[r] && QUIET(r) && sent[r] < UNITS_OF(r) ->
       release_source(r); p_state[r] = asked }
  :: d_step { p_state[r] == bound && preempting[r] && QUIET(r) && sent[r] == UNITS_OF(r) &&
              !suspended[r] ->
       release_source(r); p_state[r] = finishing }
  /* The engine gives it up, or a step of it fails. */
  :: d_step { r == 0 && P_OPEN(r) -> give_up(r) }
  :: d_step { r == 0 && P_OPEN(r) && sent[r] == 0 -> rejected[r] = true; give_up(r) }
  :: d_step { QUIET(r) && (p_state[r] == stopping || (P_OPEN(r) && has_it[r])) ->
       release_source(r); p_state[r] = finishing }
  :: atomic { p_state[r] == finishing ->
       p_state[r] = released;
       if
       :: origin[r] && given_up[r] ->
          if
          :: cancel_asked[r] -> say(P, CancelAck, r, WITH(p_links[r], sent[r]))
          :: !cancel_asked[r] && rejected[r] && sent[r] == 0 -> say(P, Reject, r, 0); forget(r)
          :: else -> say(P, Failed, r, WITH(p_links[r], sent[r]))
          fi
       :: else
       fi;
       if
       :: !origin[r] -> forget(r)
       :: else
       fi }
  od
}
