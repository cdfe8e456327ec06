#include "serve/served_names.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace dovetail::serve {
namespace {

constexpr std::string_view kLatest = ":latest";

std::string_view without_latest(std::string_view name) {
  if (name.ends_with(kLatest)) name.remove_suffix(kLatest.size());
  return name;
}

}  // namespace

std::string with_tag(const std::string& name) {
  return name.find(':') == std::string::npos ? name + std::string(kLatest) : name;
}

bool ServedNames::has(std::string_view name) const {
  return std::any_of(names_.begin(), names_.end(), [name](const std::string& served) {
    return without_latest(name) == without_latest(served);
  });
}

ApiError ServedNames::refuse(std::string_view field, std::string_view value) const {
  ApiError error;
  error.status = 404;
  error.param = std::string(field);
  error.code = "model_not_found";
  error.message = fmt::format("{}: {} is not served here; expected \"{}\"", field, value,
                              fmt::join(names_, "\" or \""));
  return error;
}

}  // namespace dovetail::serve
