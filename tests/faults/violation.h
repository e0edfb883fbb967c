#pragma once

#include <stdexcept>
#include <string>

namespace kvrail {

// A promise of the library that was not kept.
class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws Violation unless `fault` is empty.
inline void demand_none(const std::string& fault) {
  if (!fault.empty()) throw Violation(fault);
}

}  // namespace kvrail
