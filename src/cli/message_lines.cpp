#include "cli/message_lines.h"

#include <string_view>
#include <utility>

namespace dovetail::cli {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";

// Without blanks behind it.
std::string_view stripped(std::string_view line) {
  return line.substr(0, line.find_last_not_of(" \t") + 1);
}

}  // namespace

std::optional<TypedMessage> MessageLines::add(std::string line) {
  if (!begun_) {
    begun_ = true;
    const std::size_t begin = line.find_first_not_of(" \t");
    quoted_ =
        begin != std::string::npos && std::string_view(line).substr(begin).starts_with(kQuotes);
    if (quoted_) line.erase(0, begin + kQuotes.size());
    if (quoted_ && line.empty()) return std::nullopt;
  }
  const bool closed = quoted_ && stripped(line).ends_with(kQuotes);
  const bool goes_on = quoted_ ? !closed : line.ends_with('\\');
  if (closed) {
    line.resize(stripped(line).size() - kQuotes.size());
  } else if (!quoted_ && goes_on) {
    line.pop_back();
  }
  const bool quotes_alone = closed && line.empty();
  if (!quotes_alone) {
    if (lines_++ > 0) text_ += '\n';
    text_ += line;
  }
  if (goes_on) return std::nullopt;
  TypedMessage message{std::move(text_), quoted_};
  clear();
  return message;
}

void MessageLines::clear() { *this = MessageLines(); }

}  // namespace dovetail::cli
