#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/report/axis.h"
#include "pipeline/report/histogram.h"

namespace dovetail::pipeline {

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
