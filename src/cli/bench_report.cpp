#include "cli/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

namespace dovetail::cli {
namespace {

constexpr double kGiga = 1e9;

double bench_median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double bench_least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

double bench_most(const std::vector<double>& values) {
  return values.empty() ? 0.0 : *std::max_element(values.begin(), values.end());
}

BenchRow rate_row(std::string measure, const char* unit, const std::vector<double>& rates) {
  BenchRow row;
  row.measure = std::move(measure);
  row.unit = unit;
  if (rates.empty()) row.skipped = "these kernels have no such products";
  for (const double rate : rates) row.values.push_back(rate / kGiga);
  return row;
}

// Of kinds that a model has; a kind without a rate has no products.
double seconds_for(double amount, const std::vector<double>& rates) {
  return amount > 0.0 && !rates.empty() ? amount / bench_most(rates) : 0.0;
}

bool of_steps(const BenchRow& row) { return row.what.prompt > 0 || row.what.sequences > 0; }

const char* kind_of(const BenchRow& row) {
  if (!of_steps(row)) return "roofline";
  if (row.what.sequences == 0) return "prefill";
  return row.what.prompt == 0 ? "decode" : "mixed";
}

// Of a mixed step: its time in terms of reading its prompt alone and a step of its sequences alone;
// nothing of other rows, and where one of the parts was not measured.
std::optional<double> of_parts(const BenchReport& report, const BenchRow& mixed) {
  const auto seconds_of = [&](std::uint32_t prompt, std::uint32_t sequences) {
    for (const BenchRow& row : report.rows) {
      const study::BenchCase& what = row.what;
      const bool same = what.prompt == prompt && what.sequences == sequences &&
                        (sequences == 0 || what.depth == mixed.what.depth);
      if (!same || !row.skipped.empty()) continue;
      return sequences == 0 ? prompt / bench_median(row.values) : row.step_seconds;
    }
    return 0.0;
  };
  if (mixed.what.prompt == 0 || mixed.what.sequences == 0 || !mixed.skipped.empty()) return {};
  const double prompt = seconds_of(mixed.what.prompt, 0);
  const double decode = seconds_of(0, mixed.what.sequences);
  if (prompt == 0.0 || decode == 0.0) return {};
  return mixed.step_seconds / (prompt + decode);
}

}  // namespace

std::vector<BenchRow> roofline_rows(const study::MachineRates& rates) {
  return {rate_row("roofline int8", "GMAC/s", rates.bytes),
          rate_row("roofline bf16", "GMAC/s", rates.bf16),
          rate_row("roofline f32", "GMAC/s", rates.floats),
          rate_row("roofline DRAM read", "GB/s", rates.memory)};
}

BenchRow steps_row(const study::BenchCase& what, const study::BenchTimes& times,
                   const study::MachineRates& rates) {
  BenchRow row;
  row.measure = what.name();
  row.unit = "tokens/s";
  row.skipped = times.skipped;
  row.what = what;
  if (!row.skipped.empty()) return row;
  for (const double seconds : times.seconds)
    row.values.push_back(static_cast<double>(times.tokens) / seconds);
  const double median = bench_median(times.seconds);
  row.step_seconds = median / static_cast<double>(times.steps);
  row.of_compute =
      (seconds_for(times.work.bytes, rates.bytes) + seconds_for(times.work.bf16, rates.bf16) +
       seconds_for(times.work.floats, rates.floats)) /
      median;
  row.of_memory = seconds_for(times.work.memory, rates.memory) / median;
  return row;
}

std::string bench_text(const BenchReport& report) {
  std::string text = fmt::format("{}: {} kernels, threads: {}, runs: {}{}\n", report.name,
                                 report.options.kernels, report.options.threads, report.runs,
                                 report.repeats ? ", contexts repeat their first positions" : "");
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{:<24}{:>11}{:>11}{:>11} {:<9}{:>9}{:>12}{:>9}\n", "measure", "min",
                 "median", "max", "unit", "ms/step", "of compute", "of DRAM");
  for (const BenchRow& row : report.rows) {
    if (!row.skipped.empty()) {
      fmt::format_to(out, "{:<24}skipped: {}\n", row.measure, row.skipped);
      continue;
    }
    fmt::format_to(out, "{:<24}{:>11.2f}{:>11.2f}{:>11.2f} {:<9}", row.measure,
                   bench_least(row.values), bench_median(row.values), bench_most(row.values),
                   row.unit);
    if (of_steps(row)) {
      fmt::format_to(out, "{:>9.2f}{:>10.1f} %{:>7.1f} %", 1e3 * row.step_seconds,
                     100.0 * row.of_compute, 100.0 * row.of_memory);
    }
    while (text.back() == ' ') text.pop_back();
    text += '\n';
  }
  for (const BenchRow& row : report.rows) {
    if (const auto share = of_parts(report, row))
      fmt::format_to(out, "{} takes {:.2f} times its prompt and its sequences alone\n", row.measure,
                     *share);
  }
  return text;
}

Json bench_json(const BenchReport& report) {
  Json rows = Json::array();
  for (const BenchRow& row : report.rows) {
    Json one = {{"measure", row.measure}, {"kind", kind_of(row)}};
    if (of_steps(row)) {
      one["prompt"] = row.what.prompt;
      one["sequences"] = row.what.sequences;
      one["depth"] = row.what.depth;
    }
    if (!row.skipped.empty()) {
      one["skipped"] = row.skipped;
    } else {
      one["unit"] = row.unit;
      one["min"] = bench_least(row.values);
      one["median"] = bench_median(row.values);
      one["max"] = bench_most(row.values);
      one["values"] = row.values;
      if (of_steps(row)) {
        one["step_ms"] = 1e3 * row.step_seconds;
        one["of_compute"] = row.of_compute;
        one["of_dram"] = row.of_memory;
        if (const auto share = of_parts(report, row)) one["of_parts"] = *share;
      }
    }
    rows.push_back(std::move(one));
  }
  return {{"model", report.model},
          {"name", report.name},
          {"kernels", report.options.kernels},
          {"threads", report.options.threads},
          {"runs", report.runs},
          {"repeated_context", report.repeats},
          {"dram_buffer_bytes", report.memory_bytes},
          {"measures", std::move(rows)}};
}

}  // namespace dovetail::cli
