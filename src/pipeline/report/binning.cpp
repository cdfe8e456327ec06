#include "pipeline/report/binning.h"

#include <algorithm>
#include <cmath>

namespace dovetail::pipeline {
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
