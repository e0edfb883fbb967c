#include "support/scripted_fabric.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <system_error>

#include "support/scripted_provider/script.h"

namespace kvrail {
namespace {

using scripted::ControlBlock;

// The block that this process shares with its children: an anonymous file, which they find through
// this process for as long as it lives.
ControlBlock& control_block() {
  static ControlBlock& block = []() -> ControlBlock& {
    const int file = ::memfd_create("scripted-control", MFD_CLOEXEC);
    void* mapping = MAP_FAILED;
    if (file >= 0 && ::ftruncate(file, sizeof(ControlBlock)) == 0) {
      mapping = ::mmap(nullptr, sizeof(ControlBlock), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    if (mapping == MAP_FAILED) {
      throw std::system_error(errno, std::generic_category(), "the script's file");
    }
    const std::string path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file);
    ::setenv(scripted::kControlVariable, path.c_str(), 1);
    return *static_cast<ControlBlock*>(mapping);
  }();
  return block;
}

void put(const std::string& text) {
  scripted::Script::parse(text);
  ControlBlock& block = control_block();
  if (text.size() >= block.text.size()) throw std::invalid_argument("the script is too long");
  block.write(text);
}

}  // namespace

void offer_scripted_provider() {
  ::setenv("FI_PROVIDER_PATH", KVRAIL_SCRIPTED_PROVIDER_DIR, 1);
  ::setenv(scripted::kNicsVariable, "4", 0);
  const char* script = std::getenv(scripted::kScriptVariable);
  if (script == nullptr) ::setenv(scripted::kScriptVariable, kUnorderedScript, 1);
  control_block();
}

ScriptInForce::ScriptInForce(const std::string& text) {
  for (std::size_t i = 0; i < before_.size(); ++i) {
    before_[i] = control_block().counts[i].load(std::memory_order_relaxed);
  }
  put(text);
}

ScriptInForce::~ScriptInForce() { put(kUnorderedScript); }

void ScriptInForce::change(const std::string& text) { put(text); }

std::uint64_t ScriptInForce::count(scripted::Count what) const {
  return control_block().count(what).load(std::memory_order_relaxed) -
         before_[static_cast<std::size_t>(what)];
}

}  // namespace kvrail
