#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace dovetail::pipeline {

struct JsonScanLimits {
  int most_depth = 64;
  std::size_t most_keys = 4096;  // of one object
};

struct JsonScanError {
  std::string message;
  std::size_t at = 0;  // offset in the text
};

// Reads a text that must be one JSON object, without building it. Hands over each key of the object
// itself. Returns false and fills `error` at the first thing that is wrong; values nested deeper
// and objects with more keys than the limits count as such.
bool scan_json_object(std::string_view text, const JsonScanLimits& limits,
                      const std::function<void(const std::string&)>& on_key, JsonScanError& error);

}  // namespace dovetail::pipeline
