#include "pipeline/report/xml_text.h"

#include "text/utf8.h"

namespace dovetail::pipeline {

std::string escaped(std::string_view text) {
  const std::string valid = text::repair_utf8(text);
  std::string out;
  out.reserve(valid.size());
  for (std::size_t at = 0; at < valid.size();) {
    const auto [value, size] = text::code_point_at(valid, at);
    const bool allowed = value >= 0x20 ? value != 0x7F && value != 0xFFFE && value != 0xFFFF
                                       : value == '\n' || value == '\t';
    if (value == '&') {
      out += "&amp;";
    } else if (value == '<') {
      out += "&lt;";
    } else if (value == '>') {
      out += "&gt;";
    } else if (value == '"') {
      out += "&quot;";
    } else if (value == '\'') {
      out += "&#39;";
    } else if (value == '\r') {
      // HTML reads it as a line end of its own.
      if (at + 1 == valid.size() || valid[at + 1] != '\n') out += '\n';
    } else if (!allowed) {
      text::append_utf8(out, 0xFFFD);
    } else {
      out.append(valid, at, size);
    }
    at += size;
  }
  return out;
}

}  // namespace dovetail::pipeline
