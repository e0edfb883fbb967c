#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <utility>

#include "fabric/route.h"
#include "fabric/submission_queue.h"
#include "fabric/write_builder.h"
#include "kvrail/write_list.h"

namespace kvrail {

// A WriteList on its way: accepted by submit(), then the worker's until its callback has run.
struct Submission {
  Submission(WriteList&& list, WriteCallback&& done, std::shared_ptr<const Route>&& route,
             SubmissionQueue::Place&& place)
      : list(std::move(list)),
        done(std::move(done)),
        route(std::move(route)),
        place(std::move(place)) {}

  WriteList list;
  WriteCallback done;
  std::shared_ptr<const Route> route;

  SubmissionQueue::Place place;  // left when the last range is posted

  RunCursor cursor;
  bool queued = true;             // has ranges that are not posted
  std::uint32_t outstanding = 0;  // writes posted and not completed
  Status status;                  // the first failure
  WriteReport report;

  std::list<Submission>::iterator self;  // in the peer's list of open submissions
};

}  // namespace kvrail
