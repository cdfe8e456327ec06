#pragma once

#include <span>
#include <string_view>

namespace dovetail::text {

// A file of templates/, made part of the program when it is built.
struct TemplateText {
  std::string_view name;  // without .jinja
  std::string_view text;
};
std::span<const TemplateText> template_texts();

}  // namespace dovetail::text
