#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dovetail::pipeline {

// A moment of the Gregorian calendar, in seconds since 1970-01-01T00:00:00, without time zones or
// leap seconds. Years 1 to 9999.
using Seconds = std::int64_t;

enum class DateUnit { kYear, kMonth, kWeek, kDay, kHour, kMinute, kSecond };

// Y, M, W, D, h, m, s, or the English word (year, years, ...).
std::optional<DateUnit> parse_date_unit(std::string_view text);
inline constexpr std::string_view kDateUnits =
    "Y, M, W, D, h, m, s (or year, month, week, day, hour, minute, second)";

// 2024-02-29, 2024-02-29T12:30, 2024-02-29 12:30:05, with a fraction of a second (dropped) and a Z
// behind it or not. Nothing for all else.
std::optional<Seconds> parse_iso_date(std::string_view text);

// `count` units later. A day that the month does not have becomes its last. Nothing outside of the
// years 1 to 9999.
std::optional<Seconds> add_units(Seconds start, std::int64_t count, DateUnit unit);

// The largest count with add_units(start, count, unit) <= end; start <= end.
std::int64_t units_between(Seconds start, Seconds end, DateUnit unit);

// Formats as strftime does in the C locale: %Y %m %d %H %M %S %y %j %I %p %a %A %b %B %s %F %T %%.
// Nothing else: check_date_format() says so beforehand.
std::string format_date(Seconds moment, std::string_view format);
// An error names the conversion that is not among those.
Status check_date_format(std::string_view format, std::string_view pointer);

// The way back, for formats that name a day with %Y, %m, %b, %B, %d, %j, %H, %M, %S, %s, %F, %T
// (names of weekdays are skipped). Nothing where the text does not fit.
std::optional<Seconds> parse_date(std::string_view text, std::string_view format);

}  // namespace dovetail::pipeline
