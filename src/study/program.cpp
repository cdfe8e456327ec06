#include "study/program.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <tuple>

#include "cores/names.h"

namespace dovetail::study {
namespace {

cores::Ticks divided_up(cores::Ticks work, std::uint64_t by) {
  return by == 0 ? 0 : (work + by - 1) / by;
}

// Blocks of a shape that the whole machine can run at a time.
std::uint64_t places_of(const cores::Topology& topology, const cores::TaskShape& shape) {
  std::uint64_t count = 0;
  for (const cores::GroupSpec& group : topology.groups()) {
    cores::LaneMask from = group.all();
    while (const cores::LaneMask lanes = cores::choose_lanes(group, shape, from)) {
      from &= ~lanes;
      ++count;
    }
  }
  return count;
}

using ShapeKey = std::tuple<std::uint8_t, std::uint8_t, bool>;
ShapeKey key_of(const cores::TaskShape& shape) {
  return {shape.matrix, shape.vector, shape.whole_group};
}

// What tasks of every shape have to do at least, in lane ticks.
class Work {
 public:
  explicit Work(const cores::Topology& topology) {
    for (const cores::GroupSpec& group : topology.groups()) {
      const auto count = [](cores::LaneMask lanes) {
        return static_cast<std::uint64_t>(std::popcount(lanes));
      };
      matrix_lanes_ += count(group.matrix);
      vector_lanes_ += count(group.vector);
      lanes_ += count(group.all());
      least_matrix_ = std::min(least_matrix_, count(group.matrix & ~group.vector));
      least_vector_ = std::min(least_vector_, count(group.vector & ~group.matrix));
      least_ = std::min(least_, count(group.all()));
    }
  }

  void add(const ProgramTask& task, std::uint64_t places) {
    const cores::TaskShape& shape = task.shape;
    const cores::Ticks ticks = task.takes * task.blocks;
    matrix_ += ticks * (shape.whole_group ? least_matrix_ : shape.matrix);
    vector_ += ticks * (shape.whole_group ? least_vector_ : shape.vector);
    all_ += ticks * (shape.whole_group ? least_ : shape.lanes());
    auto& [of_shape, place_count] = by_shape_[key_of(shape)];
    of_shape += ticks;
    place_count = places;
  }

  void settle(ProgramBounds& bounds) const {
    const auto consider = [&](cores::Ticks ticks, std::string_view scarce) {
      if (ticks <= bounds.work) return;
      bounds.work = ticks;
      bounds.scarce = scarce;
    };
    consider(divided_up(matrix_, matrix_lanes_), "matrix lanes");
    consider(divided_up(vector_, vector_lanes_), "vector lanes");
    consider(divided_up(all_, lanes_), "lanes");
    for (const auto& [key, work] : by_shape_) {
      const auto& [matrix, vector, whole_group] = key;
      consider(divided_up(work.first, work.second),
               fmt::format("places for {}", cores::shape_name({matrix, vector, whole_group})));
    }
  }

 private:
  std::uint64_t matrix_lanes_ = 0, vector_lanes_ = 0, lanes_ = 0;
  std::uint64_t least_matrix_ = 64, least_vector_ = 64, least_ = 64;  // that a group has
  cores::Ticks matrix_ = 0, vector_ = 0, all_ = 0;
  std::map<ShapeKey, std::pair<cores::Ticks, std::uint64_t>> by_shape_;  // block ticks, places
};

class Player {
 public:
  Player(const cores::Topology& topology, std::span<const ProgramTask> program,
         const PlayOptions& options)
      : program_(program),
        costs_known_(options.costs_known),
        graph_(options.graph),
        machine_(
            topology, options.dispatch,
            [this](cores::TaskId task, std::uint32_t, cores::GroupId, unsigned) {
              return program_[task].takes;
            },
            [this](cores::TaskId task, cores::Ticks now) {
              graph_.finish(task);
              feed(now);
            }) {
    machine_.watch_slots();
  }

  Result<PlayedProgram> run() {
    feed(0);
    const std::size_t left = machine_.run();
    if (error_) return fail(*error_);
    if (left > 0 || graph_.running() > 0 || graph_.submitted() < program_.size()) {
      return fail(ErrorKind::kInternal, "{} of {} tasks were never run",
                  program_.size() - graph_.submitted() + graph_.running(), program_.size());
    }
    played_.spans = machine_.spans();
    played_.pending = machine_.pending();
    played_.reserved = machine_.reserved();
    played_.waits = machine_.waits();
    played_.makespan = machine_.now();
    return std::move(played_);
  }

 private:
  void feed(cores::Ticks now) {
    for (bool more = true; more && !error_;) {
      submit();
      more = start(now);
    }
    sample_rings(played_.rings, now, graph_.high_water());
  }

  void submit() {
    while (graph_.submitted() < program_.size()) {
      const ProgramTask& task = program_[graph_.submitted()];
      const auto number = graph_.submit(task.accesses, task.after);
      if (number) continue;
      if (number.error().kind != ErrorKind::kExhausted) error_ = named(task, number.error());
      return;
    }
  }

  // True: a task without lanes has ended, so that others may have become ready.
  bool start(cores::Ticks now) {
    bool ended = false;
    while (const auto number = graph_.take_ready()) {
      const ProgramTask& task = program_[*number];
      if (!has_lanes(task.shape)) {
        graph_.pass(*number);
        ended = true;
        continue;
      }
      const cores::ReadyTask ready = {*number, task.shape, task.blocks, task.together,
                                      costs_known_ ? task.takes : 0};
      if (const Status ok = machine_.submit(ready, now); !ok) error_ = named(task, ok.error());
    }
    return ended;
  }

  static Error named(const ProgramTask& task, const Error& error) {
    return {error.kind, fmt::format("'{}': {}", task.name, error.message)};
  }

  std::span<const ProgramTask> program_;
  bool costs_known_;
  cores::TaskGraph graph_;
  VirtualMachine machine_;
  PlayedProgram played_;
  std::optional<Error> error_;
};

}  // namespace

std::vector<std::vector<cores::TaskNumber>> dependencies_of(std::span<const ProgramTask> program) {
  std::size_t accesses = 0;
  for (const ProgramTask& task : program) accesses += task.accesses.size();
  cores::TensorMap map(static_cast<std::uint32_t>(std::max<std::size_t>(accesses, 1)));
  std::vector<std::vector<cores::TaskNumber>> before(program.size());
  for (cores::TaskNumber number = 0; number < program.size(); ++number) {
    const ProgramTask& task = program[number];
    map.find(number, task.accesses, task.after, before[number]);
    map.enter(number, task.accesses);
  }
  return before;
}

ProgramBounds bounds_of(const cores::Topology& topology, std::span<const ProgramTask> program) {
  const auto before = dependencies_of(program);
  Work work(topology);
  ProgramBounds bounds;
  std::map<ShapeKey, std::uint64_t> places;
  std::vector<cores::Ticks> ends(program.size(), 0);
  for (cores::TaskNumber number = 0; number < program.size(); ++number) {
    const ProgramTask& task = program[number];
    for (const cores::TaskNumber earlier : before[number])
      ends[number] = std::max(ends[number], ends[earlier]);
    if (!has_lanes(task.shape)) continue;
    const auto [found, is_new] = places.try_emplace(key_of(task.shape), 0);
    if (is_new) found->second = places_of(topology, task.shape);
    ends[number] += task.takes * divided_up(task.blocks, found->second);
    work.add(task, found->second);
    bounds.critical_path = std::max(bounds.critical_path, ends[number]);
  }
  work.settle(bounds);
  return bounds;
}

void sample_rings(std::vector<RingSample>& rings, cores::Ticks now,
                  const cores::TaskGraph::HighWater& high) {
  if (rings.empty() || rings.back().high != high) rings.push_back({now, high});
}

Result<PlayedProgram> play_program(const cores::Topology& topology,
                                   std::span<const ProgramTask> program,
                                   const PlayOptions& options) {
  return Player(topology, program, options).run();
}

}  // namespace dovetail::study
