#include "pipeline/run/columns/words.h"

#include <fmt/format.h>

#include <vector>

namespace dovetail::pipeline {

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::optional<bool> flag_of(std::string_view text) {
  if (text == "True" || text == "true") return true;
  if (text == "False" || text == "false") return false;
  return std::nullopt;
}

std::string options_of(const Rubric& rubric) {
  std::vector<std::string> options;
  for (const RubricOption& option : rubric.options) options.push_back(spelled(option.score));
  return fmt::format("{}", fmt::join(options, ", "));
}

}  // namespace dovetail::pipeline
