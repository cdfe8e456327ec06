#pragma once

#include <string>
#include <string_view>

namespace dovetail::pipeline {

// Text for XML and HTML, in elements and in attributes with double quotes: & < > " ' as entities;
// bytes that are no UTF-8 and characters that XML does not allow as U+FFFD.
std::string escaped(std::string_view text);

}  // namespace dovetail::pipeline
