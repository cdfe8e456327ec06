#include "pipeline/sample/date_time.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstddef>

#include "load/quote.h"

namespace dovetail::pipeline {
namespace {

namespace chrono = std::chrono;

constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};
constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};
constexpr std::int64_t kDaySeconds = 86400;
constexpr std::string_view kConversions = "YmdHMSyjIpaAbBsFT%";

struct Civil {
  int year = 1970;
  unsigned month = 1, day = 1;
  int hour = 0, minute = 0, second = 0;
};

std::optional<Seconds> to_seconds(const Civil& civil) {
  const chrono::year_month_day date{chrono::year{civil.year}, chrono::month{civil.month},
                                    chrono::day{civil.day}};
  if (civil.year < 1 || civil.year > 9999 || !date.ok()) return std::nullopt;
  if (civil.hour > 23 || civil.minute > 59 || civil.second > 59) return std::nullopt;
  return std::int64_t{chrono::sys_days{date}.time_since_epoch().count()} * kDaySeconds +
         civil.hour * 3600 + civil.minute * 60 + civil.second;
}

std::int64_t days_of(Seconds moment) {
  return moment / kDaySeconds - (moment % kDaySeconds < 0 ? 1 : 0);
}

Civil to_civil(Seconds moment) {
  const std::int64_t days_since = days_of(moment);
  const auto rest = static_cast<int>(moment - days_since * kDaySeconds);
  const chrono::year_month_day date{chrono::sys_days{chrono::days{static_cast<int>(days_since)}}};
  return {static_cast<int>(date.year()),
          static_cast<unsigned>(date.month()),
          static_cast<unsigned>(date.day()),
          rest / 3600,
          rest / 60 % 60,
          rest % 60};
}

const Seconds kFirst = *to_seconds({1, 1, 1, 0, 0, 0});
const Seconds kLast = *to_seconds({9999, 12, 31, 23, 59, 59});

// Reads exactly `digits` digits.
bool take_number(std::string_view& text, std::size_t digits, int& out) {
  if (text.size() < digits) return false;
  int value = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    if (text[i] < '0' || text[i] > '9') return false;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(digits);
  out = value;
  return true;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

// Reads one of the names, in full or by its first three letters.
template <std::size_t N>
bool take_name(std::string_view& text, const std::array<std::string_view, N>& names, bool full,
               std::size_t& index) {
  for (std::size_t i = 0; i < N; ++i) {
    const std::string_view name = full ? names[i] : names[i].substr(0, 3);
    if (!text.starts_with(name)) continue;
    text.remove_prefix(name.size());
    index = i;
    return true;
  }
  return false;
}

bool take_date(std::string_view& text, Civil& civil) {
  int month = 0;
  int day = 0;
  if (!take_number(text, 4, civil.year) || !take(text, '-') || !take_number(text, 2, month) ||
      !take(text, '-') || !take_number(text, 2, day)) {
    return false;
  }
  civil.month = static_cast<unsigned>(month);
  civil.day = static_cast<unsigned>(day);
  return true;
}

bool take_time(std::string_view& text, Civil& civil) {
  return take_number(text, 2, civil.hour) && take(text, ':') &&
         take_number(text, 2, civil.minute) && take(text, ':') &&
         take_number(text, 2, civil.second);
}

std::int64_t seconds_of(DateUnit unit) {
  switch (unit) {
    case DateUnit::kWeek:
      return 7 * kDaySeconds;
    case DateUnit::kDay:
      return kDaySeconds;
    case DateUnit::kHour:
      return 3600;
    case DateUnit::kMinute:
      return 60;
    default:
      return 1;
  }
}

int day_of_year(const Civil& civil) {
  const Seconds first = *to_seconds({civil.year, 1, 1, 0, 0, 0});
  const Seconds day = *to_seconds({civil.year, civil.month, civil.day, 0, 0, 0});
  return static_cast<int>((day - first) / kDaySeconds) + 1;
}

std::size_t weekday(Seconds moment) {
  const std::int64_t days = (days_of(moment) + 4) % 7;  // 1970-01-01 was a Thursday
  return static_cast<std::size_t>(days < 0 ? days + 7 : days);
}

}  // namespace

std::optional<DateUnit> parse_date_unit(std::string_view text) {
  struct Name {
    std::string_view letter, word;
    DateUnit unit;
  };
  static constexpr std::array<Name, 7> kNames = {{{"Y", "year", DateUnit::kYear},
                                                  {"M", "month", DateUnit::kMonth},
                                                  {"W", "week", DateUnit::kWeek},
                                                  {"D", "day", DateUnit::kDay},
                                                  {"h", "hour", DateUnit::kHour},
                                                  {"m", "minute", DateUnit::kMinute},
                                                  {"s", "second", DateUnit::kSecond}}};
  for (const Name& name : kNames) {
    const bool plural = text.size() == name.word.size() + 1 && text.ends_with('s') &&
                        text.substr(0, name.word.size()) == name.word;
    if (text == name.letter || text == name.word || plural) return name.unit;
  }
  return std::nullopt;
}

std::optional<Seconds> parse_iso_date(std::string_view text) {
  Civil civil;
  if (!take_date(text, civil)) return std::nullopt;
  if (!text.empty()) {
    if (!take(text, 'T') && !take(text, ' ')) return std::nullopt;
    if (!take_number(text, 2, civil.hour) || !take(text, ':') ||
        !take_number(text, 2, civil.minute)) {
      return std::nullopt;
    }
    if (take(text, ':')) {
      if (!take_number(text, 2, civil.second)) return std::nullopt;
      if (take(text, '.')) {
        const auto end = std::min(text.find_first_not_of("0123456789"), text.size());
        if (end == 0) return std::nullopt;
        text.remove_prefix(end);
      }
    }
    take(text, 'Z');
  }
  if (!text.empty()) return std::nullopt;
  return to_seconds(civil);
}

std::optional<Seconds> add_units(Seconds start, std::int64_t count, DateUnit unit) {
  constexpr std::int64_t kMost = 400'000'000'000;  // seconds; more than all the years there are
  if (count < -kMost || count > kMost) return std::nullopt;
  if (unit == DateUnit::kYear || unit == DateUnit::kMonth) {
    Civil civil = to_civil(start);
    const std::int64_t months = std::int64_t{civil.year} * 12 + (civil.month - 1) +
                                (unit == DateUnit::kYear ? count * 12 : count);
    if (months < 12 || months >= 10000 * 12) return std::nullopt;
    civil.year = static_cast<int>(months / 12);
    civil.month = static_cast<unsigned>(months % 12) + 1;
    const chrono::year_month_day_last last{chrono::year{civil.year},
                                           chrono::month_day_last{chrono::month{civil.month}}};
    civil.day = std::min(civil.day, static_cast<unsigned>(last.day()));
    return to_seconds(civil);
  }
  const Seconds moment = start + count * seconds_of(unit);
  if (moment < kFirst || moment > kLast) return std::nullopt;
  return moment;
}

std::int64_t units_between(Seconds start, Seconds end, DateUnit unit) {
  if (unit != DateUnit::kYear && unit != DateUnit::kMonth) {
    return (end - start) / seconds_of(unit);
  }
  const Civil from = to_civil(start);
  const Civil to = to_civil(end);
  std::int64_t months = (std::int64_t{to.year} - from.year) * 12 + to.month - from.month;
  std::int64_t count = unit == DateUnit::kYear ? months / 12 : months;
  while (count > 0 && add_units(start, count, unit).value_or(kLast + 1) > end) --count;
  return count;
}

std::string format_date(Seconds moment, std::string_view format) {
  const Civil civil = to_civil(moment);
  std::string out;
  const auto number = [&](auto value, int width) { out += fmt::format("{:0{}}", value, width); };
  const auto full_date = [&] {
    number(civil.year, 4);
    out += '-';
    number(civil.month, 2);
    out += '-';
    number(civil.day, 2);
  };
  const auto full_time = [&] {
    number(civil.hour, 2);
    out += ':';
    number(civil.minute, 2);
    out += ':';
    number(civil.second, 2);
  };
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    switch (format[++i]) {
      case 'Y':
        number(civil.year, 4);
        break;
      case 'm':
        number(civil.month, 2);
        break;
      case 'd':
        number(civil.day, 2);
        break;
      case 'H':
        number(civil.hour, 2);
        break;
      case 'M':
        number(civil.minute, 2);
        break;
      case 'S':
        number(civil.second, 2);
        break;
      case 'y':
        number(civil.year % 100, 2);
        break;
      case 'j':
        number(day_of_year(civil), 3);
        break;
      case 'I':
        number((civil.hour + 11) % 12 + 1, 2);
        break;
      case 'p':
        out += civil.hour < 12 ? "AM" : "PM";
        break;
      case 'a':
        out += kDays[weekday(moment)].substr(0, 3);
        break;
      case 'A':
        out += kDays[weekday(moment)];
        break;
      case 'b':
        out += kMonths[civil.month - 1].substr(0, 3);
        break;
      case 'B':
        out += kMonths[civil.month - 1];
        break;
      case 's':
        out += std::to_string(moment);
        break;
      case 'F':
        full_date();
        break;
      case 'T':
        full_time();
        break;
      default:
        out += format[i];
    }
  }
  return out;
}

Status check_date_format(std::string_view format, std::string_view pointer) {
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') continue;
    ++i;
    if (i < format.size() && kConversions.find(format[i]) != std::string_view::npos) continue;
    std::string valid;
    for (const char c : kConversions) valid += fmt::format(" %{}", c);
    return fail(ErrorKind::kInvalid, "{}: {}; valid: text with{}", pointer, load::quote(format),
                valid);
  }
  return {};
}

std::optional<Seconds> parse_date(std::string_view text, std::string_view format) {
  Civil civil;
  int month = 0;
  int day = 0;
  int yearday = 0;
  std::size_t index = 0;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      if (!take(text, format[i])) return std::nullopt;
      continue;
    }
    bool fits = true;
    switch (format[++i]) {
      case 'Y':
        fits = take_number(text, 4, civil.year);
        break;
      case 'm':
        fits = take_number(text, 2, month);
        break;
      case 'd':
        fits = take_number(text, 2, day);
        break;
      case 'H':
        fits = take_number(text, 2, civil.hour);
        break;
      case 'M':
        fits = take_number(text, 2, civil.minute);
        break;
      case 'S':
        fits = take_number(text, 2, civil.second);
        break;
      case 'j':
        fits = take_number(text, 3, yearday) && yearday > 0;
        break;
      case 'b':
      case 'B':
        fits = take_name(text, kMonths, format[i] == 'B', index);
        month = static_cast<int>(index) + 1;
        break;
      case 'a':
      case 'A':
        fits = take_name(text, kDays, format[i] == 'A', index);
        break;
      case 'F':
        fits = take_date(text, civil);
        month = static_cast<int>(civil.month);
        day = static_cast<int>(civil.day);
        break;
      case 'T':
        fits = take_time(text, civil);
        break;
      case 's': {
        const bool negative = take(text, '-');
        std::int64_t value = 0;
        std::size_t digits = 0;
        while (digits < text.size() && digits < 13 && text[digits] >= '0' && text[digits] <= '9') {
          value = value * 10 + (text[digits++] - '0');
        }
        text.remove_prefix(digits);
        if (digits == 0 || !text.empty() || i + 1 != format.size()) return std::nullopt;
        value = negative ? -value : value;
        if (value < kFirst || value > kLast) return std::nullopt;
        return value;
      }
      case '%':
        fits = take(text, '%');
        break;
      default:
        return std::nullopt;
    }
    if (!fits) return std::nullopt;
  }
  if (!text.empty()) return std::nullopt;
  if (month != 0) civil.month = static_cast<unsigned>(month);
  if (day != 0) civil.day = static_cast<unsigned>(day);
  const auto moment = to_seconds(civil);
  if (!moment || yearday == 0) return moment;
  const auto first = to_seconds({civil.year, 1, 1, civil.hour, civil.minute, civil.second});
  return first ? add_units(*first, yearday - 1, DateUnit::kDay) : std::nullopt;
}

}  // namespace dovetail::pipeline
