#pragma once

#include <memory>
#include <string>
#include <vector>

#include "perf/transport.h"

namespace kvrail::perf {

// The ways of moving pages that are compared, by name.
struct Contender {
  std::string name;
  std::unique_ptr<Transport> transport;
};

// Opens and connects what the settings ask for, kvrail first. Both sides call it at once.
std::vector<Contender> connect_contenders(const Settings& settings, const LocalSettings& local,
                                          Channel& channel, Role role);

// Throws Error (kMalformed) if there is none of that name.
Transport& find_contender(const std::vector<Contender>& contenders, const std::string& name);

}  // namespace kvrail::perf
