#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "dialog/format.h"
#include "text/marked_text.h"

namespace dovetail::dialog {

// What is around a control token's spelling where the engine marks it (grammar::control_token()).
inline constexpr char kTokenOpen = '\xff';
inline constexpr char kTokenClose = '\xfe';

inline constexpr std::string_view kIdPlace = "{id}";
inline constexpr std::string_view kIndexPlace = "{index}";
inline constexpr std::string_view kNumberPlace = "{number}";
inline constexpr std::string_view kTypePlace = "{type}";

inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool is_name_char(char c);
std::string_view trim_left(std::string_view text);
std::string_view trim_right(std::string_view text);

enum class Match : std::uint8_t { kNo, kMore, kYes };  // kMore: `text` ends too early to tell

// The white space at the end of a literal.
enum class Trailing : std::uint8_t {
  kNone,   // stays in the text
  kExact,  // is taken as far as the text has it
  kAll,    // whatever the text has is taken
};

struct Matched {
  Match match = Match::kNo;
  std::size_t end = 0;
  std::string id = {};       // what stands at the last place
  std::string as_read = {};  // the literal as the text has it, with its places
};

// Whether `literal` stands in `text` at `at`, whatever white space is between its parts; in
// kMaxMatch bytes or not at all.
inline constexpr std::size_t kMaxMatch = 1024;
Matched match_text(std::string_view text, std::size_t at, std::string_view literal,
                   Trailing trailing = Trailing::kNone);

// What begins the calls of an answer: the start of the section or of the call, up to the first
// white space or bracket. Too short to tell a call from other text: empty.
std::string call_mark(const CallFormat& format);

// The calls of OpenAI's `tool_calls` in this format, whose texts alone are trusted. Arguments are
// JSON text or an object; `as_they_are`: texts of JSON are written as they stand.
text::MarkedText write_calls(const CallFormat& format, const Json& calls, bool as_they_are = false);

// The members of an object by their names, as templates sort them: capital letters are as others.
Json with_sorted_members(const Json& object);

// The id of a call where these have its name.
std::string name_index_id(std::string_view name, std::size_t index);

// A member that is a string; else, or where there is none, an empty one.
std::string string_at(const Json& object, const char* name);

// Appends text as the inside of a JSON string.
void append_escaped(std::string& out, std::string_view text);

}  // namespace dovetail::dialog
