#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "pipeline/report/activity.h"
#include "pipeline/report/histogram.h"
#include "pipeline/store/cell.h"

namespace dovetail::pipeline {

// What a report shows of a run.

struct RubricInfo {
  std::string name;
  std::vector<std::string> options;  // scores as JSON texts, in the order of the file
};

// What the file says of a column.
struct ColumnInfo {
  std::string name;
  std::string type;   // "llm-text"
  std::string model;  // alias; empty: none
  std::vector<RubricInfo> rubrics;
};

struct RubricReport {
  std::string name;
  std::vector<std::string> options;  // that the file gives
  TopValues scores{64};              // as JSON texts
  double sum = 0;                    // of scores that are numbers
  std::uint64_t numbers = 0;
};

struct ColumnReport {
  ColumnInfo info;
  std::array<std::uint64_t, kCellStates> states{};
  std::uint64_t records_dropped = 0;  // because of this column
  // Of cells that a model made.
  std::uint64_t asked = 0;    // cells
  std::uint64_t retried = 0;  // of them, those that took more than one answer
  std::uint64_t cut = 0;      // of them, those whose answer was ended by its limit of tokens
  std::uint64_t prompt_tokens = 0, completion_tokens = 0, cost = 0;  // cost in 1e-9
  LogHistogram latency_us, prompt_size, completion_size;             // sizes in tokens
  // Of a validation column: values that it found valid, and those that it did not, or could not
  // judge.
  std::uint64_t passed = 0, not_passed = 0;
  // Of values.
  LogHistogram length;      // characters of texts
  NumberHistogram numbers;  // numbers
  TopValues texts;          // short texts, flags and numbers as JSON texts
  std::vector<RubricReport> rubrics;
  std::map<std::uint32_t, std::uint64_t> origins;  // cells by Provenance::origin
};

// Failures of a column that differ in nothing but numbers and quoted parts.
struct ErrorReport {
  std::optional<std::size_t> column;  // nothing: records that do not meet the target's condition
  std::string example;
  std::uint64_t record = 0;  // of the example
  std::uint64_t count = 0;
};

struct SampleCell {
  std::size_t column = 0;
  CellState state = CellState::kValue;
  Json value;                  // of kValue
  std::string text;            // the reason; or a value too long to be kept whole, its beginning
  std::uint64_t left_out = 0;  // bytes of `text` that were cut
};

struct Sample {
  std::uint64_t record = 0;
  std::string reason;  // of a dropped record
  std::vector<SampleCell> cells;
};

struct EndpointReport {
  std::string name, model;
  Activity activity;
  std::uint32_t max_parallel = 0;  // that the file allows; 0: not known, or a model in this process
};

// "held by your max_parallel (16) for 99 % of the time", where it was for at least half of it; else
// empty.
std::string held_text(const EndpointReport& endpoint);

// A figure that the caller has computed: a judge's precision, an accuracy.
struct KeyFigure {
  std::string name, value, explanation;
};

struct OriginReport {
  std::string model, parameters;  // the hash in hexadecimal
};

struct ReportData {
  // By the caller.
  std::string title;
  std::string made;            // when
  std::uint64_t records = 0;   // that the run is to have
  std::string accepted_means;  // the criterion
  std::optional<std::uint64_t> wall_us;
  std::string currency;
  std::vector<EndpointReport> endpoints;
  std::vector<KeyFigure> key_figures;

  // By collect_report().
  std::uint64_t finished = 0, dropped = 0, open = 0;  // records; open: not all cells are there
  std::optional<std::uint64_t> accepted;  // of the finished ones, where the run has a target
  std::uint64_t prompt_tokens = 0, completion_tokens = 0, cost = 0;
  std::vector<ColumnReport> columns;
  std::vector<ErrorReport> errors;    // the most frequent first
  std::uint64_t other_errors = 0;     // of kinds beyond those
  std::vector<Sample> samples;        // by record
  std::vector<ErrorReport> drops;     // why records were dropped, the most frequent reason first
  std::uint64_t other_drops = 0;      // records, for reasons of kinds beyond those
  std::vector<Sample> first_dropped;  // by record
  std::vector<OriginReport> origins;  // n is at n - 1
};

}  // namespace dovetail::pipeline
