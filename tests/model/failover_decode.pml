/* The decode node while its links may be replaced: src/messenger/request_receiver.cc. */

inline end_request(r) {
  HOLD(ends_once, d_state[r] != ended && told[r] != all);
  d_state[r] = ended;
  told[r] = all;
  posted[r] = 0;
  arrived[r] = 0;
  landed[r] = 0;
  is_asked[r] = false
}
inline tell_failed(r) {
  if
  :: told[r] == nothing -> told[r] = failed_openly
  :: else
  fi
}

/* Nothing can land any more. */
inline settle(r) {
  owner[page[r]] = 0;
  if
  :: is_asked[r] -> say(D, Received, r, 0)
  :: else
  fi;
  end_request(r)
}

inline drain(r, units) {
  if
  :: d_state[r] == waiting -> settle(r)
  :: else ->
     posted[r] = units;
     d_state[r] = draining;
     if
     :: arrived[r] == units -> settle(r)
     :: else -> tell_failed(r)
     fi
  fi
}

inline answer_ended() {
  say(D, Received, a, 0)
}

/* Units posted over links that are closed cannot land any more. */
#ifdef LINKS_NUMBER_IGNORED
#define POSTED_NOW(r) (b & 3)
#else
#define POSTED_NOW(r) (b >> 2 == d_links[r] -> (b & 3) : 0)
#endif

inline decode_takes() {
  if
  :: m == Reject ->
     if
     :: d_state[a] == receiving || d_state[a] == cancelling || d_state[a] == waiting ->
        is_asked[a] = false; settle(a)
     :: else
     fi
  :: m == Failed ->
     if
     :: d_state[a] == receiving || d_state[a] == cancelling || d_state[a] == waiting ->
        n = POSTED_NOW(a); drain(a, n)
     :: d_state[a] == ended -> answer_ended()
     :: else
     fi
  :: m == CancelAck ->
     if
     :: d_state[a] == cancelling -> n = POSTED_NOW(a); drain(a, n)
     :: d_state[a] == ended -> answer_ended()
     :: else
     fi
  fi;
  a = 0;
  b = 0
}
/* The links are closed, to be replaced. */
inline requests_wait() {
  for (j : 0 .. REQUESTS - 1) {
    if
    :: d_state[j] == cancelling || d_state[j] == draining -> settle(j)
    :: d_state[j] == receiving ->
       d_state[j] = waiting;
#ifndef COUNTS_GO_ON
       arrived[j] = 0
#endif
    :: else
    fi
  }
}

/* They are replaced. */
inline requests_go_on() {
  unlinked = false;
  for (j : 0 .. REQUESTS - 1) {
    if
    :: d_state[j] == waiting ->
       d_links[j] = in_use[D];
       d_state[j] = receiving;
       if
       :: is_asked[j] -> say(D, Restart, j, WITH(in_use[D], 0))
#ifdef RESTARTED_TWICE
          ; say(D, Restart, j, WITH(in_use[D], 0))
#endif
       :: else -> is_asked[j] = true; say(D, Request, j, 0)
       fi
    :: else
    fi
  }
}

/* The peer is lost; its links are being closed; and are. */
inline requests_fence() {
  unlinked = false;
  for (j : 0 .. REQUESTS - 1) {
    if
    :: d_state[j] == waiting -> is_asked[j] = false; settle(j)
    :: COUNTS(j) -> tell_failed(j); d_state[j] = fencing
    :: else
    fi
  }
}
inline requests_are_fenced() {
  for (j : 0 .. REQUESTS - 1) {
    if
    :: d_state[j] == fencing -> is_asked[j] = false; settle(j)
    :: else
    fi
  }
}

proctype decode_request(byte r) {
end:
  do
  :: atomic { d_state[r] == unasked && (r == 0 || d_state[0] != unasked) && at[D] == attached &&
              (owner[0] == 0 || ready[owner[0] - 1]) ->
       if
       :: owner[0] != 0 -> ready[owner[0] - 1] = false /* its engine is done with it */
       :: else
       fi;
       owner[0] = r + 1;
       d_links[r] = in_use[D];
       if
       :: unlinked -> d_state[r] = waiting
       :: else -> d_state[r] = receiving; is_asked[r] = true; say(D, Request, r, 0)
       fi }
  :: d_step { d_state[r] == unasked && at[D] != attached -> end_request(r) }
  :: atomic { COUNTS(r) && arrived[r] == UNITS_OF(r) ->
       if
       :: d_state[r] == receiving ->
          HOLD(ready_whole, landed[r] == ALL_UNITS(r));
          ready[r] = true;
          say(D, Received, r, 0);
          end_request(r)
       :: else -> settle(r)
       fi }
  :: atomic { d_state[r] == receiving ->
       d_state[r] = cancelling; tell_failed(r); say(D, Cancel, r, 0) }
  :: atomic { d_state[r] == waiting ->
       if
       :: is_asked[r] -> say(D, Cancel, r, 0) /* and Received, since it is settled */
       :: else
       fi;
       settle(r) }
  :: atomic { d_state[r] == draining && arrived[r] == posted[r] -> settle(r) }
  :: d_step { d_state[r] == draining && arrived[r] > posted[r] -> HOLD(posted_final, false) }
  od
}
