#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "dovetail/engine.h"
#include "study/model_bench.h"
#include "study/roofline.h"

namespace dovetail::cli {

// A line of the report.
struct BenchRow {
  std::string measure, unit;
  std::string skipped;         // why there are no values; empty: there are
  std::vector<double> values;  // by run, more is better
  // Of steps alone:
  study::BenchCase what;
  double step_seconds = 0.0;                 // median
  double of_compute = 0.0, of_memory = 0.0;  // shares of the rooflines, median
};

// What the machine can do: a row for each kind.
std::vector<BenchRow> roofline_rows(const study::MachineRates& rates);

// A row of steps: how near they come to the best that the machine did.
BenchRow steps_row(const study::BenchCase& what, const study::BenchTimes& times,
                   const study::MachineRates& rates);

struct BenchReport {
  std::string model;      // as it was given
  std::string name;       // of the model
  EngineOptions options;  // with the automatic values filled in
  std::uint32_t runs = 0;
  bool repeats = false;            // of contexts; see BenchCase::repeats
  std::uint64_t memory_bytes = 0;  // that the roofline of memory reads
  std::vector<BenchRow> rows;
};

// For people, and for programs.
std::string bench_text(const BenchReport& report);
Json bench_json(const BenchReport& report);

}  // namespace dovetail::cli
