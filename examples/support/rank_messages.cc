#include "support/rank_messages.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <utility>

namespace mock_engine {
namespace {

void send_all(int socket, const void* data, std::size_t size) {
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = send(socket, next, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) throw std::system_error(errno, std::generic_category(), "sending to a process");
    next += sent;
    size -= static_cast<std::size_t>(sent);
  }
}

bool receive_all(int socket, void* data, std::size_t size) {
  char* next = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = recv(socket, next, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    next += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

void send_message(int socket, const Message& message) {
  const std::vector<std::uint8_t> bytes = Message::to_cbor(message);
  const std::uint64_t size = bytes.size();
  std::vector<std::uint8_t> framed(sizeof size + bytes.size());
  std::memcpy(framed.data(), &size, sizeof size);
  std::memcpy(framed.data() + sizeof size, bytes.data(), bytes.size());
  send_all(socket, framed.data(), framed.size());
}

std::optional<Message> receive_message(int socket) {
  std::uint64_t size = 0;
  if (!receive_all(socket, &size, sizeof size)) return std::nullopt;
  std::vector<std::uint8_t> bytes(size);
  if (!receive_all(socket, bytes.data(), bytes.size())) return std::nullopt;
  return Message::from_cbor(bytes);
}

bool is_hung_up(int socket) {
  pollfd end{socket, 0, 0};
  return poll(&end, 1, 0) > 0 && (end.revents & (POLLHUP | POLLERR)) != 0;
}

Message encode(const Prompt& prompt) {
  const auto payload = prompt.encode_payload();
  const auto* text = reinterpret_cast<const char*>(payload.data());
  return {{"id", prompt.external_id()},
          {"tokens", prompt.prompt_tokens()},
          {"payload", std::string(text, payload.size())}};
}

PromptPtr decode_prompt(const Message& message) {
  const std::string payload = message.at("payload");
  return std::make_shared<const Prompt>(Prompt::decode_payload(
      message.at("id"), message.at("tokens"), std::as_bytes(std::span(payload))));
}

Message encode(const kvrail::RequestPages& pages) {
  Message groups = Message::array();
  for (const PageTable& table : pages.by_group) {
    Message numbers = Message::array();
    for (const kvrail::PageIndex page : table) numbers.push_back(page.value());
    groups.push_back(std::move(numbers));
  }
  return groups;
}

kvrail::RequestPages decode_pages(const Message& message) {
  kvrail::RequestPages pages;
  for (const Message& numbers : message) {
    PageTable& table = pages.by_group.emplace_back();
    for (const std::uint32_t page : numbers) table.emplace_back(page);
  }
  return pages;
}

Message encode(std::optional<kvrail::ContextSlot> slot) {
  return slot ? Message(slot->value()) : Message();
}

std::optional<kvrail::ContextSlot> decode_slot(const Message& message) {
  if (message.is_null()) return std::nullopt;
  return kvrail::ContextSlot(message.get<std::uint32_t>());
}

}  // namespace mock_engine
