#pragma once

#include <string>
#include <string_view>

namespace dovetail::text {

// Whether a terminal, or a reader's eye, obeys a character instead of showing it: control
// characters (C0, DEL, C1), line and paragraph separators, and what sets the direction of text.
bool is_unseen_control(char32_t value);

// A text that came from a model or a file as a terminal may show it: valid UTF-8 in which every
// such character but line feed and tab is a visible stand-in, U+2400 and on for ASCII ("␛"),
// "<U+202E>" for others.
std::string visible_text(std::string_view text);

}  // namespace dovetail::text
