#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/api_error.h"

namespace dovetail::serve {

// As Ollama lists a model: a name without a tag has ":latest".
std::string with_tag(const std::string& name);

// The names that the model answers to; at least one. The first is the one that answers show.
class ServedNames {
 public:
  explicit ServedNames(std::vector<std::string> names) : names_(std::move(names)) {}
  ServedNames(const char* name) : names_{name} {}  // NOLINT(google-explicit-constructor)

  const std::string& shown() const { return names_.front(); }
  const std::vector<std::string>& all() const { return names_; }

  // Names without a tag have ":latest": what Ollama lists by that name, clients of its API ask the
  // others for, too.
  bool has(std::string_view name) const;

  // 404 that names the field, what it says, and all names. `value`: as messages show it.
  ApiError refuse(std::string_view field, std::string_view value) const;

 private:
  std::vector<std::string> names_;
};

}  // namespace dovetail::serve
