#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/report/histogram.h"

namespace dovetail::pipeline {

// Marks on an axis.
struct Tick {
  double place = 0;  // 0 to 1
  std::string label;
};

enum class Unit : std::uint8_t {
  kCount,   // 1,200 or 12.3k
  kNumber,  // as it is
  kMicros,  // a time, in microseconds: "250 ms"
};

std::string label_of(double value, Unit unit);

// Round numbers on [from, to], about `wanted`.
std::vector<Tick> linear_ticks(double from, double to, Unit unit, int wanted);

// Round numbers on a logarithmic axis; 0 < from < to.
std::vector<Tick> log_ticks(double from, double to, Unit unit);

// The next round number that is a step between marks of an axis: 1, 2 or 5 times a power of ten;
// of times beyond seconds, what clocks show.
double round_step(double least, Unit unit);

// The end of an axis for counts up to `greatest`: round, and even where it has a middle.
std::uint64_t axis_end(std::uint64_t greatest);

// Bins to be drawn, side by side. Their counts and `above` are all values.
struct Binning {
  std::vector<HistogramBin> bins;
  std::uint64_t above = 0;   // of the last bin: few values that would press the others together
  bool logarithmic = false;  // of equal width on a logarithmic axis
};

// At most 40 bins with round edges; a logarithmic axis where the middle nine tenths span more than
// a factor of 20. Empty without values.
Binning bins_of(const LogHistogram& histogram, Unit unit);

}  // namespace dovetail::pipeline
