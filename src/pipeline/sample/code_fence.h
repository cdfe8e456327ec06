#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dovetail::pipeline {

// A fenced code block of Markdown (CommonMark 0.31, section 4.5).
struct CodeBlock {
  std::string info;      // what stands behind the opening fence, trimmed
  std::string language;  // its first word in lower case, without {, . and what follows a : or ,
  std::string code;    // without the fences and their indentation; ends in a line end if any lines
  bool closed = true;  // false where the text ends first: the answer was cut off
};

// All fenced blocks of a text, in order. Fences may be indented by up to three spaces, or by more
// within a list item, and may stand right behind a list marker.
std::vector<CodeBlock> find_code_blocks(std::string_view text);

struct CodeFenceOptions {
  std::string language;     // empty: any; the common short names count as well (py, js, c++, ...)
  bool last = true;         // which one is taken of several: the last or the first
  bool whole_text = false;  // whether a text without any fence is taken as it is, trimmed
  bool unclosed = true;     // whether a block that the text's end cuts off counts
};

// The code in an answer: of the blocks in the language, or, where there are none, of those that
// name no language, the last or first. kInvalid where nothing fits; the message names the languages
// found.
Result<std::string> extract_code(std::string_view answer, const CodeFenceOptions& options);

// The name under which languages are compared: "py" and "Python3" are "python".
std::string canonical_language(std::string_view name);

}  // namespace dovetail::pipeline
