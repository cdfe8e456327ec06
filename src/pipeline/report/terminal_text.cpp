#include "pipeline/report/terminal_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "text/utf8.h"
#include "text/visible_text.h"

namespace dovetail::pipeline {
namespace {

struct Range {
  char32_t first, last;
};

// Blocks whose characters are East Asian Wide or Fullwidth, or shown as emoji (UAX #11).
constexpr std::array kWide{
    Range{0x1100, 0x115F},   Range{0x231A, 0x231B},   Range{0x23E9, 0x23EC},
    Range{0x2614, 0x2615},   Range{0x26A1, 0x26A1},   Range{0x2705, 0x2705},
    Range{0x274C, 0x274C},   Range{0x2753, 0x2755},   Range{0x2795, 0x2797},
    Range{0x2B50, 0x2B50},   Range{0x2E80, 0x303E},   Range{0x3041, 0x33FF},
    Range{0x3400, 0x4DBF},   Range{0x4E00, 0x9FFF},   Range{0xA000, 0xA4CF},
    Range{0xA960, 0xA97F},   Range{0xAC00, 0xD7A3},   Range{0xF900, 0xFAFF},
    Range{0xFE30, 0xFE6F},   Range{0xFF00, 0xFF60},   Range{0xFFE0, 0xFFE6},
    Range{0x1F300, 0x1F64F}, Range{0x1F680, 0x1F6FF}, Range{0x1F900, 0x1F9FF},
    Range{0x1FA70, 0x1FAFF}, Range{0x20000, 0x3FFFD},
};

std::size_t width_of(char32_t value) {
  if (value < 0x300) return 1;
  if (value == 0x200B || value == 0x200C || value == 0x200D || value == 0x2060) return 0;
  if (text::is_mark(value)) return 0;
  return std::any_of(kWide.begin(), kWide.end(),
                     [&](Range range) { return value >= range.first && value <= range.last; })
             ? 2
             : 1;
}

void wrap_line(std::string_view line, std::size_t width, std::vector<std::string>& out) {
  std::size_t begin = 0, used = 0;
  std::size_t break_at = 0;  // behind the last space of this line; 0: there is none
  for (std::size_t at = 0; at < line.size();) {
    const auto [value, size] = text::code_point_at(line, at);
    const std::size_t wide = width_of(value);
    if (used + wide > width && at > begin) {
      std::size_t end = value == ' ' ? at : break_at > begin ? break_at : at;
      // A word that is too long for the line stays behind its indentation.
      if (line.find_first_not_of(' ', begin) >= end) end = at;
      std::string_view piece = line.substr(begin, end - begin);
      while (piece.ends_with(' ')) piece.remove_suffix(1);
      out.emplace_back(piece);
      begin = end;
      while (begin < line.size() && line[begin] == ' ') ++begin;
      at = begin;
      used = 0;
      continue;
    }
    used += wide;
    at += size;
    if (value == ' ') break_at = at;
  }
  if (begin < line.size() || line.empty()) out.emplace_back(line.substr(begin));
}

}  // namespace

std::string printable(std::string_view text, bool lines) {
  const std::string valid = text::repair_utf8(text);
  std::string out;
  out.reserve(valid.size());
  for (std::size_t at = 0; at < valid.size();) {
    const auto [value, size] = text::code_point_at(valid, at);
    if (value == '\n') {
      out += lines ? '\n' : ' ';
    } else if (value == '\t') {
      out += ' ';
    } else if (value == '\r') {
      // Part of a line end, mostly.
    } else if (text::is_unseen_control(value)) {
      text::append_utf8(out, 0xFFFD);
    } else {
      out.append(valid, at, size);
    }
    at += size;
  }
  return out;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto [value, size] = text::code_point_at(text, at);
    width += width_of(value);
    at += size;
  }
  return width;
}

std::string shorten(std::string_view text, std::size_t width, bool unicode) {
  if (width == 0) return "";
  std::size_t used = 0, fits = 0;  // fits: bytes that leave a column for the mark
  for (std::size_t at = 0; at < text.size();) {
    const auto [value, size] = text::code_point_at(text, at);
    used += width_of(value);
    at += size;
    if (used <= width - 1) fits = at;
    if (used > width) return std::string(text.substr(0, fits)) + (unicode ? "…" : ".");
  }
  return std::string(text);
}

std::string pad_right(std::string_view text, std::size_t width) {
  const std::size_t used = display_width(text);
  return std::string(text) + std::string(used < width ? width - used : 0, ' ');
}

std::string pad_left(std::string_view text, std::size_t width) {
  const std::size_t used = display_width(text);
  return std::string(used < width ? width - used : 0, ' ') + std::string(text);
}

std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    wrap_line(text.substr(begin, end - begin), std::max<std::size_t>(width, 1), lines);
    begin = end + 1;
  }
  return lines;
}

std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t i = digits.size(); i > 3;) {
    i -= 3;
    digits.insert(i, 1, ',');
  }
  return digits;
}

std::string compact(double number) {
  if (!(std::abs(number) < 1e18)) return fmt::format("{:.3g}", number);
  const char* const units[] = {"", "k", "M", "G", "T", "P"};
  std::size_t unit = 0;
  // 999.6 would be rounded to "1000".
  while (std::abs(number) >= 999.5 && unit + 1 < std::size(units)) {
    number /= 1000;
    ++unit;
  }
  const double size = std::abs(number);
  if (unit == 0 && (number == std::floor(number) || size >= 99.95)) {
    return fmt::format("{:.0f}", number);
  }
  return fmt::format("{:.{}f}{}", number, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2, units[unit]);
}

std::string duration_text(std::chrono::microseconds duration) {
  const std::int64_t ms = std::max<std::int64_t>(duration.count() / 1000, 0);
  const std::int64_t s = ms / 1000;
  if (ms < 1000) return fmt::format("0.{}s", ms / 100);
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  if (s < 86'400) return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
  return fmt::format("{}d{:02}h", s / 86'400, s / 3600 % 24);
}

std::string cost_text(std::uint64_t nano) {
  if (nano == 0) return "0";
  const double cost = static_cast<double>(nano) * 1e-9;
  if (cost < 0.001) return fmt::format("{:.6f}", cost);
  if (cost < 1) return fmt::format("{:.4f}", cost);
  const auto cents = static_cast<std::uint64_t>(std::llround(cost * 100));
  return fmt::format("{}.{:02}", grouped(cents / 100), cents % 100);
}

std::string percent_text(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "0%";
  if (part == whole) return "100%";
  // 99.96 % is not all of it.
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  return fmt::format("{:.1f}%", part < whole ? std::min(percent, 99.9) : percent);
}

}  // namespace dovetail::pipeline
