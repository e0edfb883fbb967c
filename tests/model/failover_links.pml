/* Links are replaced: src/messenger/link_failover.cc. `me` is D or P. */

#ifdef RESTARTED_BEFORE_THE_FENCE
#define MAY_GO_ON(me) true
#else
#define MAY_GO_ON(me) (old[me] == 0)
#endif

inline finish_if_done(me) {
  if
  :: replacing[me] && connected[me] && MAY_GO_ON(me) ->
     replacing[me] = false;
     if
     :: me == D -> requests_go_on()
     :: else
     fi
  :: else
  fi
}
inline give_up_links(me) {
  if
  :: !replacing[me] ->
     replacing[me] = true;
     if
     :: me == D ->
        unlinked = true;
#ifdef RESTARTED_BEFORE_THE_FENCE
        requests_wait()
#endif
     :: else -> requests_suspend()
     fi
  :: else
  fi;
  connected[me] = false;
  told_failed[me] = false;
  if
  :: up[me] -> old[me] = old[me] | BIT(number[me]); up[me] = false
  :: else
  fi
}

/* The initiator's. */
inline replace(me) {
  give_up_links(me);
  number[me]++;
  say(me, Relink, number[me], 0)
#ifdef CLOSED_TOLD_EARLY
  ; say(me, LinksClosed, number[me] - 1, 0)
#endif
}

inline tell_rail_failed(me) {
  if
  :: !told_failed[me] -> told_failed[me] = true; say(me, RailFailed, number[me], 0)
  :: else
  fi
}

/* Of the links in use here, or being set up. */
inline rail_failed(me) {
  if
  :: me == initiator -> replace(me)
  :: else -> tell_rail_failed(me)
  fi
}

inline links_connected(me) {
  in_use[me] = number[me];
  connected[me] = true;
  finish_if_done(me)
}

inline open_links(me) {
#ifdef OPENED_BY_ONE_IS_MALFORMED
  both[me] = both[me] | BIT(number[me]);
#endif
  up[me] = true
}

inline links_take(me) {
  if
  :: m == RailFailed ->
     if
     :: a == number[me] -> replace(me)
     :: else /* of links that are replaced by now */
     fi
  :: m == Relink ->
     HOLD(peer_kept, a == number[me] + 1);
     give_up_links(me);
     number[me] = a;
#ifdef CLOSED_TOLD_EARLY
     say(me, LinksClosed, a - 1, 0);
#endif
     if
     :: open_links(me); say(me, RelinkAck, a, 0)
     :: failures > 0 -> failures--; tell_rail_failed(me)
     fi
  :: m == RelinkAck ->
     if
     :: a != number[me] || connected[me]
     :: a == number[me] && !connected[me] ->
        open_links(me); say(me, Relinked, a, 0); links_connected(me)
     :: a == number[me] && !connected[me] && failures > 0 -> failures--; replace(me)
     fi
  :: m == Relinked ->
     if
     :: a != number[me] || connected[me] || told_failed[me] || !up[me]
     :: a == number[me] && !connected[me] && !told_failed[me] && up[me] -> links_connected(me)
     :: a == number[me] && !connected[me] && !told_failed[me] && up[me] && failures > 0 ->
        failures--; tell_rail_failed(me)
     fi
  :: m == LinksClosed ->
     HOLD(peer_kept, a < number[me]);
#ifdef OPENED_BY_ONE_IS_MALFORMED
     HOLD(peer_kept, both[me] & BIT(a));
     both[me] = both[me] & ~BIT(a);
#endif
     if
     :: me == P -> remote_closed = remote_closed | BIT(a)
     :: else
     fi
  fi;
  a = 0
}

inline closed_here(me, l) {
  n = l;
  if
  :: me == D ->
     for (j : 0 .. REQUESTS - 1) { fly[OF(j, n)] = 0 }
  :: else
  fi;
#ifndef CLOSED_TOLD_EARLY
  say(me, LinksClosed, n, 0);
#endif
  if
  :: old[me] == 0 && at[me] == attached ->
     if
     :: me == D -> requests_wait()
     :: else
     fi;
     finish_if_done(me)
  :: old[me] == 0 && at[me] == parting ->
     at[me] = over;
     if
     :: me == D -> requests_are_fenced()
     :: else
     fi
  :: else
  fi
}

inline all_links_closed(me) {
  at[me] = over;
  if
  :: me == D -> requests_are_fenced()
  :: else
  fi
}

/* Links n of a node that gave them up are closed. */
inline links_closed(me) {
  old[me] = old[me] & ~BIT(n);
  if
  :: me == D -> fly[OF(0, n)] = 0; fly[OF(1, n)] = 0
  :: else
  fi;
#ifndef CLOSED_TOLD_EARLY
  say(me, LinksClosed, n, 0);
#endif
  n = 0;
  if
  :: old[me] == 0 && at[me] == attached ->
     if
     :: me == D -> requests_wait()
     :: else
     fi;
     finish_if_done(me)
  :: else
  fi
}
