#include "pipeline/report/axis.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

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
  // "100 s", but "1.5 min".
  const bool seconds = us < 60e6 || (us < 1000e6 && std::fmod(us, 30e6) != 0);
  if (seconds) return trimmed(us / 1e6, 3) + " s";
  if (us < 2 * kHour) return trimmed(us / 60e6, 3) + " min";
  if (us < 72 * kHour) return trimmed(us / kHour, 3) + " h";
  return trimmed(us / (24 * kHour), 3) + " d";
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
      return value < 10'000
                 ? grouped(static_cast<std::uint64_t>(std::llround(std::max(value, 0.0))))
                 : compact(value);
    case Unit::kNumber:
      break;
  }
  const double size = std::abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-4)) return trimmed(value, 3);
  return trimmed(value, size >= 1000 ? 6 : 4);
}

double round_step(double least, Unit unit) {
  if (unit == Unit::kMicros && least > 5e6) {
    for (const double seconds : {10., 20., 30., 60., 120., 300., 600., 1200., 1800., 3600., 7200.,
                                 14400., 21600., 43200., 86400.}) {
      if (seconds * 1e6 >= least * 0.999) return seconds * 1e6;
    }
  }
  const double base = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (base * factor >= least * 0.999) return base * factor;
  }
  return base * 10;
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
  keep_apart(ticks);
  return ticks;
}

std::vector<Tick> log_ticks(double from, double to, Unit unit) {
  const double decades = std::log10(to / from);
  std::vector<Tick> ticks;
  for (double decade = std::pow(10.0, std::floor(std::log10(from))); decade <= to; decade *= 10) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = decade * factor;
      if (value < from || value > to || (factor != 1.0 && decades > 2.5)) continue;
      ticks.push_back({std::log10(value / from) / decades, label_of(value, unit)});
    }
  }
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

namespace {

constexpr double kWanted = 28, kLeast = 8;
constexpr double kFactor = 20;    // between quantiles from which an axis is logarithmic
constexpr double kSmallest = 32;  // below, whole numbers are too far apart on such an axis

Binning binned(const LogHistogram& histogram, const std::vector<double>& edges) {
  Binning binning;
  std::uint64_t before = 0;
  for (std::size_t i = 0; i + 1 < edges.size(); ++i) {
    const std::uint64_t below = std::max(before, histogram.below(edges[i + 1]));
    binning.bins.push_back({edges[i], edges[i + 1], below - before});
    before = below;
  }
  binning.above = histogram.count() - before;
  return binning;
}

}  // namespace

Binning bins_of(const LogHistogram& histogram, Unit unit) {
  if (histogram.count() == 0) return {};
  const auto low = static_cast<double>(histogram.quantile(0.05));
  const auto high = static_cast<double>(histogram.quantile(0.95));
  const auto least = static_cast<double>(histogram.least());
  const auto greatest = static_cast<double>(histogram.greatest());
  std::vector<double> edges;
  if (least >= kSmallest && high > kFactor * low) {
    const double end = greatest + 1;
    for (double i = 0; i < kWanted; ++i) {
      edges.push_back(least * std::pow(end / least, i / kWanted));
    }
    edges.push_back(end);
    Binning binning = binned(histogram, edges);
    binning.logarithmic = true;
    return binning;
  }
  // The last hundredth may be far away.
  const auto most = static_cast<double>(histogram.quantile(0.99));
  const bool tail = greatest - least > 1.5 * (most - least) && most > least;
  const double last = tail ? most : greatest;
  double step = std::max(1.0, round_step(std::max(last - least, 1.0) / kWanted, unit));
  double first = std::floor(least / step);
  double end = std::floor(last / step) + 1;
  // One value alone is a bar, not a wall.
  while (end - first < kLeast) {
    if (first > 0) --first;
    ++end;
  }
  for (double i = first; i <= end; ++i) edges.push_back(i * step);
  return binned(histogram, edges);
}

}  // namespace dovetail::pipeline
