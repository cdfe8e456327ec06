#include "pipeline/schema/format.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace dovetail::pipeline {
namespace {

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
bool is_hex(char letter) {
  return is_digit(letter) || (letter >= 'a' && letter <= 'f') || (letter >= 'A' && letter <= 'F');
}
bool is_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}

// The number that so many digits at `at` are, or -1.
int digits(std::string_view text, std::size_t at, std::size_t count) {
  if (at + count > text.size()) return -1;
  int value = 0;
  for (const char letter : text.substr(at, count)) {
    if (!is_digit(letter)) return -1;
    value = value * 10 + (letter - '0');
  }
  return value;
}

bool is_date(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return false;
  const int year = digits(text, 0, 4), month = digits(text, 5, 2), day = digits(text, 8, 2);
  if (year < 0 || month < 1 || month > 12 || day < 1) return false;
  constexpr std::array kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return day <= kDays[static_cast<std::size_t>(month - 1)] + (month == 2 && leap ? 1 : 0);
}

// RFC 3339, partial-time with an offset. A leap second counts at the end of a day in UTC.
bool is_time(std::string_view text) {
  if (text.size() < 9 || text[2] != ':' || text[5] != ':') return false;
  const int hour = digits(text, 0, 2), minute = digits(text, 3, 2), second = digits(text, 6, 2);
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60) return false;
  std::size_t at = 8;
  if (text[at] == '.') {
    const std::size_t first = ++at;
    while (at < text.size() && is_digit(text[at])) ++at;
    if (at == first) return false;
  }
  if (at == text.size()) return false;
  int offset = 0;  // in minutes
  if (text[at] == 'Z' || text[at] == 'z') {
    if (at + 1 != text.size()) return false;
  } else {
    if ((text[at] != '+' && text[at] != '-') || at + 6 != text.size() || text[at + 3] != ':')
      return false;
    const int hours = digits(text, at + 1, 2), minutes = digits(text, at + 4, 2);
    if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59) return false;
    offset = (text[at] == '-' ? -1 : 1) * (60 * hours + minutes);
  }
  constexpr int kDay = 24 * 60;
  return second < 60 || (hour * 60 + minute - offset + 2 * kDay) % kDay == kDay - 1;
}

bool is_date_time(std::string_view text) {
  return text.size() > 11 && (text[10] == 'T' || text[10] == 't') && is_date(text.substr(0, 10)) &&
         is_time(text.substr(11));
}

bool is_uuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : !is_hex(text[i])) return false;
  }
  return true;
}

bool is_ipv4(std::string_view text) {
  for (int part = 0; part < 4; ++part) {
    const std::size_t end = std::min(text.find('.'), text.size());
    const std::string_view number = text.substr(0, end);
    if (number.empty() || number.size() > 3 || (number.size() > 1 && number[0] == '0'))
      return false;
    const int value = digits(number, 0, number.size());
    if (value < 0 || value > 255) return false;
    if (part == 3) return end == text.size();
    if (end == text.size()) return false;
    text.remove_prefix(end + 1);
  }
  return false;
}

// RFC 5321, a dot-string local part and a domain name.
bool is_email(std::string_view text) {
  const std::size_t at = text.find('@');
  if (at == std::string_view::npos || at == 0 || at > 64 || text.size() > 254) return false;
  const auto dotted = [](std::string_view part, auto fits) {
    for (std::size_t begin = 0;;) {
      const std::size_t end = std::min(part.find('.', begin), part.size());
      const std::string_view label = part.substr(begin, end - begin);
      if (label.empty() || !std::all_of(label.begin(), label.end(), fits)) return false;
      if (end == part.size()) return true;
      begin = end + 1;
    }
  };
  constexpr std::string_view kAtom = "!#$%&'*+-/=?^_`{|}~";
  const std::string_view domain = text.substr(at + 1);
  return dotted(
             text.substr(0, at),
             [&](char c) { return is_letter(c) || is_digit(c) || kAtom.find(c) != kAtom.npos; }) &&
         dotted(domain, [](char c) { return is_letter(c) || is_digit(c) || c == '-'; }) &&
         domain.find("-.") == domain.npos && domain.find(".-") == domain.npos &&
         domain.front() != '-' && domain.back() != '-';
}

constexpr std::array<std::pair<std::string_view, FormatCheck>, 6> kFormats = {{
    {"date", is_date},
    {"time", is_time},
    {"date-time", is_date_time},
    {"uuid", is_uuid},
    {"ipv4", is_ipv4},
    {"email", is_email},
}};

}  // namespace

FormatCheck format_check(std::string_view name) {
  const auto* found = std::find_if(kFormats.begin(), kFormats.end(),
                                   [&](const auto& format) { return format.first == name; });
  return found == kFormats.end() ? nullptr : found->second;
}

std::vector<std::string_view> checked_formats() {
  std::vector<std::string_view> names;
  for (const auto& [name, check] : kFormats) names.push_back(name);
  return names;
}

}  // namespace dovetail::pipeline
