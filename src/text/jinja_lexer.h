#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::text::jinja {

enum class TokenType {
  kData,           // text between tags, white space control already applied
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kName,
  kString,   // text: the string with its escapes resolved
  kInteger,  // text: as written
  kFloat,    // text: as written
  kOperator,
  kEnd,
};

struct Token {
  TokenType type;
  std::string text;
  size_t offset;  // byte in the source where it starts
};

// How a token is named in an error message.
std::string describe(const Token& token);

// Line ends become \n and one trailing line end goes: the source that offsets refer to.
std::string normalize_source(std::string_view source);

// Splits a normalized source into tokens, the last of them kEnd. Jinja's lexer with trim_blocks and
// lstrip_blocks on: the line end after a block tag or comment goes, and so does the indentation in
// front of it; `-` strips all white space on its side, `+` keeps it. {% raw %} becomes data.
// Throws JinjaError.
std::vector<Token> tokenize(std::string_view source);

}  // namespace dovetail::text::jinja
