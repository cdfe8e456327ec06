#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/api_error.h"

namespace dovetail::serve {

// The names that the model answers to; at least one. The first is the one that answers show.
class ServedNames {
 public:
  explicit ServedNames(std::vector<std::string> names) : names_(std::move(names)) {}
  ServedNames(const char* name) : names_{name} {}  // NOLINT(google-explicit-constructor)

  const std::string& shown() const { return names_.front(); }
  const std::vector<std::string>& all() const { return names_; }

  bool has(std::string_view name) const;
  // As Ollama reads names: without a tag they have ":latest".
  bool has_tagged(std::string_view name) const;

  // 404 that names the field, what it says, and all names. `value`: as messages show it.
  ApiError refuse(std::string_view field, std::string_view value) const;

 private:
  std::vector<std::string> names_;
};

}  // namespace dovetail::serve
