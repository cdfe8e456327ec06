#include "pipeline/sample/mistakes.h"

#include <fmt/format.h>

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

}  // namespace dovetail::pipeline
