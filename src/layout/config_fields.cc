#include "layout/config_fields.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "layout/refuse.h"

namespace kvrail {
namespace {

using nlohmann::json;

// The objects in which multimodal models keep the configuration of their language model.
constexpr const char* kLanguageParts[] = {"text_config", "llm_config", "language_config"};

constexpr std::size_t kMaxQuotedBytes = 64;

std::string quoted(const json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  // Cuts through characters of several bytes are replaced.
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() <= kMaxQuotedBytes ? text : text.substr(0, kMaxQuotedBytes) + "...";
}

json parse(std::string_view text) {
  if (text.size() > ConfigFields::kMaxTextBytes) {
    refuse("it has {} bytes, but at most {} are read", text.size(), ConfigFields::kMaxTextBytes);
  }
  try {
    return json::parse(text, [](int depth, json::parse_event_t, json&) {
      if (depth > ConfigFields::kMaxDepth) {
        refuse("its lists and objects are nested more than {} deep", ConfigFields::kMaxDepth);
      }
      return true;
    });
  } catch (const json::parse_error& error) {
    refuse("it is not JSON: wrong at byte {}", error.byte);
  } catch (const json::exception& error) {
    refuse("it is not JSON that can be read: error {}", error.id);
  }
}

}  // namespace

struct ConfigFields::Parsed {
  json whole;
  const json* language = nullptr;  // in `whole`
  std::string prefix;              // of its fields: "text_config."

  const json* find(const char* name) const {
    const auto found = language->find(name);
    return found == language->end() || found->is_null() ? nullptr : &*found;
  }
  std::string path(const char* name) const { return '"' + prefix + name + '"'; }
};

ConfigFields::ConfigFields(std::string_view text) {
  auto parsed = std::make_unique<Parsed>();
  parsed->whole = parse(text);
  if (!parsed->whole.is_object()) refuse("it is not a JSON object, but {}", quoted(parsed->whole));
  parsed->language = &parsed->whole;
  for (const char* part : kLanguageParts) {
    const auto found = parsed->whole.find(part);
    if (found == parsed->whole.end() || found->is_null()) continue;
    if (!found->is_object()) refuse("\"{}\" is {}, but must be an object", part, quoted(*found));
    parsed->language = &*found;
    parsed->prefix = std::string(part) + ".";
    break;
  }
  parsed_ = std::move(parsed);
}

ConfigFields::~ConfigFields() = default;

bool ConfigFields::has(const char* name) const { return parsed_->find(name) != nullptr; }

bool ConfigFields::says(const char* name) const {
  const json* value = parsed_->find(name);
  return value != nullptr && *value != false && !(value->is_array() && value->empty());
}

std::optional<std::uint32_t> ConfigFields::find_number(const char* name, std::uint32_t first,
                                                       std::uint32_t last) const {
  const json* value = parsed_->find(name);
  if (value == nullptr) return std::nullopt;
  const auto* number = value->get_ptr<const json::number_unsigned_t*>();
  if (number == nullptr || *number < first || *number > last) {
    refuse("{} is {}, but must be a whole number from {} to {}", parsed_->path(name),
           quoted(*value), first, last);
  }
  return static_cast<std::uint32_t>(*number);
}

std::uint32_t ConfigFields::number(const char* name, std::uint32_t first,
                                   std::uint32_t last) const {
  return number_of({name}, first, last);
}

std::uint32_t ConfigFields::number_of(std::initializer_list<const char*> names, std::uint32_t first,
                                      std::uint32_t last) const {
  std::string missing;
  for (const char* name : names) {
    if (const auto value = find_number(name, first, last)) return *value;
    missing += (missing.empty() ? "" : " or ") + parsed_->path(name);
  }
  refuse("{} is missing", missing);
}

bool ConfigFields::flag(const char* name, bool otherwise) const {
  const json* value = parsed_->find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) {
    refuse("{} is {}, but must be true or false", parsed_->path(name), quoted(*value));
  }
  return value->get<bool>();
}

std::optional<std::string> ConfigFields::find_text(const char* name) const {
  const json* value = parsed_->find(name);
  if (value == nullptr) {
    const auto above = parsed_->whole.find(name);
    if (above == parsed_->whole.end() || above->is_null()) return std::nullopt;
    value = &*above;
  }
  if (!value->is_string()) {
    refuse("{} is {}, but must be a text", parsed_->path(name), quoted(*value));
  }
  return value->get<std::string>();
}

std::optional<std::vector<std::string>> ConfigFields::find_texts(const char* name) const {
  const json* value = parsed_->find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) {
    refuse("{} is {}, but must be a list of texts", parsed_->path(name), quoted(*value));
  }
  std::vector<std::string> texts;
  for (const json& text : *value) {
    if (!text.is_string()) {
      refuse("entry {} of {} is {}, but must be a text", texts.size(), parsed_->path(name),
             quoted(text));
    }
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

}  // namespace kvrail
