#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "dialog/format.h"
#include "text/marked_text.h"

namespace dovetail::dialog {

// Arguments in which each value is an element (ArgumentStyle::kElements): between `key_open`, its
// name and `key_close`, and `value_close`, its name and `key_close`. Objects are elements of their
// members, arrays of their items.
inline constexpr std::string_view kItem = "item";
// Values nested deeper are JSON.
inline constexpr int kMaxElements = 16;

// Where a value ends in a text that comes in pieces.
class ElementScanner {
 public:
  // In `text`, which begins where it began before and only grows: where the text that closes the
  // value begins. Each byte is looked at once.
  std::optional<std::size_t> find_end(std::string_view text, const CallFormat& format);

 private:
  std::size_t seen_ = 0;
  std::size_t depth_ = 0;
};

// What a schema's instance is written as.
enum class ElementKind : std::uint8_t { kObject, kArray, kText };

struct ElementSchema {
  std::string at;  // a JSON pointer, behind the references that lead on from where it was asked for
  ElementKind kind = ElementKind::kText;
};
ElementSchema element_schema(const Json& document, std::string at);

// The value that stands between the texts, of the schema at `at` ("": whatever it is).
Json read_element(const CallFormat& format, const Json& document,
                  const std::optional<std::string>& at, std::string_view text, int depth = 0);

void append_element(text::MarkedText& out, const CallFormat& format, const std::string& name,
                    const Json& value);

}  // namespace dovetail::dialog
