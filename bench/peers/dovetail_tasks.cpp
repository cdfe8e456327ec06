// Empty tasks on Dovetail's own runtime, with two threads: one that submits and runs tasks while it
// waits, and another one. Usage: dovetail_tasks [WORKLOAD]; beside those of the peers "mixed"
// (tasks of a matrix and two vector lanes), "submit" and "replay" (microseconds a task, nothing
// else runs).

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cores/executor.h"
#include "workloads.h"

namespace dovetail::bench {
namespace {

using cores::Access;
using cores::AccessMode;
using cores::Part;
using cores::Region;
using cores::TaskSpec;

constexpr TaskSpec kMatrix = {cores::kMatrixTask, false, 1, 0};
constexpr TaskSpec kVector = {cores::kVectorTask, false, 1, 0};
constexpr TaskSpec kMixed = {{1, 2, false}, false, 1, 0};

constexpr int kFit = 16'000;  // tasks that a ring has room for

void nothing(const Part&) {}

Region line(std::uint64_t buffer) { return {buffer, 0, 64}; }

cores::ExecutorOptions with_threads(unsigned threads, bool caller_serves) {
  cores::ExecutorOptions options;
  options.threads = threads;
  options.caller_serves = caller_serves;
  return options;
}

void expect(bool done) {
  if (!done) std::abort();
}

template <class Submit>
void chains(Submit submit) {
  for (int i = 0; i < kTasks; ++i) {
    const Access access[] = {
        {line(1 + static_cast<std::uint64_t>(i / kChain)), AccessMode::kReadWrite}};
    submit(kVector, access);
  }
}

template <class Submit>
void attention(int tasks, Submit submit) {
  for (int i = 0; i < tasks / 4; ++i) {
    const auto block = 8 * static_cast<std::uint64_t>(i);
    const auto row = 8 * static_cast<std::uint64_t>(i / kBlocksPerRow);
    const Region query = line(row), key = line(block + 1), value = line(block + 2),
                 scores = line(block + 3), weights = line(block + 4), part = line(block + 5),
                 sum = line(row + 6);
    const Access products[] = {
        {query, AccessMode::kRead}, {key, AccessMode::kRead}, {scores, AccessMode::kWrite}};
    const Access softmax[] = {{scores, AccessMode::kRead}, {weights, AccessMode::kWrite}};
    const Access values[] = {
        {weights, AccessMode::kRead}, {value, AccessMode::kRead}, {part, AccessMode::kWrite}};
    const Access update[] = {{part, AccessMode::kRead}, {sum, AccessMode::kReadWrite}};
    submit(kMatrix, products);
    submit(kVector, softmax);
    submit(kMatrix, values);
    submit(kVector, update);
  }
}

// What the thread that submits pays where no other one is.
void measure_submit() {
  std::vector<double> each;
  cores::Executor executor(*cores::Topology::parse("1x(1C2V)"), with_threads(1, true));
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    attention(kFit, [&](const TaskSpec& spec, std::span<const Access> accesses) {
      expect(executor.submit(spec, nothing, accesses).has_value());
    });
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    each.push_back(took.count() / kFit);
    expect(executor.wait().has_value());
  }
  std::sort(each.begin(), each.end());
  std::printf("submit %.3f\n", each[each.size() / 2]);
}

// Per task, with its running: what is left of it without looking for who waits for whom.
void measure_replay() {
  cores::Executor executor(*cores::Topology::parse("1x(1C2V)"), with_threads(1, true));
  cores::Recorder recorder;
  attention(kFit, [&](const TaskSpec& spec, std::span<const Access> accesses) {
    expect(recorder.add(spec, nothing, accesses).has_value());
  });
  const cores::Recording recording = std::move(recorder).finish();
  std::vector<double> each;
  for (int round = 0; round < 5 * kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    expect(executor.run(recording).has_value());
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    each.push_back(took.count() / recording.size());
  }
  std::sort(each.begin(), each.end());
  std::printf("replay %.3f\n", each[each.size() / 2]);
}

void run(int argc, char** argv) {
  {
    cores::Executor executor(*cores::Topology::parse("1x(2L)"), with_threads(2, true));
    const auto submit = [&](const TaskSpec& spec, std::span<const Access> accesses) {
      expect(executor.submit(spec, nothing, accesses).has_value());
    };
    measure(argc, argv, "independent", [&] {
      for (int i = 0; i < kTasks; ++i) submit(kVector, {});
      expect(executor.wait().has_value());
    });
    measure(argc, argv, "chains", [&] {
      chains(submit);
      expect(executor.wait().has_value());
    });
    measure(argc, argv, "attention", [&] {
      attention(kTasks, submit);
      expect(executor.wait().has_value());
    });
  }
  {
    // Three lanes for two threads: one submits, the other serves all three.
    cores::Executor executor(*cores::Topology::parse("1x(1C2V)"), with_threads(1, false));
    measure(argc, argv, "mixed", [&] {
      for (int i = 0; i < kTasks; ++i) expect(executor.submit(kMixed, nothing).has_value());
      expect(executor.wait().has_value());
    });
  }
  if (argc < 2 || std::strcmp(argv[1], "submit") == 0) measure_submit();
  if (argc < 2 || std::strcmp(argv[1], "replay") == 0) measure_replay();
}

}  // namespace
}  // namespace dovetail::bench

int main(int argc, char** argv) { dovetail::bench::run(argc, argv); }
