#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvrail/error.h"
#include "wire/control_generated.h"

namespace kvrail {

// Reads the fields of one verified FlatBuffer into our own types; every fault is an Error
// (kMalformed) that names message and field.
//
// Verified offsets may still lead to the same bytes many times over, so that a small message would
// decode to a huge one. Whatever is read is therefore charged against the size of the message,
// which no honest message exceeds.
class FieldReader {
 public:
  FieldReader(std::string_view message, std::size_t message_bytes)
      : message_(message), budget_(message_bytes) {}

  [[noreturn]] void fail(std::string_view fault) const;

  // The table, vector or struct itself, which must be there.
  template <class T>
  const T& required(const T* value, std::string_view field) const {
    if (value == nullptr) fail_missing(field);
    return *value;
  }

  std::string text(const flatbuffers::String* text, std::string_view field, std::size_t max_bytes);
  std::vector<std::byte> blob(const flatbuffers::Vector<std::uint8_t>* blob, std::string_view field,
                              std::size_t max_bytes);

  // A vector of numbers, as strong ids.
  template <class Id>
  std::vector<Id> ids(const flatbuffers::Vector<typename Id::rep>* values, std::string_view field,
                      std::size_t max_count) {
    check_count(required(values, field).size(), sizeof(typename Id::rep), field, max_count);
    std::vector<Id> ids;
    ids.reserve(values->size());
    for (const auto value : *values) ids.emplace_back(value);
    return ids;
  }

  // A vector of structs, each turned into a T by `read`.
  template <class T, class Struct, class Read>
  std::vector<T> structs(const flatbuffers::Vector<const Struct*>* values, std::string_view field,
                         std::size_t max_count, Read read) {
    check_count(required(values, field).size(), sizeof(Struct), field, max_count);
    // The verifier aligns a vector by its count alone.
    if (values->size() > 0 &&
        reinterpret_cast<std::uintptr_t>(values->Data()) % alignof(Struct) != 0) {
      fail_misaligned(field);
    }
    std::vector<T> result;
    result.reserve(values->size());
    for (const Struct* value : *values) result.push_back(read(*value));
    return result;
  }

  // A vector of tables, each turned into a T by `read`.
  template <class T, class Table, class Read>
  std::vector<T> tables(const flatbuffers::Vector<flatbuffers::Offset<Table>>* values,
                        std::string_view field, std::size_t max_count, Read read) {
    check_count(required(values, field).size(), kTableBytes, field, max_count);
    std::vector<T> result;
    result.reserve(values->size());
    for (const Table* value : *values) result.push_back(read(*value));
    return result;
  }

 private:
  // An offset that leads to it and its own offset to a vtable.
  static constexpr std::size_t kTableBytes = 8;

  void check_count(std::size_t count, std::size_t bytes_each, std::string_view field,
                   std::size_t max_count);
  [[noreturn]] void fail_missing(std::string_view field) const;
  [[noreturn]] void fail_misaligned(std::string_view field) const;

  std::string_view message_;
  std::size_t budget_;  // bytes that may still be read
};

}  // namespace kvrail
