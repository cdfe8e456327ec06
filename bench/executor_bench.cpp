// What it costs to get from one stage of work to the next: chains of stages of so many blocks, as
// recordings that an Executor runs, and on the simplest team of threads that could do the same. One
// lane for each core at hand, at most four. Usage: executor_bench [ROUNDS]; prints the medians of
// rounds that take turns.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "cores/executor.h"
#include "cores/waiting.h"

namespace dovetail::bench {
namespace {

using Microseconds = std::chrono::duration<double, std::micro>;

constexpr int kLayers = 8;
constexpr std::chrono::milliseconds kWarmUp{15};

struct Stage {
  std::uint32_t blocks;
  double work;  // microseconds a block
};

struct Chain {
  const char* name;
  std::vector<Stage> layer;  // repeated
};

const Chain kChains[] = {
    {"1 block, empty", std::vector<Stage>(10, {1, 0})},
    {"2 blocks, empty", std::vector<Stage>(10, {2, 0})},
    {"8 blocks, empty", std::vector<Stage>(10, {8, 0})},
    {"32 blocks, empty", std::vector<Stage>(10, {32, 0})},
    {"1 block of 2 us", std::vector<Stage>(10, {1, 2})},
    {"2 blocks of 2 us", std::vector<Stage>(10, {2, 2})},
    {"8 blocks of 2 us", std::vector<Stage>(10, {8, 2})},
    {"32 blocks of 2 us", std::vector<Stage>(10, {32, 2})},
    {"1 block of 20 us", std::vector<Stage>(10, {1, 20})},
    {"2 blocks of 20 us", std::vector<Stage>(10, {2, 20})},
    {"8 blocks of 20 us", std::vector<Stage>(10, {8, 20})},
    {"32 blocks of 20 us", std::vector<Stage>(10, {32, 20})},
    // Norm, products, rotation, attention, product, sum and norm, two products, activation,
    // product.
    {"a model's layer",
     {{1, 3}, {32, 5}, {1, 2}, {8, 10}, {16, 5}, {1, 4}, {64, 5}, {64, 5}, {4, 2}, {32, 10}}},
};

std::uint64_t churn(std::uint64_t steps) {
  std::uint64_t value = steps;
  for (; steps > 0; --steps) value = value * 0x9E3779B97F4A7C15U + 1;
  return value;
}

double steps_per_microsecond() {
  constexpr std::uint64_t kSteps = 1'000'000;
  double best = 0;
  volatile std::uint64_t sink = 0;
  for (int time = 0; time < 10; ++time) {
    const auto start = std::chrono::steady_clock::now();
    sink = churn(kSteps);
    best = std::max(best, static_cast<double>(kSteps) /
                              Microseconds(std::chrono::steady_clock::now() - start).count());
  }
  (void)sink;
  return best;
}

// Threads that take indices from a shared counter; the caller is one of them, and waits for the
// others after each stage.
class Team {
 public:
  explicit Team(unsigned threads) {
    for (unsigned i = 1; i < threads; ++i) team_.emplace_back([this] { serve(); });
  }
  ~Team() {
    stop_ = true;
    publish(0);
    for (std::thread& thread : team_) thread.join();
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  void run(std::uint32_t count, std::uint64_t steps) {
    if (count == 1) return do_block(steps);
    steps_.store(steps, std::memory_order_relaxed);
    done_.store(0, std::memory_order_relaxed);
    work(publish(count));
    for (std::uint32_t done = done_.load(std::memory_order_acquire); done != count;
         done = done_.load(std::memory_order_acquire)) {
      cores::await_change(done_, done);
    }
  }

  static void do_block(std::uint64_t steps) {
    volatile std::uint64_t sink = churn(steps);
    (void)sink;
  }

 private:
  // The stage in one word: its number, how many blocks it has, the next one.
  static constexpr unsigned kBits = 16;
  static constexpr std::uint64_t kMask = (1U << kBits) - 1;

  std::uint64_t publish(std::uint64_t count) {
    const std::uint64_t number = (stage_.load(std::memory_order_relaxed) >> 2 * kBits) + 1;
    const std::uint64_t stage = number << 2 * kBits | count << kBits;
    stage_.store(stage, std::memory_order_release);
    stage_.notify_all();
    return stage;
  }

  void work(std::uint64_t stage) {
    std::uint64_t current = stage_.load(std::memory_order_acquire);
    while (current >> 2 * kBits == stage >> 2 * kBits) {
      const std::uint64_t count = current >> kBits & kMask;
      if ((current & kMask) >= count) return;
      if (!stage_.compare_exchange_weak(current, current + 1, std::memory_order_acq_rel)) continue;
      do_block(steps_.load(std::memory_order_relaxed));
      if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == count) done_.notify_one();
      current = stage_.load(std::memory_order_acquire);
    }
  }

  void serve() {
    for (std::uint64_t seen = 0; !stop_;) {
      std::uint64_t current = stage_.load(std::memory_order_acquire);
      while (current >> 2 * kBits == seen >> 2 * kBits) {
        cores::await_change(stage_, current);
        current = stage_.load(std::memory_order_acquire);
      }
      seen = current;
      work(seen);
    }
  }

  std::atomic<std::uint64_t> stage_{0};
  std::atomic<std::uint64_t> steps_{0};
  std::atomic<std::uint32_t> done_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> team_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// After a while of the same, since threads slept before, perhaps both for the same core.
template <class Run>
double timed(Run run) {
  const auto begin = std::chrono::steady_clock::now();
  auto start = begin;
  do {
    run();
    start = std::chrono::steady_clock::now();
  } while (start - begin < kWarmUp);
  run();
  return Microseconds(std::chrono::steady_clock::now() - start).count();
}

void measure(const Chain& chain, unsigned lanes, double steps_each, int rounds) {
  const std::string text = "1x(" + std::to_string(lanes) + "L)";
  cores::Executor executor(*cores::Topology::parse(text), {});
  Team team(lanes);
  cores::Recorder recorder;
  std::vector<cores::TaskNumber> last;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> stages;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (const Stage& stage : chain.layer) {
      const auto steps = static_cast<std::uint64_t>(stage.work * steps_each);
      const auto task = recorder.add(
          {cores::kVectorTask, false, stage.blocks, 0},
          [steps](const cores::Part&) { Team::do_block(steps); }, {}, last);
      last = {task.value()};
      stages.emplace_back(stage.blocks, steps);
    }
  }
  const cores::Recording recording = std::move(recorder).finish();
  std::vector<double> on_executor, on_team;
  for (int round = 0; round < rounds; ++round) {
    on_executor.push_back(timed([&] {
      if (!executor.run(recording)) std::abort();
    }));
    on_team.push_back(timed([&] {
      for (const auto& [blocks, steps] : stages) team.run(blocks, steps);
    }));
  }
  const auto count = static_cast<double>(stages.size());
  const double ours = median(on_executor) / count, theirs = median(on_team) / count;
  std::printf("%-20s executor %8.3f us a stage, team %8.3f: %6.3f us more, ratio %.2f\n",
              chain.name, ours, theirs, ours - theirs, ours / theirs);
  std::fflush(stdout);
}

}  // namespace
}  // namespace dovetail::bench

int main(int argc, char** argv) {
  using namespace dovetail::bench;
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 31;
  const unsigned lanes = std::clamp(std::thread::hardware_concurrency(), 1U, 4U);
  const double steps = steps_per_microsecond();
  for (const Chain& chain : kChains) measure(chain, lanes, steps, rounds);
}
