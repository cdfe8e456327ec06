#pragma once

#include <ctime>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "text/jinja_parser.h"

namespace dovetail::text::jinja {

struct RenderOptions {
  // What of the variables is untrusted; nothing where it is empty.
  Mark mark;
  // The local time that strftime_now() formats; the system's clock where it is empty. May be called
  // from whatever thread renders.
  std::function<std::tm()> now;
};

// Renders with the given top-level variables (a JSON object). Run-time errors are kInvalid with
// line and column; so is work, output, or nesting beyond the bounds in jinja_value.h. Depends on
// nothing but its arguments. In the text, bytes that came from untrusted strings are untrusted; so
// is what an operation that does not tell apart where its bytes came from made of any. Safe from
// several threads at once.
Result<MarkedText> render_template(const Template& parsed, const nlohmann::ordered_json& variables,
                                   const RenderOptions& options = {});

}  // namespace dovetail::text::jinja
