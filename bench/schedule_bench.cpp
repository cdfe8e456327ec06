// What planning costs: plan() + commit() by the number of running sequences, steady decode and
// mixed, without and with prefix cache and event log; allocations in the steady state; the
// simulator's speed; an event. Targets: 5, 12, 40 and 160 us at 64, 256, 1024 and 4096, no
// allocation, a million sequence-steps per second.

#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <optional>
#include <vector>

#include "observe/event_log.h"
#include "schedule/scheduler.h"
#include "simulate/cluster.h"

namespace {

std::atomic<std::uint64_t> allocations{0};

}  // namespace

void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const auto align = static_cast<std::size_t>(alignment);
  // A multiple of the alignment, as aligned_alloc() asks for.
  if (void* memory = std::aligned_alloc(align, (bytes / align + 1) * align)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace dovetail {
namespace {

enum Extras : int { kPlain, kPrefixCache, kPrefixCacheAndLog };

// Sequences that decode for ever; mixed: beside them prompts of 1,500 tokens that end with their
// first token, one after the other.
class Machine {
 public:
  Machine(std::uint32_t sequences, bool mixed, Extras extras) {
    options_.max_num_seqs = sequences + 1;
    options_.max_num_batched_tokens = sequences + 512;
    options_.max_context = 1U << 20;
    options_.kv_blocks = 200 * sequences + (1U << 16);
    options_.max_waiting = sequences + 16;
    options_.prefix_cache = extras != kPlain;
    if (extras == kPrefixCacheAndLog) log_.emplace(1 << 16);
    scheduler_.emplace(options_, log_ ? &*log_ : nullptr);
    // Prompts of different lengths, so that blocks fill at different steps.
    for (std::uint32_t i = 0; i < sequences; ++i) add(100 + i % 16, 2500);
    while (scheduler_->waiting() > 0 || plan_.prefill_rows > 0) step();
    mixed_ = mixed;
    for (int i = 0; i < 40; ++i) step();
  }

  void step() {
    if (mixed_ && scheduler_->waiting() == 0 && !scheduler_->idle()) add(1500, 1);
    benchmark::DoNotOptimize(scheduler_->plan(plan_));
    result_.rows.clear();
    result_.tokens.clear();
    for (const schedule::Row& row : plan_.rows) {
      if (!row.sampled) continue;
      result_.rows.push_back({1, false, 0});
      result_.tokens.push_back(static_cast<std::int32_t>(row.sequence * 7919 + row.first_position));
    }
    scheduler_->commit(plan_, result_);
  }
  std::size_t rows() const { return plan_.rows.size(); }

 private:
  void add(std::uint32_t prompt, std::uint32_t max_new) {
    tokens_.resize(prompt);
    for (std::uint32_t i = 0; i < prompt; ++i)
      tokens_[i] = static_cast<std::int32_t>(next_ * 100003 + i);
    schedule::SequenceSpec spec;
    spec.id = next_++;
    spec.prompt_tokens = prompt;
    spec.max_new_tokens = max_new;
    spec.prompt = tokens_;
    if (!scheduler_->add(spec)) std::abort();
  }

  bool mixed_ = false;
  schedule::SchedulerOptions options_;
  std::optional<observe::EventLog> log_;
  std::optional<schedule::Scheduler> scheduler_;
  schedule::StepPlan plan_;
  schedule::StepResult result_;
  std::vector<std::int32_t> tokens_;
  std::uint64_t next_ = 0;
};

void plan_and_commit(benchmark::State& state, bool mixed) {
  const auto sequences = static_cast<std::uint32_t>(state.range(0));
  Machine machine(sequences, mixed, static_cast<Extras>(state.range(1)));
  const std::uint64_t before = allocations.load();
  for (auto _ : state) machine.step();
  state.counters["allocations/step"] = benchmark::Counter(
      static_cast<double>(allocations.load() - before), benchmark::Counter::kAvgIterations);
  state.counters["rows"] = static_cast<double>(machine.rows());
}

void decode(benchmark::State& state) { plan_and_commit(state, false); }
void mixed(benchmark::State& state) { plan_and_commit(state, true); }

// A fixed number of steps, so that sequences neither end nor outgrow their reserve.
BENCHMARK(decode)
    ->ArgNames({"running", "extras"})
    ->ArgsProduct({{64, 256, 1024, 4096}, {kPlain, kPrefixCache, kPrefixCacheAndLog}})
    ->Iterations(400)
    ->Repetitions(5)
    ->ReportAggregatesOnly()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(mixed)
    ->ArgNames({"running", "extras"})
    ->ArgsProduct({{64, 256, 1024, 4096}, {kPlain, kPrefixCache}})
    ->Iterations(400)
    ->Repetitions(5)
    ->ReportAggregatesOnly()
    ->Unit(benchmark::kMicrosecond);

void event(benchmark::State& state) {
  observe::EventLog log(1 << 16);
  std::uint64_t id = 0;
  for (auto _ : state) log.write(observe::EventKind::kRow, id++, 1, 2, 3);
  benchmark::DoNotOptimize(log.written());
}
BENCHMARK(event);

void simulator(benchmark::State& state) {
  simulate::ClusterOptions options;
  options.replica.scheduler.max_context = 8192;
  options.replica.scheduler.kv_blocks = 32768;
  options.replica.scheduler.max_waiting = 1U << 20;
  options.replica.cost = {5000.0, 100.0, 200.0, 0.01, 0};
  simulate::WorkloadSpec load;
  load.requests = 2000;
  load.arrivals = "poisson:8";
  load.prompt = "lognormal:400:0.8";
  load.output = "lognormal:150:0.7";
  std::uint64_t rows = 0;
  for (auto _ : state) {
    const auto figures = simulate::simulate(
        options, [&] { return *simulate::generate(load); }, nullptr);
    if (!figures) std::abort();
    rows += figures->rows;
  }
  state.counters["sequence-steps"] =
      benchmark::Counter(static_cast<double>(rows), benchmark::Counter::kIsRate);
}
BENCHMARK(simulator)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace dovetail

BENCHMARK_MAIN();
