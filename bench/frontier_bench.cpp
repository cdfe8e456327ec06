// What it costs to find the next cell, by the number of cells that are ready. Aim: at most 2 us a
// cell, flat from a thousand to a million.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "pipeline/flow/frontier.h"

namespace dovetail::pipeline {
namespace {

// Three generators behind a sampler, a judge for each: as many ready generator cells as asked for,
// and every one that ends makes a judge's cell ready, which is taken and ended next.
void take_and_end(benchmark::State& state) {
  const auto ready = static_cast<std::uint64_t>(state.range(0));
  const std::vector<ColumnPlan> columns = {{{}, 2},  {{0}, 0}, {{0}, 0}, {{0}, 0},
                                           {{1}, 1}, {{2}, 1}, {{3}, 1}};
  FrontierOptions options;
  options.window = std::uint64_t{1} << 40;
  options.records = 50'000'000;
  options.low_water = static_cast<std::uint32_t>(ready);
  options.instant = {2};
  if (state.range(1) != 0) options.order = CellOrder::kFair;
  Frontier frontier(columns, 3, options);
  const auto take = [&](QueueId queue) {
    for (;;) {
      if (const auto cell = frontier.take(queue)) return *cell;
      while (const auto topic = frontier.take(2)) frontier.end(*topic);
    }
  };
  std::uint64_t cells = 0;
  const auto round = [&] {
    const Cell generated = take(0);
    while (const auto topic = frontier.take(2)) frontier.end(*topic);
    frontier.end(generated);
    frontier.end(take(1));
    while (frontier.next_ended()) {
    }
    cells += 2;
  };
  for (int i = 0; i < 1000; ++i) round();
  cells = 0;
  for (auto _ : state) round();
  state.counters["ready"] = static_cast<double>(frontier.ready(0));
  state.counters["s/cell"] = benchmark::Counter(
      static_cast<double>(cells), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(take_and_end)
    ->ArgNames({"ready", "fair"})
    ->ArgsProduct({{1'000, 10'000, 100'000, 1'000'000}, {0, 1}})
    ->Iterations(300'000);

}  // namespace
}  // namespace dovetail::pipeline

BENCHMARK_MAIN();
