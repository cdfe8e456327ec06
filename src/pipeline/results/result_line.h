#pragma once

#include <span>
#include <string>

#include "base/json.h"

namespace dovetail::pipeline {

// Lines of result files. Each is appended with its line end and depends on nothing but what the
// row is as JSON text: a row that was read back from the store gives the same bytes as the one that
// went into it (bytes that are no UTF-8 are U+FFFD in both, NaN and infinity are null).

// One line of JSON.
void append_json_line(const Json& row, std::string& out);

// {"record": N, "reason": "...", "row": {...}} on one line.
void append_dropped_line(std::uint64_t record, std::string_view reason, const Json& row,
                         std::string& out);

// A record of comma-separated values (RFC 4180, lines end in CR LF) with the values of `columns`,
// in that order: strings as they are, numbers and flags as JSON writes them, arrays and objects as
// JSON text, null and what is not there as nothing. The empty string is "" with its quotes.
void append_csv_line(const Json& row, std::span<const std::string> columns, std::string& out);

void append_csv_header(std::span<const std::string> columns, std::string& out);

}  // namespace dovetail::pipeline
