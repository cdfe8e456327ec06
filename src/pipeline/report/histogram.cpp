#include "pipeline/report/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace dovetail::pipeline {
namespace {

constexpr unsigned kSubBits = 5;  // 32 bins to a power of two
constexpr std::size_t kMostBins = 64;
constexpr std::size_t kFirstValues = 256;
constexpr std::size_t kLongestText = 200;

std::int64_t index_of(double value, int exponent) {
  return static_cast<std::int64_t>(std::floor(std::ldexp(value, -exponent)));
}

// Whether [least, greatest] takes no more than kMostBins bins, with numbers that are exact.
bool fits(double least, double greatest, int exponent) {
  const double low = std::floor(std::ldexp(least, -exponent));
  const double high = std::floor(std::ldexp(greatest, -exponent));
  constexpr double kExact = 4503599627370496.0;  // 2^52
  return std::abs(low) < kExact && std::abs(high) < kExact &&
         high - low < static_cast<double>(kMostBins);
}

}  // namespace

std::size_t LogHistogram::bin_of(std::uint64_t value) {
  const auto width = static_cast<unsigned>(std::bit_width(value));
  if (width <= kSubBits + 1) return static_cast<std::size_t>(value);
  const unsigned shift = width - (kSubBits + 1);
  return (std::size_t{shift} << kSubBits) + static_cast<std::size_t>(value >> shift);
}

std::uint64_t LogHistogram::begin_of(std::size_t bin) {
  if (bin < (std::size_t{2} << kSubBits)) return bin;
  const std::size_t shift = (bin >> kSubBits) - 1;
  return static_cast<std::uint64_t>(bin - (shift << kSubBits)) << shift;
}

void LogHistogram::add(std::uint64_t value) {
  const std::size_t bin = bin_of(value);
  if (bin >= counts_.size()) counts_.resize(bin + 1);
  ++counts_[bin];
  least_ = count_ == 0 ? value : std::min(least_, value);
  greatest_ = std::max(greatest_, value);
  sum_ += static_cast<double>(value);
  ++count_;
}

std::uint64_t LogHistogram::quantile(double share) const {
  if (count_ == 0) return 0;
  const auto wanted = static_cast<std::uint64_t>(
      std::max(1.0, std::ceil(std::clamp(share, 0.0, 1.0) * static_cast<double>(count_))));
  std::uint64_t seen = 0;
  for (std::size_t bin = 0; bin < counts_.size(); ++bin) {
    seen += counts_[bin];
    if (seen >= wanted) return std::clamp(begin_of(bin + 1) - 1, least_, greatest_);
  }
  return greatest_;
}

std::uint64_t LogHistogram::below(double value) const {
  if (count_ == 0 || value <= static_cast<double>(least_)) return 0;
  if (value > static_cast<double>(greatest_)) return count_;
  double sum = 0;
  for (std::size_t bin = bin_of(least_); bin < counts_.size(); ++bin) {
    const auto begin = static_cast<double>(begin_of(bin));
    const auto end = static_cast<double>(begin_of(bin + 1));
    if (value <= begin) break;
    const double share = std::min(1.0, (value - begin) / (end - begin));
    sum += share * static_cast<double>(counts_[bin]);
  }
  return std::min(count_, static_cast<std::uint64_t>(std::llround(sum)));
}

void NumberHistogram::add(double value) {
  if (!std::isfinite(value)) return;
  least_ = count_ == 0 ? value : std::min(least_, value);
  greatest_ = count_ == 0 ? value : std::max(greatest_, value);
  whole_ = whole_ && value == std::floor(value);
  sum_ += value;
  ++count_;
  if (settled_) return put(value);
  first_.push_back(value);
  if (first_.size() == kFirstValues) settle();
}

void NumberHistogram::settle() {
  settled_ = true;
  const double span = greatest_ - least_;
  exponent_ = whole_ ? 0 : -1022;
  if (span > 0) exponent_ = std::max(exponent_, std::ilogb(span) - 6);
  while (!fits(least_, greatest_, exponent_)) ++exponent_;
  for (const double value : std::exchange(first_, {})) put(value);
}

void NumberHistogram::put(double value) {
  for (; !fits(least_, greatest_, exponent_); ++exponent_) {
    std::map<std::int64_t, std::uint64_t> wider;
    for (const auto& [index, count] : counts_) wider[index >> 1] += count;
    counts_ = std::move(wider);
  }
  ++counts_[index_of(value, exponent_)];
}

std::vector<HistogramBin> NumberHistogram::bins() const {
  std::vector<HistogramBin> bins;
  if (count_ == 0) return bins;
  if (!settled_) {
    NumberHistogram copy = *this;
    copy.settle();
    return copy.bins();
  }
  const std::int64_t first = counts_.begin()->first;
  const std::int64_t last = counts_.rbegin()->first;
  for (std::int64_t index = first; index <= last; ++index) {
    const auto found = counts_.find(index);
    bins.push_back({std::ldexp(static_cast<double>(index), exponent_),
                    std::ldexp(static_cast<double>(index + 1), exponent_),
                    found == counts_.end() ? 0 : found->second});
  }
  return bins;
}

void TopValues::add(std::string_view text) {
  ++count_;
  if (const auto found = counts_.find(text); found != counts_.end()) {
    ++found->second;
  } else if (counts_.size() < most_ && text.size() <= kLongestText) {
    counts_.emplace(text, 1);
  } else {
    ++others_;
  }
}

std::vector<TopValues::Entry> TopValues::top(std::size_t most) const {
  std::vector<Entry> entries;
  for (const auto& [text, count] : counts_) entries.push_back({text, count});
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.count > b.count; });
  if (entries.size() > most) entries.resize(most);
  return entries;
}

std::uint64_t TopValues::count_of(std::string_view text) const {
  const auto found = counts_.find(text);
  return found == counts_.end() ? 0 : found->second;
}

}  // namespace dovetail::pipeline
