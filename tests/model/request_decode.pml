/* The decode node: src/messenger/request_receiver.cc and decode_side.cc. */

#define D_LOSES(s) (d_at[s] == attached && (broken[s] || p_closed[s]))

inline release_counter(r) {
  holder[COUNTER(r)] = 0;
  arrived[COUNTER(r)] = 0
}

/* The units of a write arrive: the counter is what its immediate says. */
inline count(r) {
  i = p_session[r] * COUNTERS + p_counter[r];
  if
  :: holder[i] == 0 /* a stray: dropped */
  :: else ->
     HOLD(counter_own, holder[i] == r + 1);
     arrived[i]++
  fi
}

/* on_ready, on_failed (quiescent) or on_quiescent: its last word to the engine. */
inline end_request(r) {
  HOLD(ends_once, d_state[r] != ended && told[r] != all);
  d_state[r] = ended;
  told[r] = all;
  posted[r] = 0;
  landed[r] = 0;
  wire[r] = 0;
  refused[r] = false
}
inline tell_failed(r) {
  HOLD(ends_once, told[r] == nothing);
  told[r] = failed_openly
}

/* Nothing can land any more: its pages are the engine's. */
inline settle(r) {
#ifndef COUNTER_KEPT
  release_counter(r);
#endif
  owner[page[r]] = 0;
  if
  :: !refused[r] -> decode_says(session[r], Received, wire[r], 0)
  :: else
  fi;
  end_request(r)
}

inline make_ready(r) {
  HOLD(ready_whole, landed[r] == ALL_UNITS(r));
  release_counter(r);
  ready[r] = true;
  decode_says(session[r], Received, wire[r], 0);
  end_request(r)
}

/* What was posted is known. */
inline drain(r, units) {
  posted[r] = units;
  d_state[r] = draining;
#ifdef ACK_IS_PROOF
  settle(r)
#else
  if
  :: arrived[COUNTER(r)] == units -> settle(r)
  :: else ->
     if
#ifdef TOLD_TWICE
     :: tell_failed(r)
#else
     :: told[r] == nothing -> tell_failed(r)
     :: else
#endif
     fi
  fi
#endif
}

inline decode_loses(ss) {
  d_at[ss] = parting;
  drop(to_decode[ss], true, ss);
  for (i : 0 .. REQUESTS - 1) {
    if
    :: session[i] == ss && OPEN(i) ->
       if
       :: told[i] == nothing -> tell_failed(i)
       :: else
       fi;
       d_state[i] = fencing;
#ifdef NO_FENCE
       release_counter(i);
       owner[page[i]] = 0;
       end_request(i)
#endif
    :: else
    fi
  };
  i = 0
}

/* The links are closed: what flies over them never lands. */
inline decode_fences(ss) {
  d_at[ss] = over;
  d_closed[ss] = true;
  for (i : 0 .. REQUESTS - 1) {
    fly[OF(i, ss)] = 0;
    if
    :: session[i] == ss && d_state[i] == fencing ->
       release_counter(i);
       owner[page[i]] = 0;
       end_request(i)
    :: else
    fi
  };
  i = 0
}

/* The process is gone, and with it its memory and its links; the next one counts from 1 again. */
inline decode_dies() {
  next_wire = 1;
  for (i : 0 .. SESSIONS - 1) {
    if
    :: d_at[i] != unopened -> d_at[i] = over; d_closed[i] = true; drop(to_decode[i], true, i)
    :: else
    fi
  }
  for (i : 0 .. REQUESTS - 1) {
    fly[OF(i, 0)] = 0;
    fly[OF(i, 1)] = 0;
    if
    :: d_state[i] != unasked -> d_state[i] = ended; told[i] = all; ready[i] = false;
       release_counter(i); owner[page[i]] = 0; posted[i] = 0
    :: else
    fi
  };
  i = 0
}

/* An engine that takes the first free page and asks. */
inline ask(r, ss) {
  if
  :: owner[0] == 0 || ready[owner[0] - 1] -> page[r] = 0
  :: else -> page[r] = 1
  fi;
  if
  :: owner[page[r]] != 0 -> ready[owner[page[r]] - 1] = false /* its engine is done with it */
  :: else
  fi;
  owner[page[r]] = r + 1;
  session[r] = ss;
#ifdef COUNTER_TAKEN_TWICE
  counter[r] = 0;
#else
  counter[r] = (holder[ss * COUNTERS] == 0 -> 0 : 1);
#endif
  holder[COUNTER(r)] = r + 1;
  wire[r] = next_wire;
  next_wire++;
  d_state[r] = receiving;
  decode_says(ss, Request, wire[r], r)
}

proctype decode_request(byte r) {
end:
  do
  :: atomic { d_state[r] == unasked && (r == 0 || d_state[0] != unasked) && d_at[0] == attached ->
       ask(r, 0) }
  :: atomic { d_state[r] == unasked && r > 0 && d_at[1] == attached -> ask(r, 1) }
  :: d_step { d_state[r] == unasked && d_at[0] != attached && d_at[1] != attached ->
       end_request(r) }
  /* The counter has reached its total. */
  :: atomic { OPEN(r) && arrived[COUNTER(r)] ==
              (d_state[r] == receiving -> READY_AT(r) : UNITS_OF(r)) ->
       if
       :: d_state[r] == receiving -> make_ready(r)
       :: else -> settle(r)
       fi }
  /* The engine gives it up, or its deadline passes: then it is told later, with the answer. */
  :: atomic { d_state[r] == receiving ->
       d_state[r] = cancelling;
       if
       :: tell_failed(r)
       :: lost /* the deadline's case */
       fi;
#ifdef COUNTER_GIVEN_BACK_AT_CANCEL
       holder[COUNTER(r)] = 0;
#endif
       decode_says(session[r], Cancel, wire[r], 0) }
  :: atomic { d_state[r] == draining && arrived[COUNTER(r)] == posted[r] -> settle(r) }
  :: d_step { d_state[r] == draining && arrived[COUNTER(r)] > posted[r] ->
       HOLD(posted_final, false) }
  /* lost_after_ms is over: only where a write was lost, or the peer does not answer. */
  :: d_step { (d_state[r] == cancelling || d_state[r] == draining) &&
              d_at[session[r]] == attached && (lost || p_at[session[r]] != attached) ->
       decode_loses(session[r]) }
  od
}

/* Failed or CancelAck of a request that is over here. */
inline answer_unknown() {
  decode_says(s, Received, w, 0)
}

inline decode_takes() {
  found = NONE;
  for (i : 0 .. REQUESTS - 1) {
    if
    :: OPEN(i) && wire[i] == w && SAME_SESSION(session[i]) -> found = i
    :: else
    fi
  }
  if
  :: m == Reject ->
     if
     :: found != NONE && d_state[found] != draining -> refused[found] = true; settle(found)
     :: else
     fi
  :: m == Failed ->
     if
     :: found == NONE -> answer_unknown()
     :: found != NONE && d_state[found] != draining -> drain(found, x)
     :: else
     fi
  :: m == CancelAck ->
     if
     :: found == NONE -> answer_unknown()
     :: found != NONE && d_state[found] == cancelling -> drain(found, x)
     :: else
     fi
  fi
}
proctype decode_node() {
end:
  do
  :: atomic { D_HEARS(0) || D_HEARS(1) || D_HEARS_LATE ->
       if
       :: D_HEARS(0) -> s = 0; to_decode[0]?m(w, x)
       :: D_HEARS(1) -> s = 1; to_decode[1]?m(w, x)
       :: D_HEARS_LATE -> s = late_s; m = late_m; w = late_w; x = late_x; late_m = 0
       fi;
       decode_takes() }
  /* The stream has ended, or says that the prefill node has closed its links; or it is silent. */
  :: atomic { D_LOSES(0) || D_LOSES(1) || (MAY_FAIL && d_at[0] == attached) ->
       if
       :: D_LOSES(0) -> s = 0
       :: D_LOSES(1) -> s = 1
       :: else -> s = 0; faults--
       fi;
       decode_loses(s) }
  :: atomic { d_at[0] == parting || d_at[1] == parting ->
       if
       :: d_at[0] == parting -> s = 0
       :: d_at[1] == parting -> s = 1
       fi;
       decode_fences(s) }
  :: d_step { MAY_FAIL && (d_at[0] == attached || d_at[1] == attached) ->
       faults--; decode_dies() }
  od
}
