#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvrail {

// The fields of a Hugging Face config.json; of a multimodal model those of its language part
// ("text_config"). A field that is null counts as missing. Everything throws Error
// (kInvalidArgument) that names the field. Untrusted text costs no more than it is long, and is
// never quoted at length.
class ConfigFields {
 public:
  static constexpr std::uint32_t kMaxNumber = 1u << 24;
  static constexpr std::size_t kMaxTextBytes = std::size_t{4} << 20;
  static constexpr int kMaxDepth = 32;

  explicit ConfigFields(std::string_view json);
  ~ConfigFields();

  bool has(const char* name) const;
  // Whether it says anything: is there, and neither false nor an empty list.
  bool says(const char* name) const;

  // Whole numbers from `first` to `last`.
  std::optional<std::uint32_t> find_number(const char* name, std::uint32_t first = 1,
                                           std::uint32_t last = kMaxNumber) const;
  std::uint32_t number(const char* name, std::uint32_t first = 1,
                       std::uint32_t last = kMaxNumber) const;
  // The first of several names of one field that is there; an error names all of them.
  std::uint32_t number_of(std::initializer_list<const char*> names, std::uint32_t first = 1,
                          std::uint32_t last = kMaxNumber) const;

  bool flag(const char* name, bool otherwise) const;
  // Also from the level above "text_config", where it is missing within.
  std::optional<std::string> find_text(const char* name) const;
  std::optional<std::vector<std::string>> find_texts(const char* name) const;

 private:
  struct Parsed;
  std::unique_ptr<const Parsed> parsed_;
};

}  // namespace kvrail
