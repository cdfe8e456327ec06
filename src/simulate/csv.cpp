#include "simulate/csv.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace dovetail::simulate {
namespace {

constexpr std::size_t kAbsent = std::numeric_limits<std::size_t>::max();
constexpr std::uintmax_t kLongestFile = std::uintmax_t{4} << 30;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t comma = line.find(',');
    fields.push_back(trimmed(line.substr(0, comma)));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<CsvTable> parse_csv(std::string_view text, std::string_view name,
                           std::initializer_list<std::string_view> needed,
                           std::initializer_list<std::string_view> optional) {
  CsvTable table;
  table.columns.assign(needed);
  table.columns.insert(table.columns.end(), optional);
  std::vector<std::size_t> place;  // of each column in a line
  std::size_t width = 0;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    const std::vector<std::string_view> fields = fields_of(line);
    if (place.empty()) {
      width = fields.size();
      for (const std::string_view field : fields) {
        if (std::find(table.columns.begin(), table.columns.end(), field) == table.columns.end() ||
            std::count(fields.begin(), fields.end(), field) > 1)
          return fail(ErrorKind::kInvalid,
                      "{}:{}: column '{}' is unknown or there twice, expected {}", name, number,
                      field, fmt::join(table.columns, ", "));
      }
      for (std::size_t i = 0; i < table.columns.size(); ++i) {
        const auto found = std::find(fields.begin(), fields.end(), table.columns[i]);
        if (found == fields.end() && i < needed.size())
          return fail(ErrorKind::kInvalid, "{}:{}: column '{}' is missing", name, number,
                      table.columns[i]);
        place.push_back(found == fields.end() ? kAbsent
                                              : static_cast<std::size_t>(found - fields.begin()));
      }
      continue;
    }
    if (fields.size() != width)
      return fail(ErrorKind::kInvalid, "{}:{}: {} fields, expected {}", name, number, fields.size(),
                  width);
    CsvRow row{number, {}};
    for (std::size_t i = 0; i < place.size(); ++i) {
      double value = 0.0;
      if (place[i] != kAbsent) {
        const std::string_view field = fields[place[i]];
        const auto [stop, error] =
            std::from_chars(field.data(), field.data() + field.size(), value);
        if (error != std::errc() || stop != field.data() + field.size() || !std::isfinite(value))
          return fail(ErrorKind::kInvalid, "{}:{}: {}: '{}' is no number", name, number,
                      table.columns[i], field.substr(0, 64));
      }
      row.values.push_back(value);
    }
    table.rows.push_back(std::move(row));
  }
  if (place.empty())
    return fail(ErrorKind::kInvalid, "{}: it is empty, expected a line of names: {}", name,
                fmt::join(table.columns, ", "));
  return table;
}

Result<std::string> read_csv_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return fail(ErrorKind::kIo, "{}: {}", path, std::strerror(errno));
  const auto size = file.tellg();
  if (size < 0 || static_cast<std::uintmax_t>(size) > kLongestFile)
    return fail(ErrorKind::kInvalid, "{}: it is too long, expected at most {} bytes", path,
                kLongestFile);
  std::string text(static_cast<std::size_t>(size), '\0');
  file.seekg(0);
  if (!file.read(text.data(), size)) return fail(ErrorKind::kIo, "{}: cannot be read", path);
  return text;
}

}  // namespace dovetail::simulate
