#include "pipeline/report/progress_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

namespace dovetail::pipeline {
namespace {

using Fields = std::vector<std::string>;

constexpr std::string_view kGap = "  ";
constexpr std::size_t kLongestName = 24;
constexpr std::size_t kShortestBar = 8, kLongestBar = 40;

struct BarPart {
  std::uint64_t cells = 0;
  std::string_view sign, ascii;
  std::string_view colour;  // SGR
};

// Parts of a bar of `width` signs; a part that is not empty has at least one, what is not ended
// yet too.
std::string bar(std::array<BarPart, 4> parts, std::size_t width, const TerminalStyle& style) {
  std::uint64_t total = 0;
  for (const BarPart& part : parts) total += part.cells;
  if (total == 0) parts.back().cells = total = 1;
  std::array<std::size_t, 4> signs{};
  std::size_t used = 0;
  double cells = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    cells += static_cast<double>(parts[i].cells);
    const auto end = static_cast<std::size_t>(
        std::lround(cells / static_cast<double>(total) * static_cast<double>(width)));
    signs[i] = end - used;
    used = end;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (signs[i] > 0 || parts[i].cells == 0) continue;
    --*std::max_element(signs.begin(), signs.end());
    signs[i] = 1;
  }
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (signs[i] == 0) continue;
    if (style.colour) out += parts[i].colour;
    for (std::size_t n = 0; n < signs[i]; ++n) {
      out += style.unicode ? parts[i].sign : parts[i].ascii;
    }
    if (style.colour) out += "\x1b[0m";
  }
  return out;
}

std::string rate_text(const std::optional<double>& rate) {
  return rate ? compact(*rate) + "/s" : "";
}

std::string left_text(const std::optional<std::chrono::microseconds>& left) {
  return left ? duration_text(*left) : "";
}

std::optional<std::chrono::microseconds> time_for(std::uint64_t cells,
                                                  const std::optional<double>& rate) {
  if (cells == 0) return std::chrono::microseconds(0);
  if (!rate || !(*rate > 0)) return std::nullopt;
  const double seconds = static_cast<double>(cells) / *rate;
  // Ten years; a rate that small tells nothing.
  if (seconds > 3.2e8) return std::nullopt;
  return std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6));
}

std::uint64_t ended(const ColumnProgress& column) {
  return column.done + column.failed + column.skipped;
}
std::uint64_t to_do(std::uint64_t total, std::uint64_t ended) {
  return total > ended ? total - ended : 0;
}

struct Row {
  std::string name;
  std::array<BarPart, 4> parts;
  Fields fields;
};

std::array<BarPart, 4> parts_of(std::uint64_t done, std::uint64_t failed, std::uint64_t in_flight,
                                std::uint64_t total) {
  const std::uint64_t rest = to_do(total, done + failed + in_flight);
  return {{{done, "█", "#", "\x1b[32m"},
           {failed, "×", "x", "\x1b[31m"},
           {in_flight, "▒", ">", "\x1b[36m"},
           {rest, "·", ".", "\x1b[2m"}}};
}

Row row_of(const ColumnProgress& column) {
  const std::uint64_t left = to_do(column.total, ended(column));
  return {printable(column.name),
          parts_of(column.done + column.skipped, column.failed, column.in_flight, column.total),
          {fmt::format("{}/{}", grouped(ended(column)), grouped(column.total)),
           left == 0 ? "" : rate_text(column.rate),
           left == 0 ? "" : left_text(time_for(left, column.rate)),
           column.in_flight == 0 ? "" : fmt::format("{} in flight", grouped(column.in_flight)),
           column.failed == 0 ? "" : fmt::format("{} failed", grouped(column.failed)),
           column.skipped == 0 ? "" : fmt::format("{} skipped", grouped(column.skipped))}};
}

// Of a run that ends with so many accepted records, at the share accepted so far.
std::optional<std::chrono::microseconds> time_to_target(const ProgressView& view) {
  const std::uint64_t ended = view.records_done + view.records_dropped;
  if (!view.record_rate || ended == 0) return std::nullopt;
  const double share = static_cast<double>(view.records_done) / static_cast<double>(ended);
  return time_for(to_do(view.records_wanted, view.records_done), *view.record_rate * share);
}

// "8 accepted of 8 wanted, 30 records allowed"
std::string target_text(const ProgressView& view) {
  return fmt::format("{} accepted of {} wanted, {} records allowed", grouped(view.records_done),
                     grouped(view.records_wanted), grouped(view.records_total));
}

Row target_row(const ProgressView& view) {
  const std::uint64_t left = to_do(view.records_wanted, view.records_done);
  const std::uint64_t ended = view.records_done + view.records_dropped;
  return {
      "accepted",
      parts_of(view.records_done, 0, 0, view.records_wanted),
      {fmt::format("{}/{}", grouped(view.records_done), grouped(view.records_wanted)),
       left == 0 ? "" : rate_text(view.record_rate),
       left == 0 ? "" : left_text(time_to_target(view)), "",
       view.records_dropped == 0 ? "" : fmt::format("{} dropped", grouped(view.records_dropped)),
       fmt::format("{} of {} records", grouped(ended), grouped(view.records_total))}};
}

Row records_row(const ProgressView& view) {
  if (view.records_wanted > 0) return target_row(view);
  const std::uint64_t ended = view.records_done + view.records_dropped;
  const std::uint64_t left = to_do(view.records_total, ended);
  return {
      "records",
      parts_of(view.records_done, view.records_dropped, 0, view.records_total),
      {fmt::format("{}/{}", grouped(ended), grouped(view.records_total)),
       left == 0 ? "" : rate_text(view.record_rate), left == 0 ? "" : left_text(time_left(view)),
       "",
       view.records_dropped == 0 ? "" : fmt::format("{} dropped", grouped(view.records_dropped)),
       ""}};
}

// All rows' fields one below the other; a field that no row has takes no room.
void align(std::vector<Row>& rows) {
  for (std::size_t f = 0; f < rows.front().fields.size(); ++f) {
    std::size_t widest = 0;
    for (const Row& row : rows) widest = std::max(widest, display_width(row.fields[f]));
    for (Row& row : rows) {
      row.fields[f] = widest == 0 ? "" : std::string(kGap) + pad_left(row.fields[f], widest);
    }
  }
}

std::string sums(const ProgressView& view) {
  std::string line = fmt::format("elapsed {}", duration_text(view.elapsed));
  if (view.tokens_in + view.tokens_out > 0) {
    line += fmt::format("  tokens {} in, {} out", compact(static_cast<double>(view.tokens_in)),
                        compact(static_cast<double>(view.tokens_out)));
  }
  if (view.cost > 0) line += fmt::format("  cost {}", cost_text(view.cost));
  return line;
}

std::string without_end(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::optional<std::chrono::microseconds> time_left(const ProgressView& view) {
  if (view.records_wanted > 0) return time_to_target(view);
  std::optional<std::chrono::microseconds> left(0);
  for (const ColumnProgress& column : view.columns) {
    // What dropped records lack is never made.
    const auto cells = to_do(column.total, ended(column) + view.records_dropped);
    const auto time = time_for(cells, column.rate);
    if (!time) return std::nullopt;
    left = std::max(*left, *time);
  }
  return left;
}

std::vector<std::string> progress_lines(const ProgressView& view, const TerminalStyle& style) {
  std::vector<Row> rows{records_row(view)};
  for (const ColumnProgress& column : view.columns) rows.push_back(row_of(column));
  align(rows);
  std::size_t name_width = 0, field_width = 0;
  for (const Row& row : rows) name_width = std::max(name_width, display_width(row.name));
  for (const EndpointProgress& endpoint : view.endpoints) {
    name_width = std::max(name_width, display_width(printable(endpoint.name)));
  }
  name_width = std::min({name_width, kLongestName, std::max<std::size_t>(style.width / 4, 8)});
  for (const std::string& field : rows.front().fields) field_width += display_width(field);

  const std::size_t taken = name_width + kGap.size() + field_width;
  const std::size_t bar_width =
      taken + kShortestBar <= style.width ? std::min(style.width - taken, kLongestBar) : 0;
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    std::string fields;
    for (const std::string& field : row.fields) fields += field;
    const std::string name = pad_right(shorten(row.name, name_width, style.unicode), name_width);
    if (bar_width > 0) {
      // The bar holds escape sequences, so that it cannot be cut; what is around it fits.
      lines.push_back(
          without_end(name + std::string(kGap) + bar(row.parts, bar_width, style) + fields));
    } else {
      lines.push_back(shorten(without_end(name + fields), style.width, style.unicode));
    }
  }
  std::size_t slots_width = 0;
  for (const EndpointProgress& endpoint : view.endpoints) {
    slots_width =
        std::max(slots_width, fmt::format("{}/{}", endpoint.in_flight, endpoint.limit).size());
  }
  for (const EndpointProgress& endpoint : view.endpoints) {
    const std::string name = shorten(printable(endpoint.name), name_width, style.unicode);
    const std::string line =
        fmt::format("{}  {} in flight  {}", pad_right(name, name_width),
                    pad_left(fmt::format("{}/{}", endpoint.in_flight, endpoint.limit), slots_width),
                    words_of(endpoint.cause));
    lines.push_back(shorten(line, style.width, style.unicode));
  }
  lines.push_back(shorten(sums(view), style.width, style.unicode));
  return lines;
}

std::size_t rows_of(const std::vector<std::string>& lines, std::size_t width) {
  std::size_t rows = 0;
  for (const std::string& line : lines) {
    std::string plain;  // without the sequences that colour it
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '\x1b') {
        i = std::min(line.find('m', i), line.size());
      } else {
        plain += line[i];
      }
    }
    const std::size_t wide = display_width(plain);
    rows += width == 0 ? 1 : std::max<std::size_t>(1, (wide + width - 1) / width);
  }
  return rows;
}

std::string redraw(const std::vector<std::string>& lines, std::size_t shown) {
  // Up to the first line that is shown; each new line clears what is left of the old one.
  std::string out = shown == 0 ? "\r" : fmt::format("\r\x1b[{}A", shown);
  for (const std::string& line : lines) out += line + "\x1b[K\n";
  if (lines.size() < shown) out += "\x1b[J";
  return out;
}

std::string progress_line(const ProgressView& view) {
  const std::uint64_t ended_records = view.records_done + view.records_dropped;
  std::string line = view.records_wanted > 0
                         ? target_text(view)
                         : fmt::format("records {}/{} ({})", ended_records, view.records_total,
                                       percent_text(ended_records, view.records_total));
  if (view.records_dropped > 0) line += fmt::format(", {} dropped", view.records_dropped);
  if (view.record_rate) line += ", " + rate_text(view.record_rate);
  if (const auto left = time_left(view); left && left->count() > 0) {
    line += fmt::format(", {} left", duration_text(*left));
  }
  for (const ColumnProgress& column : view.columns) {
    line += fmt::format("; {} {}", printable(column.name), ended(column));
    if (column.in_flight > 0) line += fmt::format(" +{} in flight", column.in_flight);
    if (column.failed > 0) line += fmt::format(", {} failed", column.failed);
  }
  for (const EndpointProgress& endpoint : view.endpoints) {
    line += fmt::format("; {} {}/{} {}", printable(endpoint.name), endpoint.in_flight,
                        endpoint.limit, words_of(endpoint.cause));
  }
  return line + "; " + sums(view);
}

std::string progress_event(const ProgressView& view) {
  const auto number = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  const auto left = time_left(view);
  Json event = {
      {"event", "progress"},
      {"elapsed_ms", view.elapsed.count() / 1000},
      {"left_ms", left ? Json(left->count() / 1000) : Json(nullptr)},
      {"records",
       {{"done", view.records_done},
        {"dropped", view.records_dropped},
        {"total", view.records_total},
        {"per_second", number(view.record_rate)}}},
      {"columns", Json::array()},
      {"endpoints", Json::array()},
      {"tokens", {{"in", view.tokens_in}, {"out", view.tokens_out}}},
      {"cost", static_cast<double>(view.cost) / 1e9},
  };
  if (view.records_wanted > 0) event["records"]["wanted"] = view.records_wanted;
  for (const ColumnProgress& column : view.columns) {
    event["columns"].push_back({{"name", column.name},
                                {"done", column.done},
                                {"in_flight", column.in_flight},
                                {"failed", column.failed},
                                {"skipped", column.skipped},
                                {"total", column.total},
                                {"per_second", number(column.rate)}});
  }
  for (const EndpointProgress& endpoint : view.endpoints) {
    event["endpoints"].push_back({{"name", endpoint.name},
                                  {"in_flight", endpoint.in_flight},
                                  {"limit", endpoint.limit},
                                  {"state", name_of(endpoint.cause)}});
  }
  return event.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace dovetail::pipeline
