#pragma once

#include "base/sampling_table.h"

namespace dovetail::test {

// A value of the row that is not its neutral one, and that a float holds exactly.
inline double sample_of(const SamplingRow& row) {
  return row.whole() ? row.least + 7.0 : row.least + 0.75 * (row.most - row.least);
}

// Some that are beyond its range on one side and the other; -1 is not one of them, which some
// places take.
inline double too_much(const SamplingRow& row) { return row.most + 1.0; }
inline double too_little(const SamplingRow& row) {
  return row.least_excluded ? row.least : row.least - 2.0;
}

}  // namespace dovetail::test
