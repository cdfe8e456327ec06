#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja_ast.h"

namespace dovetail::text::jinja {

// Longest template source, in bytes.
inline constexpr size_t kMaxSourceBytes = size_t{4} << 20;
// Deepest nesting of blocks, and of one expression's tree.
inline constexpr int kMaxTreeDepth = 200;

// A parsed template. Immutable, to be shared between threads.
struct Template {
  std::string name;
  std::string source;  // normalized
  Body body;
};

// Parses a template; `name` stands in front of every error. What is malformed is kInvalid, what
// Jinja has and this engine lacks is kUnsupported; both name it with line and column. As in Jinja,
// an unknown filter or test is an error here unless it stands in a branch, where it is one only if
// it is reached.
Result<std::shared_ptr<const Template>> parse_template(std::string_view source,
                                                       std::string_view name);

// Whether an expression of the template has the literal string `text`; comments and the text
// between tags do not count.
bool holds_string(const Template& parsed, std::string_view text);

// "NAME:LINE:COLUMN: MESSAGE" (line and column from 1, columns in code points).
Error locate(const JinjaError& error, std::string_view name, std::string_view source);

// The names that a template reads and does not bind itself, sorted, each once. A name that one
// branch binds counts as bound after it.
std::vector<std::string> names_read(const Template& parsed);
// The same without the global functions: what its variables must bring.
std::vector<std::string> free_names(const Template& parsed);

}  // namespace dovetail::text::jinja
