#include "serve/unknown_fields.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/near_match.h"

namespace dovetail::serve {
namespace {

constexpr std::size_t kMaxNames = 16;
constexpr std::size_t kMaxNameBytes = 128;

}  // namespace

Problem UnknownFields::meet(std::string_view name, const std::vector<std::string>& known) {
  const std::string shown_name(name.substr(0, kMaxNameBytes));
  if (strict_) {
    const std::vector<std::string> near = near_matches(shown_name, known);
    return problem(bad_field(
        name, "unknown or unsupported field \"{}\"{}", shown_name,
        near.empty() ? std::string() : fmt::format(", did you mean {}", fmt::join(near, ", "))));
  }
  ignore(name);
  return std::nullopt;
}

void UnknownFields::ignore(std::string_view name) {
  if (names_.size() < kMaxNames) names_.emplace_back(name.substr(0, kMaxNameBytes));
}

std::string UnknownFields::text() const {
  std::string text = fmt::format("{}", fmt::join(names_, ", "));
  // A header's value is what it is read for by programs: no byte of it may end the line.
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text;
}

}  // namespace dovetail::serve
