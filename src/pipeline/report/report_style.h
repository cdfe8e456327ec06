#pragma once

#include <string_view>

namespace dovetail::pipeline {

// The style sheet of html_report(), without "<" and "&", so that it may stand in XHTML as it is.
extern const std::string_view kReportStyle;

}  // namespace dovetail::pipeline
