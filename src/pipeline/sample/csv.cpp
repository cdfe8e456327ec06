#include "pipeline/sample/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

namespace dovetail::pipeline {

namespace {

using State = CsvRecord::State;

void set_error(CsvRecord& out, std::size_t at, std::string_view message) {
  out.state = State::kError;
  out.error = message;
  out.error_at = at;
}

// The bytes of a line end at `at`: 0 where there is none. `needs_more` where a CR ends the text.
std::size_t line_end(std::string_view text, std::size_t at, bool& needs_more) {
  if (text[at] == '\n') return 1;
  if (text[at] != '\r') return 0;
  needs_more = at + 1 == text.size();
  return !needs_more && text[at + 1] == '\n' ? 2 : 0;
}

}  // namespace

void parse_csv_record(std::string_view text, char delimiter, bool last, CsvRecord& out) {
  out.state = State::kNeedsMore;
  out.fields.clear();
  const char stops[] = {delimiter, '"', '\n', '\r'};
  const std::string_view stop_set(stops, sizeof stops);
  std::size_t at = 0;
  for (bool first = true;; first = false) {
    std::string field;
    if (at < text.size() && text[at] == '"') {
      const std::size_t opening = at++;
      for (;;) {
        const std::size_t quote = text.find('"', at);
        // A quote at the very end may be the first half of a doubled one.
        const bool cut = quote == std::string_view::npos || quote + 1 == text.size();
        if (cut && !last) return;
        if (quote == std::string_view::npos) {
          return set_error(out, opening,
                           "a quoted field that does not end; valid: a closing quote");
        }
        field.append(text.substr(at, quote - at));
        at = quote + 1;
        if (at == text.size() || text[at] != '"') break;
        field += '"';
        ++at;
      }
    } else {
      const std::size_t end = std::min(text.find_first_of(stop_set, at), text.size());
      field.assign(text.substr(at, end - at));
      at = end;
      if (at < text.size() && text[at] == '"') {
        return set_error(out, at,
                         "a quote inside of an unquoted field; valid: the whole field in quotes, "
                         "quotes within doubled");
      }
    }
    if (at == text.size()) {
      if (!last) return;
      out.fields.push_back(std::move(field));
      out.consumed = at;
      out.state = first && text.empty() ? State::kEmpty : State::kComplete;
      return;
    }
    if (text[at] == delimiter) {
      out.fields.push_back(std::move(field));
      ++at;
      continue;
    }
    bool needs_more = false;
    const std::size_t end = line_end(text, at, needs_more);
    if (needs_more && !last) return;
    if (end == 0) {
      return set_error(out, at,
                       text[at] == '\r'
                           ? "a carriage return without line feed; valid: lines that end in LF or "
                             "CRLF"
                           : "text behind a closing quote; valid: a delimiter or the line's end");
    }
    out.state = first && at == 0 ? State::kEmpty : State::kComplete;
    out.fields.push_back(std::move(field));
    out.consumed = at + end;
    return;
  }
}

namespace {

// [-] digits without a leading zero [. digits] [e [+-] digits]. `whole`: without the latter two.
bool is_json_number(std::string_view text, bool& whole) {
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t start = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - start;
  };
  if (at < text.size() && text[at] == '-') ++at;
  const std::size_t first = at;
  const std::size_t count = digits();
  if (count == 0 || (count > 1 && text[first] == '0')) return false;
  whole = at == text.size();
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (digits() == 0) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

std::optional<std::int64_t> int_in(const std::string& field) {
  bool whole = false;
  if (!is_json_number(field, whole) || !whole) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<double> number_in(const std::string& field) {
  bool whole = false;
  if (!is_json_number(field, whole)) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<bool> truth_in(const std::string& field) {
  if (field == "true" || field == "True" || field == "TRUE") return true;
  if (field == "false" || field == "False" || field == "FALSE") return false;
  return std::nullopt;
}

}  // namespace

void TypeGuess::see(const std::string& field) {
  if (field.empty()) return;
  seen_ = true;
  if (int_) int_ = int_in(field).has_value();
  if (number_ && !int_) number_ = number_in(field).has_value();
  if (truth_) truth_ = truth_in(field).has_value();
}

SeedType TypeGuess::type() const {
  if (!seen_) return SeedType::kString;
  if (int_) return SeedType::kInt;
  if (number_) return SeedType::kFloat;
  return truth_ ? SeedType::kBool : SeedType::kString;
}

std::optional<nlohmann::ordered_json> typed_field(const std::string& field, SeedType type) {
  using nlohmann::ordered_json;
  if (type == SeedType::kString) return ordered_json(field);
  if (field.empty()) return ordered_json();
  if (type == SeedType::kInt) {
    const auto value = int_in(field);
    return value ? std::optional<ordered_json>(*value) : std::nullopt;
  }
  if (type == SeedType::kFloat) {
    const auto value = number_in(field);
    return value ? std::optional<ordered_json>(*value) : std::nullopt;
  }
  const auto value = truth_in(field);
  return value ? std::optional<ordered_json>(*value) : std::nullopt;
}

}  // namespace dovetail::pipeline
