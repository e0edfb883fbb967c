#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "kvrail/transfer_plan.h"
#include "support/group_tokens.h"
#include "support/trace.h"

namespace mock_engine {

// What the lead process and the processes of its ranks say to each other over a Unix socket: JSON
// values in binary form (CBOR), each behind its length. The lead speaks and a rank answers, but for
// a pass, which ends at the barrier.
using Message = nlohmann::json;

// Throw std::system_error; receive() gives none at the end of the stream.
void send_message(int socket, const Message& message);
std::optional<Message> receive_message(int socket);

// The other end of the socket is closed.
bool is_hung_up(int socket);

// Parts of messages.
Message encode(const Prompt& prompt);
PromptPtr decode_prompt(const Message& message);
Message encode(const kvrail::RequestPages& pages);
kvrail::RequestPages decode_pages(const Message& message);
Message encode(std::optional<kvrail::ContextSlot> slot);
std::optional<kvrail::ContextSlot> decode_slot(const Message& message);

}  // namespace mock_engine
