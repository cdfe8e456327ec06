#include "study/roofline.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <new>
#include <system_error>
#include <thread>

#include "base/aligned_buffer.h"
#include "cores/dispatcher.h"
#include "cores/machine_cores.h"
#include "cores/thread_pins.h"
#include "cores/topology.h"
#include "engine/options.h"
#include "kernels/roofline.h"

namespace dovetail::study {
namespace {

using RooflineClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kWarmUp(50), kRun(150);
constexpr std::uint64_t kRounds = 20'000;  // between two looks at the clock
constexpr std::size_t kChunk = std::size_t{1} << 20;
constexpr std::uint64_t kLeastMemory = std::uint64_t{256} << 20;

double seconds_from(RooflineClock::time_point start) {
  return std::chrono::duration<double>(RooflineClock::now() - start).count();
}

// What a lane does between two looks at the clock: how much of it.
using LaneWork = std::function<double(std::size_t lane)>;

// The lanes of an engine, each a thread. All work at the same time; what comes to an end a little
// later than the others counts for the time that it took.
class Lanes {
 public:
  explicit Lanes(const EngineOptions& options)
      : pins_(engine::pinning(options), engine::binding(options)),
        topology_(cores::Topology::of_machine(options.threads)) {}

  // The sum of the lanes' rates, of each run.
  std::vector<double> rates(std::uint32_t runs, const LaneWork& work) {
    const std::size_t lanes = topology_.lanes();
    std::vector<std::vector<double>> of_lane(lanes);
    std::barrier<> together(static_cast<std::ptrdiff_t>(lanes));
    const auto serve = [&](std::size_t lane) {
      const cores::ThreadPins::Member member(pins_, topology_.core_of(lane));
      // The first run warms up: clocks rise, and memory is taken from the system.
      for (std::uint32_t run = 0; run <= runs; ++run) {
        together.arrive_and_wait();
        const auto start = RooflineClock::now();
        double done = 0.0, seconds = 0.0;
        do {
          done += work(lane);
          seconds = seconds_from(start);
        } while (seconds < std::chrono::duration<double>(run == 0 ? kWarmUp : kRun).count());
        if (run > 0) of_lane[lane].push_back(done / seconds);
        if (lane == 0)
          pins_.look(static_cast<cores::Ticks>(
              std::chrono::nanoseconds(RooflineClock::now().time_since_epoch()).count()));
      }
    };
    run_all(lanes, serve);
    std::vector<double> sums(runs, 0.0);
    for (const std::vector<double>& of : of_lane)
      for (std::uint32_t run = 0; run < runs; ++run) sums[run] += of[run];
    return sums;
  }

 private:
  // Where the system does not start them all, none serves.
  template <class Serve>
  static void run_all(std::size_t lanes, const Serve& serve) {
    std::barrier<> started(static_cast<std::ptrdiff_t>(lanes) + 1);
    std::atomic<bool> all{false};
    std::vector<std::jthread> threads;
    const auto body = [&](std::size_t lane) {
      started.arrive_and_wait();
      if (all.load()) serve(lane);
    };
    try {
      for (std::size_t lane = 0; lane < lanes; ++lane) threads.emplace_back(body, lane);
    } catch (...) {
      for (std::size_t lane = threads.size(); lane < lanes; ++lane) started.arrive_and_drop();
      started.arrive_and_drop();
      throw;
    }
    all.store(true);
    started.arrive_and_wait();
  }

  cores::ThreadPins pins_;
  cores::Topology topology_;
};

std::vector<double> product_rates(Lanes& lanes, std::uint32_t runs,
                                  const kernels::RooflineLoop& loop) {
  if (loop.run == nullptr) return {};
  return lanes.rates(runs, [&loop](std::size_t) {
    loop.run(kRounds);
    return static_cast<double>(loop.products * kRounds);
  });
}

// Several times what all caches hold, as far as the system says.
std::uint64_t memory_to_read() {
  const long last = std::max({sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE), 0L});
  const std::size_t caches = std::max<std::size_t>(cores::cores_by_cache().size(), 1);
  const std::uint64_t several = 8 * static_cast<std::uint64_t>(last) * caches;
  return std::min(std::max(kLeastMemory, several), engine::usable_memory() / 4);
}

}  // namespace

Result<MachineRates> measure_machine(const EngineOptions& options, std::uint32_t runs,
                                     const std::function<void(const std::string&)>& tell) {
  const kernels::Roofline roofline = kernels::roofline_of(options.kernels);
  MachineRates rates;
  try {
    Lanes lanes(options);
    tell("products of 8-bit whole numbers");
    rates.bytes = product_rates(lanes, runs, roofline.bytes);
    if (roofline.bf16.run != nullptr) tell("products of BF16");
    rates.bf16 = product_rates(lanes, runs, roofline.bf16);
    tell("products of floats");
    rates.floats = product_rates(lanes, runs, roofline.floats);

    tell("reading memory");
    const std::size_t chunks =
        std::max<std::size_t>(memory_to_read() / kChunk / options.threads, 1);
    rates.memory_bytes = options.threads * chunks * kChunk;
    struct alignas(64) LanePart {
      AlignedBuffer memory;
      std::size_t next = 0;  // chunk
      bool written = false;
    };
    std::vector<LanePart> parts(options.threads);
    for (LanePart& part : parts) part.memory.reserve(chunks * kChunk);
    rates.memory = lanes.rates(runs, [&](std::size_t lane) {
      LanePart& part = parts[lane];
      // The lane is the first to write there, so that the pages are near it.
      if (!part.written) std::memset(part.memory.data(), 1, chunks * kChunk);
      part.written = true;
      kernels::read_memory(part.memory.data() + part.next * kChunk, kChunk);
      part.next = (part.next + 1) % chunks;
      return static_cast<double>(kChunk);
    });
  } catch (const std::system_error& error) {
    return fail(ErrorKind::kExhausted, "threads: the system does not start {}: {}", options.threads,
                error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::kExhausted, "memory: {} bytes to read do not fit it",
                rates.memory_bytes);
  }
  return rates;
}

}  // namespace dovetail::study
