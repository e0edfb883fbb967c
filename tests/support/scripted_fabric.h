#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "support/scripted_provider/control_block.h"

namespace kvrail {

// What the scripted provider does when nothing else is said: what efa may do to any write.
inline constexpr char kUnorderedScript[] = "reorder window=8; delay max_us=50";

// Makes the scripted provider known to libfabric, in this process and those that it starts. Call it
// in main(), before libfabric is used and before there are threads.
void offer_scripted_provider();

// A script that is in force in this process and those that it has started, as long as the object
// lives; afterwards the unordered one is again. Throws std::invalid_argument for a text that is
// none.
class ScriptInForce {
 public:
  explicit ScriptInForce(const std::string& text);
  ~ScriptInForce();
  ScriptInForce(const ScriptInForce&) = delete;
  ScriptInForce& operator=(const ScriptInForce&) = delete;

  // Another instead of it.
  void change(const std::string& text);
  // How often the provider did this since the script was made.
  std::uint64_t count(scripted::Count what) const;

 private:
  std::array<std::uint64_t, static_cast<std::size_t>(scripted::Count::kCounts)> before_;
};

}  // namespace kvrail
