#pragma once

#include "kvrail/fabric_options.h"
#include "perf/settings.h"

namespace kvrail::perf {

// What the settings say of an engine, with one device group: the pages of a side are one region,
// in the memory of one GPU or of the host.
TransferEngineOptions engine_options(const Settings& settings, const LocalSettings& local);

}  // namespace kvrail::perf
