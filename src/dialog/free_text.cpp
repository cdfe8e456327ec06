#include "dialog/free_text.h"

#include <algorithm>

#include "dialog/texts.h"

namespace dovetail::dialog {

FreeText::Found FreeText::scan(std::string_view text, std::size_t at, bool last) const {
  for (std::size_t i = at; i < text.size(); ++i) {
    const char c = text[i];
    bool may_begin = c == kTokenOpen;
    for (const std::string& mark : marks_) may_begin = may_begin || mark.front() == c;
    if (!may_begin) continue;
    const std::string_view here = text.substr(i);
    // The longest counts: one may begin another.
    std::optional<std::size_t> longest;
    bool is_begin = false;
    for (std::size_t mark = 0; mark < marks_.size(); ++mark) {
      const std::string& its = marks_[mark];
      if (here.starts_with(its)) {
        if (!longest || its.size() > marks_[*longest].size()) longest = mark;
      } else {
        is_begin = is_begin || its.starts_with(here);
      }
    }
    if (is_begin && !last) return {.end = i};
    if (longest) return {.end = i, .mark = longest};
    if (c == kTokenOpen) {
      const std::size_t close = here.find(kTokenClose);
      if (close < kMaxName) {
        return {.end = i, .dropped = close + 1};
      }
      if (here.size() < kMaxName && !last) return {.end = i};
      return {.end = i, .dropped = here.size() < kMaxName ? here.size() : 1};
    }
  }
  return {.end = text.size()};
}

std::string Trimmer::add(std::string_view text) {
  if (skip_) {
    text = trim_left(text);
    if (text.empty()) return {};
    skip_ = false;
  }
  const std::string_view solid = trim_right(text);
  std::string out;
  if (!solid.empty()) {
    out = std::exchange(held_, {});
    out += solid;
  }
  held_ += text.substr(solid.size());
  if (held_.size() > kMaxHeld) {
    out += held_.substr(0, held_.size() - kMaxHeld);
    held_.erase(0, held_.size() - kMaxHeld);
  }
  return out;
}

}  // namespace dovetail::dialog
