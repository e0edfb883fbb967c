/* The prefill node: src/messenger/request_sender.cc and prefill_side.cc. */

#define P_LOSES(s) (p_at[s] == attached && (broken[s] || d_closed[s]))
#define EVERYTHING_SENT(r) (source[r] && sent[r] == UNITS_OF(r))
#define P_OPEN(r) (p_state[r] == asked || p_state[r] == bound)
#define QUIET(r) (outstanding[OF(r, p_session[r])] == 0)
#ifdef RECEIVED_FREES_SOURCE
#define MAY_END(r) (QUIET(r) || has_it[r])
#else
#define MAY_END(r) QUIET(r)
#endif
#ifdef REJECTED_AFTER_POSTING
#define NOTHING_POSTED(r) true
#else
#define NOTHING_POSTED(r) (sent[r] == 0)
#endif

inline give_up(r) {
  given_up[r] = true;
  p_state[r] = stopping
}

inline release_source(r) {
  HOLD(source_kept, !source[r] || READS_SOURCE(r, p_session[r]) == 0);
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
     p_wire[r] = 0
  :: else
  fi
}

inline prefill_loses(ss) {
  p_at[ss] = parting;
  drop(to_prefill[ss], false, ss);
  cancelled[ss] = 0;
  for (i : 0 .. REQUESTS - 1) {
    if
    :: origin[i] && p_session[i] == ss ->
       if
       :: P_OPEN(i) -> give_up(i)
       :: else
       fi;
       forget(i)
    :: else
    fi
  };
  i = 0
}

/* Its links are closed: where the source was copied, nothing reads it now. */
inline prefill_fences(ss) {
  p_at[ss] = over;
  p_closed[ss] = true;
  if
  :: !target_reads -> outstanding[OF(0, ss)] = 0; outstanding[OF(1, ss)] = 0
  :: else
  fi
}

inline prefill_dies() {
  for (i : 0 .. SESSIONS - 1) {
    cancelled[i] = 0;
    if
    :: p_at[i] != unopened -> p_at[i] = over; p_closed[i] = true; drop(to_prefill[i], false, i)
    :: else
    fi
  }
  for (i : 0 .. REQUESTS - 1) {
    outstanding[OF(i, 0)] = 0;
    outstanding[OF(i, 1)] = 0;
    source[i] = false;
    preempting[i] = false;
    p_state[i] = (p_state[i] == unknown || p_state[i] == expected -> unknown : released);
    forget(i)
  };
  i = 0
}

proctype prefill_request(byte r) {
end:
  do
  /* The engine hears of it first. */
  :: d_step { p_state[r] == unknown && preempts > 0 && d_state[r] == unasked && r == 0 ->
       p_state[r] = expected }
  :: d_step { (p_state[r] == expected || p_state[r] == asked) && !source[r] ->
       source[r] = true;
       p_state[r] = (p_state[r] == asked -> bound : expected) }
  :: d_step { p_state[r] == bound && !preempting[r] && sent[r] < UNITS_OF(r) ->
       POSTED_HERE(r, p_session[r], sent[r]);
       if
       :: !d_closed[p_session[r]] ->
          fly[OF(r, p_session[r])] = fly[OF(r, p_session[r])] | (1 << sent[r])
       :: else
       fi;
       sent[r]++ }
  :: d_step { p_state[r] == bound && preempts > 0 && !preempting[r] ->
       preempts--; preempting[r] = true }
  :: d_step { p_state[r] == bound && preempting[r] && sent[r] < UNITS_OF(r) && QUIET(r) ->
       release_source(r); p_state[r] = asked }
  /* The engine gives it up, a step of it fails, or a write. */
  :: d_step { r == 0 && (P_OPEN(r) || p_state[r] == expected) -> give_up(r) }
  :: d_step { r == 0 && (P_OPEN(r) || p_state[r] == expected) -> rejected[r] = true; give_up(r) }
  /* The end: nothing is outstanding. */
  :: d_step { (p_state[r] == stopping || (p_state[r] == bound && sent[r] == UNITS_OF(r)) ||
               (P_OPEN(r) && has_it[r])) && MAY_END(r) ->
       release_source(r); p_state[r] = finishing }
  :: atomic { p_state[r] == finishing ->
       p_state[r] = released;
       if
       :: origin[r] && given_up[r] ->
          if
          :: cancel_asked[r] -> prefill_says(p_session[r], CancelAck, p_wire[r], sent[r])
          :: !cancel_asked[r] && rejected[r] && NOTHING_POSTED(r) ->
             prefill_says(p_session[r], Reject, p_wire[r], 0); forget(r)
          :: else -> prefill_says(p_session[r], Failed, p_wire[r], sent[r])
          fi
       :: else
       fi;
       if
       :: !origin[r] -> forget(r)
       :: else
       fi }
#ifdef FORGOTTEN_AT_RELEASE
  :: d_step { p_state[r] == released -> forget(r) }
#endif
  od
}

/* A PrefillRequest that is not known: x is which one. */
inline take_request() {
  if
  :: cancelled[s] & (1 << w) ->
     cancelled[s] = cancelled[s] & ~(1 << w);
     prefill_says(s, Reject, w, 0)
  :: !(cancelled[s] & (1 << w)) && x == 0 && p_state[x] == unknown -> /* it does not fit */
     prefill_says(s, Reject, w, 0)
  :: !(cancelled[s] & (1 << w)) ->
     origin[x] = true;
     p_session[x] = s;
     p_wire[x] = w;
     p_counter[x] = counter[x];
     if
     :: p_state[x] == expected && source[x] -> p_state[x] = bound
     :: p_state[x] == expected && !source[x] || p_state[x] == unknown || p_state[x] == forgotten ->
        p_state[x] = asked
     :: else /* the engine has given it up already */
     fi
  fi
}

inline prefill_takes() {
  found = NONE;
  for (i : 0 .. REQUESTS - 1) {
    if
    :: origin[i] && p_wire[i] == w && SAME_SESSION(p_session[i]) -> found = i
    :: else
    fi
  }
  if
  :: m == Request ->
     if
     :: found == NONE -> take_request()
     :: else
     fi
  :: m == Cancel ->
     if
     :: found == NONE ->
#ifndef CANCELLED_IS_FORGOTTEN
        cancelled[s] = cancelled[s] | (1 << w);
#endif
        prefill_says(s, CancelAck, w, 0)
     :: found != NONE && (p_state[found] == finishing || p_state[found] == released) ->
        prefill_says(s, CancelAck, w, sent[found])
     :: else ->
        cancel_asked[found] = true;
        if
        :: P_OPEN(found) -> give_up(found)
        :: else
        fi
#ifdef ANSWERED_BEFORE_COMPLETION
        ;
        x = outstanding[OF(found, s)];
        prefill_says(s, CancelAck, w, sent[found] - (x & 1) - (x >> 1))
#endif
     fi
  :: m == Received ->
     if
     :: found == NONE
     :: found != NONE && (p_state[found] == finishing || p_state[found] == released) ->
        forget(found)
     :: found != NONE && p_state[found] != finishing && p_state[found] != released ->
        if
        :: EVERYTHING_SENT(found) -> has_it[found] = true; forget(found)
        :: !EVERYTHING_SENT(found) && p_state[found] == stopping -> forget(found)
        :: else
        fi
     fi
  fi
}

proctype prefill_node() {
end:
  do
  :: atomic { P_HEARS(0) || P_HEARS(1) || P_HEARS_LATE ->
       if
       :: P_HEARS(0) -> s = 0; to_prefill[0]?m(w, x)
       :: P_HEARS(1) -> s = 1; to_prefill[1]?m(w, x)
       :: P_HEARS_LATE -> s = late_s; m = late_m; w = late_w; x = late_x; late_m = 0
       fi;
       prefill_takes() }
  :: atomic { P_LOSES(0) || P_LOSES(1) || (MAY_FAIL && p_at[0] == attached) ->
       if
       :: P_LOSES(0) -> s = 0
       :: P_LOSES(1) -> s = 1
       :: else -> s = 0; faults--
       fi;
       prefill_loses(s) }
  :: atomic { p_at[0] == parting || p_at[1] == parting ->
       if
       :: p_at[0] == parting -> s = 0
       :: p_at[1] == parting -> s = 1
       fi;
       prefill_fences(s) }
  :: d_step { MAY_FAIL && (p_at[0] == attached || p_at[1] == attached) ->
       faults--; prefill_dies() }
  od
}
