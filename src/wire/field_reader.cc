#include "wire/field_reader.h"

#include <fmt/format.h>

namespace kvrail {

void FieldReader::fail(std::string_view fault) const {
  throw Error(ErrorCode::kMalformed, fmt::format("malformed {} message: {}", message_, fault));
}

void FieldReader::fail_missing(std::string_view field) const {
  fail(fmt::format("{} is missing", field));
}

void FieldReader::fail_misaligned(std::string_view field) const {
  fail(fmt::format("{} is misaligned", field));
}

void FieldReader::check_count(std::size_t count, std::size_t bytes_each, std::string_view field,
                              std::size_t max_count) {
  if (count > max_count) {
    fail(fmt::format("{} has {} entries; at most {} are allowed", field, count, max_count));
  }
  const std::size_t bytes = count * bytes_each;
  if (bytes > budget_) fail(fmt::format("{} shares its bytes with other fields", field));
  budget_ -= bytes;
}

std::string FieldReader::text(const flatbuffers::String* text, std::string_view field,
                              std::size_t max_bytes) {
  check_count(required(text, field).size(), 1, field, max_bytes);
  return text->str();
}

std::vector<std::byte> FieldReader::blob(const flatbuffers::Vector<std::uint8_t>* blob,
                                         std::string_view field, std::size_t max_bytes) {
  check_count(required(blob, field).size(), 1, field, max_bytes);
  const auto* bytes = reinterpret_cast<const std::byte*>(blob->data());
  return {bytes, bytes + blob->size()};
}

}  // namespace kvrail
