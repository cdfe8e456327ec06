#include "pipeline/sample/mistakes.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

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

namespace {

// Names in specifications are short; a long one is compared by its start, so that a hostile file
// cannot make this slow.
constexpr std::size_t kLongest = 64;
constexpr std::size_t kMostNames = 20;

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

}  // namespace

std::string_view near_match(std::string_view word, std::span<const std::string_view> candidates) {
  word = word.substr(0, kLongest);
  std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1;
  std::string_view nearest;
  for (const std::string_view candidate : candidates) {
    const std::size_t found = distance(word, candidate.substr(0, kLongest));
    if (found < best && found < candidate.size()) {
      best = found;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string valid_names(std::string_view word, std::span<const std::string_view> candidates) {
  if (candidates.empty()) return "valid: none";
  const std::size_t shown = std::min(candidates.size(), kMostNames);
  std::string text = "valid: ";
  for (std::size_t i = 0; i < shown; ++i) {
    if (i != 0) text += ", ";
    text += candidates[i];
  }
  if (shown < candidates.size()) text += fmt::format(" and {} more", candidates.size() - shown);
  const std::string_view nearest = near_match(word, candidates);
  if (!nearest.empty()) text += fmt::format(" (did you mean '{}'?)", nearest);
  return text;
}

std::string valid_names(std::string_view word, const std::vector<std::string>& candidates) {
  const std::vector<std::string_view> views(candidates.begin(), candidates.end());
  return valid_names(word, views);
}

}  // namespace dovetail::pipeline
