#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dialog/format.h"

namespace dovetail::dialog::test {

// A template in the manner of a family's, and what it should be found to be.
struct Family {
  std::string row;
  // Jinja expressions of a call `f` (its name and arguments), `id` and `index`; texts around them.
  std::string call = "";
  std::string section_open = "", section_close = "", between = "";
  std::vector<std::string> control_tokens = {};
  bool parallel = true;
  std::string reasoning_open = "", reasoning_close = "";
  std::string content_open = "", content_close = "";  // around what an assistant says
  std::string macros = "";                            // ahead of the template
  std::string built_in = "";  // the name of the built-in template that it is, instead of all that
};

const std::vector<Family>& families();

// The template's text: roles as <|role|>, tools as JSON, one a line.
std::string template_of(const Family& family);

DialogFormat detect(std::string_view source, std::vector<std::string> control_tokens);
inline DialogFormat detect(const Family& family) {
  return detect(template_of(family), family.control_tokens);
}

}  // namespace dovetail::dialog::test
