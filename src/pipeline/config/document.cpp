#include "pipeline/config/document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <sstream>

#include "pipeline/sample/mistakes.h"
#include "text/utf8.h"

namespace dovetail::pipeline {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxValues = 1'000'000;

template <class Number>
std::optional<Number> number(std::string_view text, int base = 10) {
  Number value{};
  const char* end = text.data() + text.size();
  std::from_chars_result result{};
  if constexpr (std::is_integral_v<Number>) {
    result = std::from_chars(text.data(), end, value, base);
  } else {
    result = std::from_chars(text.data(), end, value);
  }
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

// https://yaml.org/spec/1.2.2/#103-core-schema
Json plain_scalar(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL")
    return nullptr;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  std::string_view digits = text;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.empty() || (text[0] == '+' && digits[0] == '-')) return text;
  if (const auto integer = number<std::int64_t>(digits)) return *integer;
  if (const auto integer = number<std::uint64_t>(digits)) return *integer;
  if (text.starts_with("0x")) {
    if (const auto integer = number<std::uint64_t>(std::string_view(text).substr(2), 16))
      return *integer;
  }
  if (text.starts_with("0o")) {
    if (const auto integer = number<std::uint64_t>(std::string_view(text).substr(2), 8))
      return *integer;
  }
  // Not what from_chars takes beside: "inf", "nan" and hexadecimal.
  if (text.find_first_not_of("+-.eE0123456789") == std::string::npos) {
    if (const auto value = number<double>(digits); value && std::isfinite(*value)) return *value;
  }
  return text;
}

// On some texts ("," is one) the library tells of empty documents without end, where it cannot go
// on. This watches it before anything is kept: a text has no more parts than characters.
class Watcher : public YAML::EventHandler {
 public:
  explicit Watcher(std::size_t characters) : most_(2 * (characters + 1)) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    const bool stuck = documents_ > 0 && mark.pos == start_;
    if (stuck) throw YAML::ParserException(mark, "this is no YAML");
    if (++documents_ > 1) throw YAML::ParserException(mark, "a second document, expected one");
    start_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { count(mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { count(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string&) override {
    count(mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    count(mark);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    count(mark);
  }
  void OnMapEnd() override {}

 private:
  // A key without a value is a character and two parts.
  void count(const YAML::Mark& mark) {
    if (++parts_ > most_) throw YAML::ParserException(mark, "this is no YAML");
  }

  std::size_t most_;
  std::size_t parts_ = 0, documents_ = 0;
  int start_ = 0;  // of the last document
};

}  // namespace

class DocumentReader {
 public:
  explicit DocumentReader(Document& document) : document_(document) {}

  Result<Json> read(const YAML::Node& node, const std::string& pointer, int depth) {
    const YAML::Mark mark = node.Mark();
    document_.places_[pointer] = {mark.line + 1, mark.column + 1};
    if (depth > kMaxDepth) return wrong(pointer, "nested deeper than {} levels", kMaxDepth);
    if (++values_ > kMaxValues) return wrong(pointer, "more than {} values", kMaxValues);
    switch (node.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        return Json(nullptr);
      case YAML::NodeType::Scalar:
        if (!text::is_valid_utf8(node.Scalar())) return wrong(pointer, "the text is no UTF-8");
        // "?" is the tag of what stands there without quotes.
        if (node.Tag() == "?") return plain_scalar(node.Scalar());
        if (node.Tag() == "!" || node.Tag().empty()) return Json(node.Scalar());
        return wrong(pointer, "the tag {} is not supported", node.Tag());
      case YAML::NodeType::Sequence:
        return sequence(node, pointer, depth);
      case YAML::NodeType::Map:
        return map(node, pointer, depth);
    }
    return wrong(pointer, "unknown kind of value");
  }

 private:
  template <class... Args>
  tl::unexpected<Error> wrong(const std::string& pointer, fmt::format_string<Args...> format,
                              Args&&... args) {
    return fail(ErrorKind::kInvalid, "{}{}", document_.where(pointer),
                fmt::format(format, std::forward<Args>(args)...));
  }

  Result<Json> sequence(const YAML::Node& node, const std::string& pointer, int depth) {
    Json array = Json::array();
    std::size_t index = 0;
    for (const YAML::Node& item : node) {
      auto value = read(item, pointer_to(pointer, index++), depth + 1);
      if (!value) return value;
      array.push_back(*std::move(value));
    }
    return array;
  }

  Result<Json> map(const YAML::Node& node, const std::string& pointer, int depth) {
    Json object = Json::object();
    std::set<std::string> keys;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) return wrong(pointer, "a key that is no scalar");
      const std::string& key = entry.first.Scalar();
      if (!text::is_valid_utf8(key)) return wrong(pointer, "a key that is no UTF-8");
      const std::string place = pointer_to(pointer, key);
      auto value = read(entry.second, place, depth + 1);
      if (!value) return value;
      // A missing value has no place of its own; and a key is where people look.
      const YAML::Mark mark = entry.first.Mark();
      document_.places_[place] = {mark.line + 1, mark.column + 1};
      if (!keys.insert(key).second) return wrong(place, "the key stands here twice");
      object[key] = *std::move(value);
    }
    return object;
  }

  Document& document_;
  std::size_t values_ = 0;
};

Result<Document> Document::parse(std::string_view yaml, std::string name) {
  Document document;
  document.name_ = std::move(name);
  try {
    const std::string text(yaml);
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    Watcher watcher(text.size());
    while (parser.HandleNextDocument(watcher)) continue;
    DocumentReader reader(document);
    auto root = reader.read(YAML::Load(text), "", 0);
    if (!root) return fail(std::move(root.error()));
    document.root_ = *std::move(root);
  } catch (const YAML::Exception& error) {
    return fail(ErrorKind::kInvalid, "{}:{}:{}: {}", document.name_, error.mark.line + 1,
                error.mark.column + 1, error.msg);
  }
  return document;
}

std::string Document::where(std::string_view pointer) const {
  for (std::string_view nearest = pointer;;) {
    const auto found = places_.find(std::string(nearest));
    if (found != places_.end() && found->second.line > 0) {
      return fmt::format("{}:{}:{}: {}{}", name_, found->second.line, found->second.column, pointer,
                         pointer.empty() ? "" : ": ");
    }
    if (nearest.empty())
      return fmt::format("{}: {}{}", name_, pointer, pointer.empty() ? "" : ": ");
    nearest = nearest.substr(0, nearest.rfind('/'));
  }
}

Status Document::all_placed(std::string_view mistakes) const {
  Mistakes all;
  for (const std::string_view line : lines_of(mistakes)) {
    all.add(Error{ErrorKind::kInvalid, placed(line)});
  }
  return all.status();
}

std::string Document::placed(std::string_view message) const {
  // A key may hold ": " itself, so the longest pointer that is a place is the one.
  std::size_t end = message.starts_with('/') ? message.find(": ") : std::string_view::npos;
  std::size_t known = end;
  for (std::size_t at = end; at != std::string_view::npos; at = message.find(": ", at + 1)) {
    if (places_.contains(std::string(message.substr(0, at)))) known = at;
  }
  if (known == std::string_view::npos) return where("") + std::string(message);
  return where(message.substr(0, known)) + std::string(message.substr(known + 2));
}

}  // namespace dovetail::pipeline
