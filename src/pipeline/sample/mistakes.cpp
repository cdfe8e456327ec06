#include "pipeline/sample/mistakes.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "base/near_match.h"

namespace dovetail::pipeline {

namespace {

// What stands in the file may stand in a message, line ends and all.
std::string on_one_line(std::string_view message) {
  std::string line;
  for (const char letter : message) {
    if (static_cast<unsigned char>(letter) < 0x20) {
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(letter));
    } else {
      line += letter;
    }
  }
  return line;
}

}  // namespace

void Mistakes::add(const Error& one) {
  if (lines_.empty()) kind_ = one.kind;
  lines_.push_back(on_one_line(one.message));
}

void Mistakes::add(const Status& several) {
  if (several) return;
  if (lines_.empty()) kind_ = several.error().kind;
  for (const std::string_view line : lines_of(several.error().message)) lines_.emplace_back(line);
}

Status Mistakes::status() const {
  if (lines_.empty()) return {};
  return fail(kind_, "{}", fmt::join(lines_, "\n"));
}

std::vector<std::string_view> lines_of(std::string_view message) {
  std::vector<std::string_view> lines;
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = message.find('\n');
    lines.push_back(message.substr(0, end));
    if (end != std::string_view::npos) message.remove_prefix(end + 1);
  }
  return lines;
}

std::string valid_names(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kMostNames = 20;
  if (candidates.empty()) return "valid: none";
  const std::size_t shown = std::min(candidates.size(), kMostNames);
  std::string text = fmt::format(
      "valid: {}",
      fmt::join(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < candidates.size()) text += fmt::format(" and {} more", candidates.size() - shown);
  const std::vector<std::string> near = near_matches(word, candidates);
  if (!near.empty()) text += fmt::format(" (did you mean '{}'?)", near.front());
  return text;
}

std::string valid_names(std::string_view word, std::span<const std::string_view> candidates) {
  return valid_names(word, std::vector<std::string>(candidates.begin(), candidates.end()));
}

}  // namespace dovetail::pipeline
