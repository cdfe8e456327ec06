#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "load/json_fields.h"

namespace dovetail::text {

// A value of a JSON file together with its path there, for errors.
struct JsonNode {
  const nlohmann::json* value = nullptr;  // null: absent
  std::string path;

  bool present() const { return value != nullptr && !value->is_null(); }

  JsonNode member(std::string_view key) const {
    JsonNode node{nullptr, path + "." + std::string(key)};
    if (value != nullptr && value->is_object()) {
      if (const auto found = value->find(key); found != value->end()) node.value = &*found;
    }
    return node;
  }
  JsonNode element(std::size_t index) const {
    return {&(*value)[index], fmt::format("{}[{}]", path, index)};
  }

  tl::unexpected<Error> invalid(std::string_view valid,
                                ErrorKind kind = ErrorKind::kInvalid) const {
    return fail(kind, "{}: {}; valid: {}", path,
                value == nullptr ? "missing" : load::text_of(*value), valid);
  }

  Status read(bool& out) const {
    if (!present()) return {};
    if (!value->is_boolean()) return invalid("true or false");
    out = value->get<bool>();
    return {};
  }
  Status read(std::string& out) const {
    if (!present()) return {};
    if (!value->is_string()) return invalid("a string");
    out = value->get<std::string>();
    return {};
  }
  // An integer from 0 to `most`.
  Status read(std::size_t& out, std::size_t most) const {
    if (!present()) return {};
    if (!value->is_number_unsigned() || value->get<std::uint64_t>() > most) {
      return invalid(fmt::format("an integer from 0 to {}", most));
    }
    out = value->get<std::size_t>();
    return {};
  }
  Status require(std::string& out) const {
    if (!present()) return invalid("a string");
    return read(out);
  }
  Status require_array() const {
    if (!present() || !value->is_array()) return invalid("an array");
    return {};
  }
  Status require_object() const {
    if (!present() || !value->is_object()) return invalid("an object");
    return {};
  }
};

// The first failure of several reads.
inline Status all_of(std::initializer_list<Status> statuses) {
  for (const Status& status : statuses) {
    if (!status) return status;
  }
  return {};
}

}  // namespace dovetail::text
