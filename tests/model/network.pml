/* What both models share: requests, pages, writes, and the properties.
 *
 * A write is posted by the prefill node; then, in any order and at any later moment, it lands in
 * the decode node's page and its completion reaches the prefill node. It flies until it has landed,
 * was lost, or the decode node has closed the links that it came over. It is outstanding until the
 * prefill node knows that its source is read no more.
 *
 * target_reads: the target reads the source when the write lands (shm), so a completion means that
 * it has landed, and closing the sender's links ends nothing. Without it the source is copied when
 * the write is posted, or soon after (tcp), and a completion says nothing of the target.
 */
#ifndef CASE
#define CASE 0 /* what may go wrong: a case of init, or any of the first ones */
#endif
#define REQUESTS 2
#define PAGES 2

/* One write per unit. As bits: the units that fly, are outstanding, have landed. */
byte units = 2;
#define UNITS_OF(r) (units - r) /* the second request has one less */
#define ALL_UNITS(r) ((1 << UNITS_OF(r)) - 1)
byte fly[REQUESTS * LINKS];
byte outstanding[REQUESTS * LINKS];
byte landed[REQUESTS];
#define OF(r, l) ((r) * LINKS + (l))

bool target_reads;

/* The decode node's pages: 0 is free, r + 1 is request r's. */
byte owner[PAGES];
byte page[REQUESTS];
bool ready[REQUESTS];

/* Properties. Each is set in the step that could break it, and asserted there. */
hidden byte page_owned;    /* a write lands in a page of its own request, which is not ready yet */
hidden byte ready_whole;   /* what is ready has landed in full */
hidden byte source_kept;   /* source pages are given back once nothing reads them */
hidden byte ends_once;     /* a request ends once, and is told once */
hidden byte all_ended;     /* when nothing more can happen, every request is over on both nodes */
hidden byte counter_own;   /* a counter counts the units of its own request only */
hidden byte counters_back; /* in the end no counter is taken */
hidden byte posted_final;  /* no more units arrive than the prefill node says to have posted */
hidden byte peer_kept;     /* a rail that fails while others are left does not cost the peer */
#define HOLD(property, condition) property = (condition); assert(property)

/* With STEPS_ONLY nothing is asserted of the end. */

/* Variables of one step: nothing is left in them between steps. */
hidden byte i;
hidden mtype m;

#define COMPLETES(r, l, u) (outstanding[OF(r, l)] & (1 << u) && !(target_reads && FLIES(r, l, u)))
#define READS_SOURCE(r, l) (outstanding[OF(r, l)] | (target_reads -> fly[OF(r, l)] : 0))
#define FLIES(r, l, u) (fly[OF(r, l)] & (1 << u))
#define POSTED_HERE(r, l, u) \
  outstanding[OF(r, l)] = outstanding[OF(r, l)] | (1 << u)

inline write_lands(r, l, u) {
  fly[OF(r, l)] = fly[OF(r, l)] & ~(1 << u);
  HOLD(page_owned, owner[page[r]] == r + 1 && !ready[r]);
  landed[r] = landed[r] | (1 << u)
}
