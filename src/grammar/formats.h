#pragma once

#include <string_view>

namespace dovetail::grammar {

// The regular expression of a "format" of JSON Schema, for the whole text; empty where the format
// is not supported.
std::string_view format_pattern(std::string_view name);

// Those supported, for messages.
constexpr std::string_view kFormats = "date, time, date-time, uuid, ipv4, email";

}  // namespace dovetail::grammar
