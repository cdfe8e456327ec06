// Drives an imagined NPU of 24 groups, each of one matrix lane and two vector lanes:
//
//   dovetail_npu_example [TRACE.json]
//
// A thread of the program's own submits some layers of a model as tasks, starts what the executor
// dispatches and reports what has ended. Prints what the lanes did; TRACE.json is for
// ui.perfetto.dev. Ends with 1 if anything was executed that should not have been.

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "dovetail/cores.h"

namespace {

using dovetail::Result;
using dovetail::Status;
using dovetail::cores::Access;
using dovetail::cores::AccessMode;
using dovetail::cores::BufferId;
using dovetail::cores::DeviceCallbacks;
using dovetail::cores::DeviceExecutor;
using dovetail::cores::DeviceOptions;
using dovetail::cores::for_each_lane;
using dovetail::cores::GroupId;
using dovetail::cores::GroupSpec;
using dovetail::cores::HandOver;
using dovetail::cores::kMatrixTask;
using dovetail::cores::kVectorTask;
using dovetail::cores::lane_name;
using dovetail::cores::LanePart;
using dovetail::cores::LaneSpans;
using dovetail::cores::LaneTrace;
using dovetail::cores::Move;
using dovetail::cores::Placement;
using dovetail::cores::Region;
using dovetail::cores::Span;
using dovetail::cores::TaskGraph;
using dovetail::cores::TaskId;
using dovetail::cores::TaskNumber;
using dovetail::cores::TaskShape;
using dovetail::cores::TaskSpec;
using dovetail::cores::Ticks;
using dovetail::cores::Topology;
using dovetail::cores::write_lane_trace;

constexpr int kLayers = 6, kTiles = 48;
constexpr std::uint32_t kGraphTasks = 256;  // fewer than there are, so that the ring fills up

// A kernel launch: what it needs, how long it takes, which buffers it reads and writes.
struct Kernel {
  std::string name;
  TaskSpec spec;  // its cost is what a block takes, in cycles of the NPU
  std::vector<BufferId> reads, writes;
};

// Layers of a transformer by tiles of rows: norm, projection, fused attention (one matrix lane and
// both vector lanes of a group hand tiles to each other), output projection; after each layer an
// exchange, whose parts wait for each other on half of all vector lanes.
std::vector<Kernel> make_model() {
  std::vector<Kernel> model;
  const auto buffer = [](int layer, int kind, int tile) {
    const int number = (layer * 8 + kind) * kTiles + tile;
    return static_cast<BufferId>(number);
  };
  for (int layer = 0; layer < kLayers; ++layer) {
    const BufferId before = buffer(layer, 5, 0), exchanged = buffer(layer + 1, 5, 0);
    std::vector<BufferId> rows;
    for (int tile = 0; tile < kTiles; ++tile) {
      const auto at = [&](int kind) { return buffer(layer, kind, tile); };
      const auto cycles = [&](Ticks base) {
        return base + base / 8 * static_cast<Ticks>(tile % 5);
      };
      const auto add = [&](const char* what, TaskShape shape, Ticks base,
                           std::vector<BufferId> reads, BufferId writes) {
        model.push_back({fmt::format("{} {}.{}", what, layer, tile),
                         {shape, false, 1, cycles(base)},
                         std::move(reads),
                         {writes}});
      };
      const BufferId next = buffer(layer + 1, 0, tile);
      add("norm", kVectorTask, 400, {at(0), before}, at(1));
      add("project", kMatrixTask, 900, {at(1)}, at(2));
      std::vector<BufferId> keys = {at(2)};
      if (tile > 0) keys.push_back(buffer(layer, 2, tile - 1));
      add("attention", {1, 2, false}, 1600, keys, at(3));
      add("output", kMatrixTask, 700, {at(3)}, next);
      rows.push_back(next);
    }
    model.push_back({fmt::format("exchange {}", layer),
                     {kVectorTask, true, 24, 300},
                     std::move(rows),
                     {exchanged}});
  }
  return model;
}

// What a kernel computes stands for all of its output: a number that depends on all that it reads.
using Memory = std::map<BufferId, std::uint64_t>;

std::uint64_t compute(TaskNumber task, const Kernel& kernel, Memory& memory) {
  std::uint64_t value = task + 1;
  for (const BufferId read : kernel.reads) {
    value = (value ^ memory[read]) * 0x9E3779B97F4A7C15U;
    value ^= value >> 29;
  }
  return value;
}

// The device: lanes that execute one part each, and a clock that counts cycles.
class Npu {
 public:
  explicit Npu(std::vector<std::string>& violations) : violations_(violations) {}

  void start(const LanePart& part, Ticks cycles) {
    const auto [found, idle] = executes_.try_emplace({part.group, part.lane}, part);
    if (!idle) {
      violations_.push_back(fmt::format("group {} lane {} is given task {} and executes task {}",
                                        part.group, part.lane, part.task, found->second.task));
      return;
    }
    ends_.insert({now_ + cycles, part});
    log_.push_back({part.task, part.block, part.group, part.lane, now_, now_ + cycles});
  }

  // The parts that end next, when they have.
  std::vector<LanePart> wait() {
    std::vector<LanePart> ended;
    if (ends_.empty()) return ended;
    now_ = ends_.begin()->first;
    for (; !ends_.empty() && ends_.begin()->first == now_; ends_.erase(ends_.begin())) {
      const LanePart& part = ends_.begin()->second;
      executes_.erase({part.group, part.lane});
      ended.push_back(part);
    }
    return ended;
  }

  Ticks now() const { return now_; }
  bool idle() const { return executes_.empty(); }
  const std::vector<Span>& log() const { return log_; }

 private:
  std::vector<std::string>& violations_;
  Ticks now_ = 0;
  std::map<std::pair<GroupId, unsigned>, LanePart> executes_;
  std::multimap<Ticks, LanePart> ends_;
  std::vector<Span> log_;
};

struct Run {
  LaneSpans spans;
  TaskGraph::HighWater high_water;
  std::uint64_t times_full = 0, handed_over = 0, exchanged = 0, moved = 0;
  Ticks cycles = 0;
  std::vector<TaskNumber> ended;
  Memory memory;
  std::vector<std::string> violations;
};

// The body of the thread that drives the NPU.
Status drive(const Topology& topology, const std::vector<Kernel>& model, Run& run) {
  Npu npu(run.violations);
  std::map<TaskNumber, std::uint64_t> results;  // of what executes
  const auto start = [&](const LanePart& part) {
    // Its inputs are what is in memory when its first part starts.
    if (!results.contains(part.task)) {
      results[part.task] = compute(part.task, model[part.task], run.memory);
    }
    npu.start(part, model[part.task].spec.cost);
  };

  DeviceCallbacks callbacks;
  callbacks.dispatch = [&](const Placement& placed) {
    for_each_lane(placed.running, [&](unsigned lane) {
      start({placed.task, placed.block, placed.group, lane});
    });
  };
  callbacks.move = [&](const Move& move) {
    ++run.moved;
    start({move.task, move.block, move.to_group, move.to_lane});
  };
  callbacks.ended = [&](TaskNumber task, Ticks) {
    run.ended.push_back(task);
    for (const BufferId written : model[task].writes) run.memory[written] = results[task];
    results.erase(task);
  };

  DeviceOptions options;
  options.graph.tasks = kGraphTasks;
  options.trace = true;
  Result<DeviceExecutor> executor = DeviceExecutor::create(topology, options, std::move(callbacks));
  if (!executor) return dovetail::fail(executor.error());

  while (executor->submitted() < model.size() || executor->unfinished() > 0) {
    while (executor->submitted() < model.size()) {
      const Kernel& kernel = model[executor->submitted()];
      std::vector<Access> accesses;
      for (const BufferId read : kernel.reads) {
        accesses.push_back({Region(read, 0, 64), AccessMode::kRead});
      }
      for (const BufferId written : kernel.writes) {
        accesses.push_back({Region(written, 0, 64), AccessMode::kWrite});
      }
      const auto task = executor->submit(kernel.spec, accesses);
      if (task) continue;
      if (task.error().kind != dovetail::ErrorKind::kExhausted) return dovetail::fail(task.error());
      ++run.times_full;
      break;
    }
    if (const Status ok = executor->schedule(npu.now()); !ok) return ok;
    const std::vector<LanePart> ended = npu.wait();
    const auto next = executor->complete(ended, npu.now());
    if (!next) return dovetail::fail(next.error());
    if (ended.empty() && executor->unfinished() > 0) {
      return dovetail::fail(dovetail::ErrorKind::kInternal,
                            "{} tasks have not ended, and no lane executes anything",
                            executor->unfinished());
    }
    for (const HandOver& one : *next) {
      ++run.handed_over;
      run.exchanged += one.exchanged ? 1 : 0;
      start(one.starts);
    }
  }
  if (const Status ok = executor->end_run(); !ok) return ok;

  run.cycles = npu.now();
  run.high_water = executor->high_water();
  run.spans = executor->take_spans();
  if (!npu.idle() || executor->busy_lanes() > 0) run.violations.push_back("lanes are busy");
  const auto in_order = [](std::vector<Span> spans) {
    std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
      return std::tuple(a.group, a.lane, a.start) < std::tuple(b.group, b.lane, b.start);
    });
    return spans;
  };
  if (in_order(npu.log()) != in_order(run.spans.running)) {
    run.violations.push_back("the trace is not what the NPU has executed");
  }
  return {};
}

// The laws, as far as the spans show them.
void check(const std::vector<Kernel>& model, Run& run) {
  const auto violate = [&](TaskNumber task, const char* what) {
    run.violations.push_back(fmt::format("'{}' {}", model[task].name, what));
  };
  // Nothing is lost, nothing is executed twice.
  std::vector<int> times(model.size(), 0);
  for (const TaskNumber task : run.ended) ++times[task];
  std::map<std::pair<TaskNumber, std::uint32_t>, std::vector<Span>> blocks;
  std::vector<std::vector<Ticks>> starts(model.size());
  for (const Span& span : run.spans.running) {
    blocks[{span.task, span.block}].push_back(span);
    starts[span.task].push_back(span.start);
  }
  // Whole resource: a block has lanes of one group, as many as its shape, which start together; so
  // do all blocks of a gang.
  for (TaskNumber task = 0; task < model.size(); ++task) {
    const TaskSpec& spec = model[task].spec;
    if (times[task] != 1) violate(task, "has not ended once");
    for (std::uint32_t block = 0; block < spec.blocks; ++block) {
      const std::vector<Span>& parts = blocks[{task, block}];
      if (parts.size() != spec.shape.lanes()) violate(task, "has not the lanes of its shape");
      for (const Span& part : parts) {
        if (part.group != parts[0].group) violate(task, "has lanes of several groups");
        if (part.start != parts[0].start) violate(task, "starts in parts");
      }
    }
    const auto [first, last] = std::minmax_element(starts[task].begin(), starts[task].end());
    if (spec.together && (starts[task].empty() || *first != *last)) {
      violate(task, "does not start as a whole");
    }
  }
  // The schedule never changes the answer: memory is the serial program's.
  Memory serial;
  for (TaskNumber task = 0; task < model.size(); ++task) {
    const std::uint64_t value = compute(task, model[task], serial);
    for (const BufferId written : model[task].writes) serial[written] = value;
  }
  for (const auto& [buffer, value] : serial) {
    if (run.memory[buffer] != value) {
      run.violations.push_back(fmt::format("buffer {} is not the serial program's", buffer));
    }
  }
}

// The lanes of a group, from the beginning up to a time: a letter for what each does in a column.
void draw(const Topology& topology, const std::vector<Kernel>& model, const Run& run, GroupId group,
          Ticks until) {
  constexpr std::size_t kColumns = 72;
  const GroupSpec& spec = topology.groups()[group];
  for_each_lane(spec.all(), [&](unsigned lane) {
    std::string row(kColumns, '.');
    for (const Span& span : run.spans.running) {
      if (span.group != group || span.lane != lane || span.start >= until) continue;
      const std::size_t from = span.start * kColumns / until;
      const std::size_t to = std::min<std::size_t>(kColumns, span.end * kColumns / until);
      std::fill(row.begin() + static_cast<std::ptrdiff_t>(from),
                row.begin() + static_cast<std::ptrdiff_t>(to), model[span.task].name[0]);
    }
    fmt::print("  {:<20} {}\n", lane_name(spec, group, lane), row);
  });
}

void report(const Topology& topology, const std::vector<Kernel>& model, const Run& run) {
  Ticks busy[2] = {0, 0};
  std::size_t lanes[2] = {0, 0};
  for (const GroupSpec& group : topology.groups()) {
    lanes[0] += static_cast<std::size_t>(std::popcount(group.matrix));
    lanes[1] += static_cast<std::size_t>(std::popcount(group.vector));
  }
  for (const Span& span : run.spans.running) {
    const bool matrix = (topology.groups()[span.group].matrix >> span.lane & 1) != 0;
    busy[matrix ? 0 : 1] += span.end - span.start;
  }
  fmt::print("{}: {} tasks in {} parts, {} cycles\n", topology.text(), run.ended.size(),
             run.spans.running.size(), run.cycles);
  for (const int kind : {0, 1}) {
    fmt::print("{} lanes: busy for {:.1f} % of the time\n", kind == 0 ? "matrix" : "vector",
               100.0 * static_cast<double>(busy[kind]) /
                   (static_cast<double>(lanes[kind]) * static_cast<double>(run.cycles)));
  }
  fmt::print(
      "graph: {} of {} tasks at most, full {} times; {} parts handed over by pending slots ({} "
      "exchanged, {} moved)\n",
      run.high_water.tasks, kGraphTasks, run.times_full, run.handed_over, run.exchanged, run.moved);
  fmt::print("the first layer on group 0 (norm, project, attention, output, exchange):\n");
  draw(topology, model, run, 0, run.cycles / kLayers);
}

Status write_trace(const char* path, const Topology& topology, const std::vector<Kernel>& model,
                   const Run& run) {
  std::ofstream file(path);
  LaneTrace trace;
  trace.running = run.spans.running;
  trace.pending = run.spans.pending;
  trace.reserved = run.spans.reserved;
  trace.name = [&](TaskId task) { return model[task].name; };
  write_lane_trace(topology, trace, [&](std::string_view text) { file << text; });
  file.close();
  if (file) return {};
  return dovetail::fail(dovetail::ErrorKind::kIo, "{}: it cannot be written", path);
}

int complain(const dovetail::Error& error) {
  fmt::print(stderr, "{}\n", error.message);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Result<Topology> topology = Topology::parse("24x(1C2V)");
  if (!topology) return complain(topology.error());
  const std::vector<Kernel> model = make_model();
  Run run;
  Status driven;
  std::thread driver([&] { driven = drive(*topology, model, run); });
  driver.join();
  if (!driven) return complain(driven.error());
  check(model, run);
  report(*topology, model, run);
  if (argc > 1) {
    if (const Status ok = write_trace(argv[1], *topology, model, run); !ok) {
      return complain(ok.error());
    }
  }
  for (const std::string& violation : run.violations) fmt::print(stderr, "{}\n", violation);
  fmt::print("{} violations\n", run.violations.size());
  return run.violations.empty() ? 0 : 1;
}
