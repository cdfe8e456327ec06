#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "dialog/format.h"

namespace dovetail::dialog {

// What is around a control token's spelling where the engine marks it (grammar::control_token()).
inline constexpr char kTokenOpen = '\xff';
inline constexpr char kTokenClose = '\xfe';

inline constexpr std::string_view kIdPlace = "{id}";
inline constexpr std::string_view kIndexPlace = "{index}";

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
  std::string id = {};       // what stands at "{id}" or "{index}"
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

// The calls of OpenAI's `tool_calls` in this format. Arguments are JSON text or an object.
std::string write_calls(const CallFormat& format, const Json& calls);

// A member that is a string; else, or where there is none, an empty one.
std::string string_at(const Json& object, const char* name);

// Appends text as the inside of a JSON string.
void append_escaped(std::string& out, std::string_view text);

}  // namespace dovetail::dialog
