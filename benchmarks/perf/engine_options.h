#pragma once

#include "kvrail/fabric_options.h"
#include "perf/settings.h"

namespace kvrail::perf {

// What the settings say of an engine, with one device group.
TransferEngineOptions engine_options(const Settings& settings, const LocalSettings& local);

}  // namespace kvrail::perf
