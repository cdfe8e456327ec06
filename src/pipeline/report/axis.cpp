#include "pipeline/report/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "pipeline/report/histogram.h"
#include "pipeline/report/terminal_text.h"

namespace dovetail::pipeline {
namespace {

constexpr double kLeastDistance = 0.15;  // of labels, of the axis
constexpr double kHour = 3600e6;

std::string trimmed(double value, int digits) {
  std::string text = fmt::format("{:.{}g}", value, digits);
  return text == "-0" ? "0" : text;
}

std::string time_label(double us) {
  if (us == 0) return "0";
  if (us < 1e3) return trimmed(us, 3) + " µs";
  if (us < 1e6) return trimmed(us / 1e3, 3) + " ms";
  if (us < 120e6) return trimmed(us / 1e6, 3) + " s";
  if (us < 2 * kHour) return trimmed(us / 60e6, 3) + " min";
  if (us < 72 * kHour) return trimmed(us / kHour, 3) + " h";
  return trimmed(us / (24 * kHour), 3) + " d";
}

// What a unit's round numbers are multiples of.
double round_step(double step, Unit unit) {
  if (unit == Unit::kMicros && step > 5e6) {
    for (const double seconds : {10., 20., 30., 60., 120., 300., 600., 1200., 1800., 3600., 7200.,
                                 14400., 21600., 43200., 86400.}) {
      if (seconds * 1e6 >= step * 0.999) return seconds * 1e6;
    }
  }
  const double base = std::pow(10.0, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (base * factor >= step * 0.999) return base * factor;
  }
  return base * 10;
}

void keep_apart(std::vector<Tick>& ticks) {
  std::vector<Tick> kept;
  for (Tick& tick : ticks) {
    if (kept.empty() || tick.place - kept.back().place >= kLeastDistance) {
      kept.push_back(std::move(tick));
    }
  }
  ticks = std::move(kept);
}

}  // namespace

std::string label_of(double value, Unit unit) {
  switch (unit) {
    case Unit::kMicros:
      return time_label(value);
    case Unit::kCount:
      return value < 10'000 ? grouped(static_cast<std::uint64_t>(std::llround(std::max(value, 0.0))))
                            : compact(value);
    case Unit::kNumber:
      break;
  }
  const double size = std::abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-4)) return trimmed(value, 3);
  return trimmed(std::round(value * 1e6) / 1e6, 6);
}

std::vector<Tick> linear_ticks(double from, double to, Unit unit, int wanted) {
  std::vector<Tick> ticks;
  if (!(to > from) || !std::isfinite(to - from)) return {{0.0, label_of(from, unit)}};
  double step = round_step((to - from) / wanted, unit);
  if (unit == Unit::kCount) step = std::max(step, 1.0);
  const double first = std::ceil(from / step - 1e-9);
  for (int i = 0; i < 4 * wanted; ++i) {
    const double value = (first + i) * step;
    if (value > to + step * 1e-6) break;
    ticks.push_back({(value - from) / (to - from), label_of(value, unit)});
  }
  return ticks;
}

std::vector<Tick> log_ticks(std::size_t first, std::size_t count, Unit unit) {
  const auto from = static_cast<double>(LogHistogram::begin_of(first));
  const auto to = static_cast<double>(LogHistogram::begin_of(first + count));
  const auto place = [&](double value) {
    return (LogHistogram::place_of(value) - static_cast<double>(first)) /
           static_cast<double>(count);
  };
  std::vector<double> values;
  if (to < 10 * from || to <= 64) {
    const double step = std::max(1.0, round_step((to - from) / 5, unit));
    for (double value = std::ceil(from / step) * step; value <= to && values.size() < 32;
         value += step) {
      values.push_back(value);
    }
  } else {
    if (from == 0) values.push_back(0);
    for (double decade = 1; decade <= to; decade *= 10) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double value = decade * factor;
        const bool wide = to > 500 * std::max(from, 8.0) && factor != 1.0;
        if (value >= from && value <= to && !wide) values.push_back(value);
      }
    }
  }
  std::vector<Tick> ticks;
  for (const double value : values) ticks.push_back({place(value), label_of(value, unit)});
  keep_apart(ticks);
  return ticks;
}

std::uint64_t axis_end(std::uint64_t greatest) {
  if (greatest <= 2) return 2;
  for (std::uint64_t decade = 1; decade <= greatest; decade *= 10) {
    for (const std::uint64_t tenths : {12U, 16U, 20U, 24U, 30U, 40U, 50U, 60U, 80U, 100U}) {
      const std::uint64_t end = decade * tenths / 10;
      if (end >= greatest && end % 2 == 0) return end;
    }
    if (decade > greatest / 10) break;
  }
  return greatest + greatest % 2;
}

}  // namespace dovetail::pipeline
