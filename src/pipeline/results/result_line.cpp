#include "pipeline/results/result_line.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "text/utf8.h"

namespace dovetail::pipeline {
namespace {

std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void append_field(std::string_view text, bool quoted, std::string& out) {
  if (!quoted && text.find_first_of("\",\r\n") == std::string_view::npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

void append_text(const std::string& text, std::string& out) {
  // What JSON makes of such bytes is what the store keeps.
  if (!text::is_valid_utf8(text)) {
    return append_field(Json::parse(json_text(text)).get_ref<const std::string&>(), false, out);
  }
  append_field(text, text.empty(), out);
}

void append_value(const Json& value, std::string& out) {
  if (value.is_null()) return;
  if (value.is_number_float() && !std::isfinite(value.get<double>())) return;
  if (value.is_string()) return append_text(value.get_ref<const std::string&>(), out);
  append_field(json_text(value), false, out);
}

}  // namespace

void append_json_line(const Json& row, std::string& out) {
  out += json_text(row);
  out += '\n';
}

void append_dropped_line(std::uint64_t record, std::string_view reason, const Json& row,
                         std::string& out) {
  Json line = Json::object();
  line["record"] = record;
  line["reason"] = reason;
  line["row"] = row;
  append_json_line(line, out);
}

void append_csv_line(const Json& row, std::span<const std::string> columns, std::string& out) {
  const std::size_t begin = out.size();
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (i > 0) out += ',';
    if (const auto value = row.find(columns[i]); value != row.end()) append_value(*value, out);
  }
  // A blank line is no record to most readers.
  if (out.size() == begin && columns.size() == 1) out += "\"\"";
  out += "\r\n";
}

void append_csv_header(std::span<const std::string> columns, std::string& out) {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (i > 0) out += ',';
    append_field(columns[i], columns[i].empty(), out);
  }
  out += "\r\n";
}

}  // namespace dovetail::pipeline
