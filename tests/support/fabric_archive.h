#pragma once

#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "base/byte_codec.h"
#include "kvrail/transfer_engine.h"

namespace kvrail {

// The fields of what travels between a test and its child, which are the same program.
template <class Archive>
void fields(Archive& archive, DeviceGroupOptions& x) {
  archive(x.nics, x.rails_per_nic, x.cores);
}
template <class Archive>
void fields(Archive& archive, TransferEngineOptions& x) {
  archive(x.provider, x.bind_address, x.device_groups, x.queue_depth, x.receive_credit,
          x.submission_queue_length, x.max_write_bytes, x.delivery, x.spin_us);
}
template <class Archive>
void fields(Archive& archive, WriteList& x) {
  archive(x.source, x.target, x.counter, x.runs);
}
template <class Archive>
void fields(Archive& archive, PeerStats& x) {
  archive(x.peer, x.name, x.provider, x.links);
}
template <class Archive>
void fields(Archive& archive, RailStats& x) {
  archive(x.provider, x.device_group, x.rail, x.bytes_posted, x.failures);
}
template <class Archive>
void fields(Archive& archive, FabricStats& x) {
  archive(x.peers, x.closed_peers, x.rails, x.worker_wakeups, x.submissions);
}
template <class Archive>
void fields(Archive& archive, RailFailure& x) {
  archive(x.status, x.local, x.remote);
}
template <class Archive>
void fields(Archive& archive, TransferEngine::Introduction& x) {
  archive(x.peer, x.reply);
}

// Writes values one after another; plain data as it lies in memory.
class Packer {
 public:
  template <class... Values>
  void operator()(const Values&... values) {
    (pack(values), ...);
  }
  Bytes take() { return std::move(bytes_); }

 private:
  void raw(const void* data, std::size_t size) {
    if (size == 0) return;
    const std::size_t at = bytes_.size();
    bytes_.resize(at + size);
    std::memcpy(bytes_.data() + at, data, size);
  }
  template <class Value>
  void pack(const Value& value) {
    if constexpr (std::is_trivially_copyable_v<Value>) {
      raw(&value, sizeof value);
    } else {
      fields(*this, const_cast<Value&>(value));
    }
  }
  void pack(const std::string& text) {
    pack(text.size());
    raw(text.data(), text.size());
  }
  void pack(const Status& status) { (*this)(status.code(), status.text()); }
  template <class Value>
  void pack(const std::vector<Value>& values) {
    pack(values.size());
    if constexpr (std::is_trivially_copyable_v<Value>) {
      raw(values.data(), values.size() * sizeof(Value));
    } else {
      for (const Value& value : values) pack(value);
    }
  }

  Bytes bytes_;
};

// Reads what Packer wrote; the two sides agree on the types.
class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class... Values>
  void operator()(Values&... values) {
    (unpack(values), ...);
  }
  template <class Value>
  Value get() {
    std::remove_cvref_t<Value> value{};
    unpack(value);
    return value;
  }

 private:
  void raw(void* data, std::size_t size) {
    if (size > rest_.size()) throw std::logic_error("a message of the test harness is cut short");
    if (size > 0) std::memcpy(data, rest_.data(), size);
    rest_ = rest_.subspan(size);
  }
  template <class Value>
  void unpack(Value& value) {
    if constexpr (std::is_trivially_copyable_v<Value>) {
      raw(&value, sizeof value);
    } else {
      fields(*this, value);
    }
  }
  void unpack(std::string& text) {
    text.resize(get<std::size_t>());
    raw(text.data(), text.size());
  }
  void unpack(Status& status) {
    const auto code = get<ErrorCode>();
    auto text = get<std::string>();
    status = Status(code, std::move(text));
  }
  template <class Value>
  void unpack(std::vector<Value>& values) {
    values.resize(get<std::size_t>());
    if constexpr (std::is_trivially_copyable_v<Value>) {
      raw(values.data(), values.size() * sizeof(Value));
    } else {
      for (Value& value : values) unpack(value);
    }
  }

  std::span<const std::byte> rest_;
};

// What a test asks of the agent. Each call is answered once, except kWake; the events come when
// they happen, under the token that the call brought.
enum class NodeCall : std::uint8_t {
  kOpen,
  kDescribe,
  kDescribePeer,
  kRegister,
  kDeregister,
  kOffer,
  kAccept,
  kConnect,
  kConfirm,
  kImport,
  kClose,
  kRemoteClosed,
  kTendClosed,
  kSubmit,
  kTakeCounter,
  kExpect,
  kPeek,
  kReleaseCounter,
  kWake,
  kStats,
  kDestroy,
  kUsage,
};
enum class NodeAnswer : std::uint8_t {
  kResult,
  kError,
  kWritten,
  kCounted,
  kClosed,
  kRing,
  kFault,
  kRailFailed
};

}  // namespace kvrail
