#include "wire/message.h"

#include <array>

namespace kvrail {

std::string_view name_of(const Message& message) {
  static constexpr std::array<std::string_view, std::variant_size_v<Message>> kNames = {
      "Hello",   "HelloAck",   "Attach", "AttachAck", "Attached", "PrefillRequest", "PrefillReject",
      "Cancel",  "CancelAck",  "Failed", "Received",  "Restart",  "Heartbeat",      "Wake",
      "Goodbye", "RailFailed", "Relink", "RelinkAck", "Relinked", "LinksClosed",    "Proof"};
  return message.valueless_by_exception() ? "none" : kNames[message.index()];
}

}  // namespace kvrail
