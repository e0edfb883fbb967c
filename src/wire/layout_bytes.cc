#include "kvrail/layout_bytes.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "wire/layout_codec.h"
#include "wire/message_limits.h"

namespace kvrail {
namespace {

// Family and version: other tables in control.fbs take another version.
constexpr const char* kIdentifier = "KVL1";
constexpr std::string_view kFamily = "KVL";
// Layout, Rank, RankGroup.
constexpr flatbuffers::uoffset_t kMaxDepth = 3;
constexpr flatbuffers::uoffset_t kMaxTables = 128u << 10;
static_assert(kMaxTables > std::size_t{kMaxCacheGroups} * (1 + kMaxTensors) +
                               std::size_t{kMaxRanks} * (2 + kMaxCacheGroups) + 1);
constexpr std::size_t kMinBytes = 12;

// What stands where the identifier of a layout does.
std::string_view identifier_of(std::span<const std::byte> bytes) {
  if (bytes.size() < kMinBytes) return {};
  return {reinterpret_cast<const char*>(bytes.data()) + sizeof(flatbuffers::uoffset_t),
          flatbuffers::kFileIdentifierLength};
}

}  // namespace

std::vector<std::byte> to_bytes(const KvLayout& layout) {
  validate(layout);
  if (const std::string fault = find_fault(layout); !fault.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the layout cannot be written: {}", fault));
  }
  flatbuffers::FlatBufferBuilder builder(1024);
  builder.Finish(write_layout(builder, layout), kIdentifier);
  const auto* bytes = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {bytes, bytes + builder.GetSize()};
}

KvLayout layout_from_bytes(std::span<const std::byte> bytes) {
  FieldReader reader("layout", bytes.size());
  const std::string_view identifier = identifier_of(bytes);
  if (identifier.starts_with(kFamily) && identifier != kIdentifier) {
    throw Error(
        ErrorCode::kVersionMismatch,
        fmt::format("the layout was not written as {}, which is all that this version of the "
                    "library reads: write it with the same version",
                    kIdentifier));
  }
  // FlatBuffers need an alignment that the bytes need not have.
  std::vector<std::uint64_t> words(bytes.size() / sizeof(std::uint64_t) + 1);
  std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(words)).begin());
  const auto* data = reinterpret_cast<const std::uint8_t*>(words.data());
  const bool sized = bytes.size() >= kMinBytes && bytes.size() < FLATBUFFERS_MAX_BUFFER_SIZE;
  if (!sized || !flatbuffers::Verifier(data, bytes.size(), kMaxDepth, kMaxTables)
                     .VerifyBuffer<wire::Layout>(kIdentifier)) {
    reader.fail(fmt::format("{} bytes that do not verify as a layout", bytes.size()));
  }
  KvLayout layout = read_layout(reader, flatbuffers::GetRoot<wire::Layout>(data));
  validate(layout);
  return layout;
}

}  // namespace kvrail
