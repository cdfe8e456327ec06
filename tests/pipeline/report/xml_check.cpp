#include "xml_check.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <vector>

#include "text/utf8.h"

namespace dovetail::pipeline {
namespace {

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == ':';
}

class Check {
 public:
  explicit Check(std::string_view page) : page_(page) {}

  std::optional<std::string> run() {
    if (!text::is_valid_utf8(page_)) return "no UTF-8";
    for (const char c : page_) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x20 && c != '\n' && c != '\t' && c != '\r') return "a control character";
    }
    if (page_.find("\xef\xbf\xbe") != page_.npos || page_.find("\xef\xbf\xbf") != page_.npos) {
      return "no character";
    }
    constexpr std::string_view kDoctype = "<!DOCTYPE html>\n";
    if (page_.starts_with(kDoctype)) at_ = kDoctype.size();
    while (at_ < page_.size() && fault_.empty()) page_[at_] == '<' ? tag() : text();
    if (fault_.empty() && !open_.empty()) fault_ = "not closed: " + open_.back();
    if (fault_.empty() && roots_ != 1) fault_ = "not one root";
    if (fault_.empty()) return std::nullopt;
    return fault_ + " before: " + std::string(page_.substr(at_, 60));
  }

 private:
  void text() {
    const std::size_t end = std::min(page_.find('<', at_), page_.size());
    const std::string_view text = page_.substr(at_, end - at_);
    if (open_.empty() && text.find_first_not_of(" \n") != text.npos) fault_ = "text outside";
    if (text.find("]]>") != text.npos) fault_ = "]]>";
    entities(text);
    at_ = end;
  }

  void entities(std::string_view text) {
    constexpr std::array<std::string_view, 5> kKnown{"amp", "lt", "gt", "quot", "#39"};
    for (std::size_t at = text.find('&'); at != text.npos; at = text.find('&', at + 1)) {
      const std::size_t end = text.find(';', at);
      const auto name = end == text.npos ? std::string_view() : text.substr(at + 1, end - at - 1);
      if (std::find(kKnown.begin(), kKnown.end(), name) == kKnown.end()) {
        fault_ = "unknown entity " + std::string(text.substr(at, 12));
      }
    }
  }

  std::string name() {
    const std::size_t begin = at_;
    while (at_ < page_.size() && is_name(page_[at_])) ++at_;
    return std::string(page_.substr(begin, at_ - begin));
  }
  bool take(std::string_view what) {
    if (!page_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }

  void tag() {
    if (take("</")) {
      const std::string closed = name();
      if (!take(">") || open_.empty() || open_.back() != closed) {
        fault_ = "</" + closed + "> closes " + (open_.empty() ? "nothing" : open_.back());
      } else {
        open_.pop_back();
      }
      return;
    }
    ++at_;
    const std::string opened = name();
    if (opened.empty()) {
      fault_ = "a tag without a name";
      return;
    }
    if (open_.empty()) ++roots_;
    std::set<std::string> seen;
    while (fault_.empty()) {
      const bool space = at_ < page_.size() && (page_[at_] == ' ' || page_[at_] == '\n');
      while (take(" ") || take("\n")) {
      }
      if (take("/>")) return;
      if (take(">")) {
        open_.push_back(opened);
        return;
      }
      attribute(space, seen);
    }
  }

  void attribute(bool space, std::set<std::string>& seen) {
    const std::string key = name();
    if (!space || key.empty() || !take("=\"")) {
      fault_ = "an attribute " + key;
      return;
    }
    if (!seen.insert(key).second) fault_ = "twice " + key;
    const std::size_t end = page_.find('"', at_);
    const std::string_view value = page_.substr(at_, end == page_.npos ? end : end - at_);
    if (end == page_.npos || value.find('<') != value.npos) {
      fault_ = "the value of " + key;
      return;
    }
    entities(value);
    at_ = end + 1;
  }

  std::string_view page_;
  std::size_t at_ = 0;
  int roots_ = 0;
  std::vector<std::string> open_;
  std::string fault_;
};

}  // namespace

std::optional<std::string> xml_fault(std::string_view page) { return Check(page).run(); }

}  // namespace dovetail::pipeline
