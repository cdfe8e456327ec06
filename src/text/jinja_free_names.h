#pragma once

#include <string>
#include <vector>

#include "text/jinja_parser.h"

namespace dovetail::text::jinja {

// The names that a template reads and does not bind itself: what its variables must bring. Sorted,
// each once, without the global functions. A name that one branch binds counts as bound after it.
std::vector<std::string> free_names(const Template& parsed);

}  // namespace dovetail::text::jinja
