#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace dovetail::pipeline {

// Whether a text has a "format" of JSON Schema (2020-12, section 7.3).
using FormatCheck = bool (*)(std::string_view text);

// Null where the format is not one that is checked.
FormatCheck format_check(std::string_view name);

// Those that are: date, time, date-time, uuid, ipv4, email.
std::vector<std::string_view> checked_formats();

}  // namespace dovetail::pipeline
