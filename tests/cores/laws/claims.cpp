#include "cores/laws/claims.h"

#include <fmt/core.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cores/executor.h"
#include "cores/handoff.h"
#include "cores/ready_ring.h"

namespace dovetail::cores {
namespace {

constexpr std::size_t kClaimers = 8;
constexpr std::uint32_t kBlocks = 20'000;  // of a task of which nothing is done

// Counts how often each block of each task is taken. Any thread.
class Tally {
 public:
  Tally(std::size_t tasks, std::uint32_t blocks, const Notice& notice)
      : blocks_(blocks), notice_(notice) {
    for (std::size_t task = 0; task < tasks; ++task) taken_.emplace_back(blocks);
  }

  void take(std::uint64_t task, std::uint32_t block) {
    if (task >= taken_.size() || block >= blocks_) {
      return say(fmt::format("task {} has no block {}", task, block));
    }
    if (++taken_[task][block] > 1) say(fmt::format("block {} of task {} twice", block, task));
  }
  void say(const std::string& what) {
    const std::lock_guard guard(lock_);
    if (wrong_) return;
    wrong_ = what;
    if (notice_) notice_(what);
  }

  // When all has been taken, and from the start again: what is wrong.
  std::optional<std::string> finish() {
    for (std::size_t task = 0; task < taken_.size(); ++task) {
      for (std::uint32_t block = 0; block < blocks_; ++block) {
        const int times = taken_[task][block].exchange(0);
        if (times == 0) say(fmt::format("no thread took block {} of task {}", block, task));
      }
    }
    return wrong_;
  }

 private:
  std::uint32_t blocks_;
  const Notice& notice_;
  std::vector<std::vector<std::atomic<int>>> taken_;
  std::mutex lock_;
  std::optional<std::string> wrong_;
};

template <class Claim>
std::vector<std::thread> start_claimers(const Claim& claim) {
  std::vector<std::thread> claimers;
  for (std::size_t i = 0; i < kClaimers; ++i) claimers.emplace_back(claim);
  return claimers;
}

}  // namespace

std::optional<std::string> eight_take_from_ring(const Notice& notice) {
  constexpr std::uint64_t kTasks = 3;
  ReadyRing ring(4);
  Tally tally(kTasks, kBlocks, notice);
  for (std::uint64_t task = 0; task < kTasks; ++task) ring.push(task, kBlocks, task);
  std::atomic<bool> goes{false};
  auto claimers = start_claimers([&] {
    while (!goes) std::this_thread::yield();
    ReadyRing::Claim last;
    for (auto claim = ring.take(); claim; claim = ring.take()) {
      if (std::pair(claim->task, claim->block) < std::pair(last.task, last.block)) {
        tally.say("blocks are not given in their order");
      }
      last = *claim;
      tally.take(claim->task, claim->block);
      if (claim->block % 64 == 0) std::this_thread::yield();
    }
  });
  ring.publish();
  goes = true;
  for (std::thread& claimer : claimers) claimer.join();
  return tally.finish();
}

std::optional<std::string> eight_take_from_handoff(const Notice& notice) {
  constexpr std::uint64_t kTasks = 3;
  Handoff handoff;
  Tally tally(kTasks, kBlocks, notice);
  std::atomic<bool> ends{false};
  auto claimers = start_claimers([&] {
    while (!ends) {
      const auto claim = handoff.take();
      if (claim) tally.take(claim->task, claim->block);
      if (!claim || claim->block % 64 == 0) std::this_thread::yield();
    }
  });
  for (std::uint64_t task = 0; task < kTasks; ++task) {
    while (!handoff.offer(task, kBlocks)) std::this_thread::yield();
    tally.take(task, 0);
  }
  while (handoff.has_work()) std::this_thread::yield();
  ends = true;
  for (std::thread& claimer : claimers) claimer.join();
  return tally.finish();
}

std::optional<std::string> eight_take_from_executor(const Notice& notice,
                                                    std::chrono::milliseconds limit) {
  constexpr std::size_t kTasks = 40;
  constexpr std::uint32_t kOfEach = 100;
  ExecutorOptions options;
  options.threads = kClaimers;
  options.stall_limit = limit;
  options.on_stall = [&](const Stall& stall) {
    if (notice) notice(stall.message);
  };
  Executor executor(Topology::parse("1x(8L)").value(), options);
  for (const std::size_t chains : {1U, 3U}) {
    struct Run {
      Tally tally;
      std::size_t chains;
      std::array<std::atomic<std::uint32_t>, kTasks> ended = {};  // blocks

      void block(std::size_t task, std::uint32_t number) {
        tally.take(task, number);
        if (task >= chains && ended[task - chains] != kOfEach) tally.say("a task begins early");
        ++ended[task];
      }
      std::optional<std::string> finish() {
        for (auto& blocks : ended) blocks = 0;
        return tally.finish();
      }
    } run{{kTasks, kOfEach, notice}, chains};
    Recorder recorder;
    for (std::size_t task = 0; task < kTasks; ++task) {
      const TaskSpec spec = {kVectorTask, false, kOfEach, 0};
      const auto function = [&run, task](const Part& part) { run.block(task, part.block); };
      const Access accesses[] = {{Region(task % chains, 0, 8), AccessMode::kReadWrite}};
      if (!executor.submit(spec, function, accesses) || !recorder.add(spec, function, accesses)) {
        return "a task is refused";
      }
    }
    if (!executor.wait()) return "the run fails";
    if (auto wrong = run.finish()) return wrong;
    const Recording recording = std::move(recorder).finish();
    for (int time = 0; time < 10; ++time) {
      if (!executor.run(recording)) return "the run of a recording fails";
      if (auto wrong = run.finish()) return wrong;
    }
  }
  return std::nullopt;
}

}  // namespace dovetail::cores
