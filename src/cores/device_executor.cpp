#include "dovetail/device_executor.h"

#include <bit>
#include <cassert>

#include "cores/names.h"

namespace dovetail::cores {

Result<DeviceExecutor> DeviceExecutor::create(const Topology& topology,
                                              const DeviceOptions& options,
                                              DeviceCallbacks callbacks) {
  using dovetail::fail;
  if (!std::has_single_bit(options.graph.tasks)) {
    return fail(ErrorKind::kInvalid, "GraphOptions::tasks is {}; a power of two is valid",
                options.graph.tasks);
  }
  if (!callbacks.dispatch) {
    return fail(ErrorKind::kInvalid,
                "DeviceCallbacks::dispatch is empty; a function that starts parts is valid");
  }
  if (options.dispatch.pending_slots && !callbacks.move) {
    return fail(ErrorKind::kInvalid,
                "DeviceCallbacks::move is empty; with DispatchOptions::pending_slots a function "
                "that starts "
                "a pending part on another lane is valid");
  }
  return DeviceExecutor(topology, options, std::move(callbacks));
}

DeviceExecutor::DeviceExecutor(const Topology& topology, const DeviceOptions& options,
                               DeviceCallbacks callbacks)
    : topology_(topology),
      options_(options),
      callbacks_(std::move(callbacks)),
      graph_(options.graph),
      dispatcher_(topology, options.dispatch),
      slots_(topology.groups().size()),
      bodies_(options.graph.tasks) {
  std::size_t lanes = 0;
  for (const GroupSpec& group : topology.groups()) {
    first_lane_.push_back(lanes);
    lanes += static_cast<std::size_t>(std::bit_width(group.all()));
  }
  lanes_.resize(lanes);
}

Status DeviceExecutor::may_call(const char* function) const {
  if (!calls_back_) return {};
  return dovetail::fail(ErrorKind::kInvalid,
                        "{}() was called by a callback; it is valid after the function that calls "
                        "back has returned",
                        function);
}

Status DeviceExecutor::may_call(const char* function, Ticks now) const {
  if (const Status ok = may_call(function); !ok || now >= now_) return ok;
  return dovetail::fail(ErrorKind::kInvalid, "{}(): the time is {}; {} or later is valid", function,
                        now, now_);
}

template <class Callback, class... Args>
void DeviceExecutor::call(const Callback& callback, const Args&... args) {
  calls_back_ = true;
  callback(args...);
  calls_back_ = false;
}

Result<TaskNumber> DeviceExecutor::submit(const TaskSpec& spec, std::span<const Access> accesses,
                                          std::span<const TaskNumber> after) {
  if (const Status ok = may_call("submit"); !ok) return dovetail::fail(ok.error());
  if (const Status ok = status_.may_submit(); !ok) return dovetail::fail(ok.error());
  const TaskNumber next = graph_.submitted();
  if (spec.shape.whole_group || spec.shape.lanes() > 0) {
    const ReadyTask task = {next, spec.shape, spec.blocks, spec.together, spec.cost};
    if (const Status ok = dispatcher_.check(task); !ok) return dovetail::fail(ok.error());
  }
  for (const TaskNumber earlier : after) {
    if (earlier < next) continue;
    return dovetail::fail(ErrorKind::kInvalid,
                          "task {}: `after` names task {}; the {} tasks before it are valid", next,
                          earlier, next);
  }
  const auto task = graph_.submit(accesses, after);
  if (task) body(*task) = {spec, false, 0, 0};
  return task;
}

void DeviceExecutor::begin_scope() {
  graph_.begin_scope();
  ++scopes_;
}

Status DeviceExecutor::end_scope() {
  if (scopes_ == 0) {
    return dovetail::fail(
        ErrorKind::kInvalid,
        "end_scope(): no scope is open; one call for each begin_scope() is valid");
  }
  --scopes_;
  graph_.end_scope();
  return {};
}

Status DeviceExecutor::schedule(Ticks now) {
  if (const Status ok = may_call("schedule", now); !ok) return ok;
  now_ = now;
  settle(now);
  if (failed_) return {};
  plan_.clear();
  dispatcher_.plan(now, plan_);
  see_reserved(now);
  deliver(now);
  return {};
}

// Ready tasks go to the dispatcher. Joins end, which may make others ready; after a failure all do.
void DeviceExecutor::settle(Ticks now) {
  if (failed_) drop(now);
  while (const auto task = graph_.take_ready()) {
    Body& own = body(*task);
    const TaskSpec& spec = own.spec;
    if (failed_) {
      end_task(*task, now);
      continue;
    }
    if (!spec.shape.whole_group && spec.shape.lanes() == 0) {
      graph_.pass(*task);
      if (callbacks_.ended) call(callbacks_.ended, *task, now);
      continue;
    }
    own.ready = true;
    own.unplaced = spec.blocks;
    dispatcher_.add({*task, spec.shape, spec.blocks, spec.together, spec.cost});
  }
}

// Tasks that the dispatcher has are not executed. From here on it has nothing: lanes hand out what
// is in their own pending slots.
void DeviceExecutor::drop(Ticks now) {
  if (std::exchange(dropped_, true)) return;
  dispatcher_ = Dispatcher(topology_, options_.dispatch);
  see_reserved(now);
  for (TaskNumber task = graph_.oldest(); task < graph_.submitted(); ++task) {
    Body& own = body(task);
    if (!own.ready || std::exchange(own.unplaced, 0) == 0) continue;
    if (own.parts_left == 0) end_task(task, now);
  }
}

void DeviceExecutor::deliver(Ticks now) {
  for (const Move& move : plan_.moves) {
    Lane& from = lane(move.from_group, move.from_lane);
    assert(from.pending.holds(move.task, move.block));
    if (options_.trace) slots_.unpend(move.from_group, move.from_lane, now);
    start(lane(move.to_group, move.to_lane), std::exchange(from.pending, {}), now);
    call(callbacks_.move, move);
  }
  for (const Placement& placement : plan_.placements) {
    const Slot part = {placement.task, placement.block, true};
    Body& own = body(placement.task);
    --own.unplaced;
    own.parts_left +=
        static_cast<std::uint64_t>(std::popcount(placement.running | placement.pending));
    for_each_lane(placement.running,
                  [&](unsigned index) { start(lane(placement.group, index), part, now); });
    for_each_lane(placement.pending, [&](unsigned index) {
      lane(placement.group, index).pending = part;
      if (options_.trace) {
        slots_.pend({part.task, part.block}, placement.group, index, now);
      }
    });
    call(callbacks_.dispatch, placement);
  }
}

void DeviceExecutor::start(Lane& lane, const Slot& part, Ticks now) {
  assert(!lane.running.used);
  lane.running = part;
  lane.started = now;
  ++busy_lanes_;
}

void DeviceExecutor::see_reserved(Ticks now) {
  if (options_.trace) slots_.see_reserved(dispatcher_.tracker(), now);
}

Result<std::vector<HandOver>> DeviceExecutor::complete(std::span<const LanePart> ended, Ticks now) {
  if (const Status ok = may_call("complete", now); !ok) return dovetail::fail(ok.error());
  ++completions_;
  for (const LanePart& part : ended) {
    if (const Status ok = check(part); !ok) return dovetail::fail(ok.error());
  }
  now_ = now;
  std::vector<HandOver> started;
  for (const LanePart& part : ended) {
    if (const auto next = finish(part, now)) started.push_back(*next);
    // Before the next end, so that tasks behind a join become ready in the order of the ends.
    settle(now);
  }
  return started;
}

// The lane executes the part, and it is listed once.
Status DeviceExecutor::check(const LanePart& part) {
  const std::span<const GroupSpec> groups = topology_.groups();
  if (part.group >= groups.size()) {
    return dovetail::fail(
        ErrorKind::kInvalid,
        "complete(): block {} of task {}: the device has no group {}; 0 to {} are valid",
        part.block, part.task, part.group, groups.size() - 1);
  }
  const LaneMask all = groups[part.group].all();
  if (part.lane >= Topology::kMaxLanes || (all >> part.lane & 1) == 0) {
    return dovetail::fail(
        ErrorKind::kInvalid,
        "complete(): block {} of task {}: group {} has no lane {}; 0 to {} are valid", part.block,
        part.task, part.group, part.lane, std::bit_width(all) - 1);
  }
  Lane& own = lane(part.group, part.lane);
  if (!own.running.holds(part.task, part.block)) return refuse(own, part);
  if (std::exchange(own.listed, completions_) != completions_) return {};
  return dovetail::fail(
      ErrorKind::kInvalid, "complete(): block {} of task {} on {} is listed twice; once is valid",
      part.block, part.task, lane_name(groups[part.group], part.group, part.lane));
}

tl::unexpected<Error> DeviceExecutor::refuse(const Lane& lane, const LanePart& part) const {
  const std::string name = lane_name(topology_.groups()[part.group], part.group, part.lane);
  const std::string valid = lane.running.used
                                ? fmt::format("block {} of task {}, which it executes, is valid",
                                              lane.running.block, lane.running.task)
                                : std::string("it executes nothing");
  if (lane.pending.holds(part.task, part.block)) {
    return dovetail::fail(
        ErrorKind::kInvalid,
        "complete(): block {} of task {} is pending on {} and has not started; {}", part.block,
        part.task, name, valid);
  }
  if (lane.last.holds(part.task, part.block)) {
    return dovetail::fail(ErrorKind::kInvalid,
                          "complete(): block {} of task {} on {} was completed before, at {}; {}",
                          part.block, part.task, name, lane.ended, valid);
  }
  return dovetail::fail(ErrorKind::kInvalid, "complete(): block {} of task {} is not on {}; {}",
                        part.block, part.task, name, valid);
}

// Books the end of the part. What the lane starts now, if something is pending for it.
std::optional<HandOver> DeviceExecutor::finish(const LanePart& part, Ticks now) {
  Lane& own = lane(part.group, part.lane);
  if (options_.trace) {
    spans_.push_back({part.task, part.block, part.group, part.lane, own.started, now});
  }
  own.last = std::exchange(own.running, {});
  own.ended = now;
  --busy_lanes_;

  Slot next = own.pending;
  std::optional<LanePart> exchanged;
  if (failed_) {
    own.pending = {};
  } else if (const auto decided = dispatcher_.finish(part.group, part.lane, now)) {
    next = {decided->task, decided->block, true};
    exchanged = exchange(own, next);
  } else {
    assert(!next.used);
  }
  std::optional<HandOver> started;
  if (next.used) {
    if (options_.trace) slots_.start({next.task, next.block}, part.group, part.lane, now);
    start(own, next, now);
    started = {{next.task, next.block, part.group, part.lane}, exchanged};
  }
  Body& of = body(part.task);
  if (--of.parts_left == 0 && of.unplaced == 0) end_task(part.task, now);
  return started;
}

// Takes the part out of the pending slot in which it is. If that is another lane's, that lane gets
// what this one has pending, and it is returned.
std::optional<LanePart> DeviceExecutor::exchange(Lane& own, const Slot& next) {
  if (own.pending.holds(next.task, next.block)) {
    own.pending = {};
    return std::nullopt;
  }
  for (GroupId group = 0; group < topology_.groups().size(); ++group) {
    const LaneMask all = topology_.groups()[group].all();
    for (LaneMask rest = all; rest != 0; rest &= rest - 1) {
      const auto index = static_cast<unsigned>(std::countr_zero(rest));
      Lane& other = lane(group, index);
      if (!other.pending.holds(next.task, next.block)) continue;
      other.pending = std::exchange(own.pending, {});
      return LanePart{other.pending.task, other.pending.block, group, index};
    }
  }
  assert(false);
  return std::nullopt;
}

void DeviceExecutor::end_task(TaskNumber task, Ticks now) {
  body(task).ready = false;
  graph_.finish(task);
  if (callbacks_.ended) call(callbacks_.ended, task, now);
}

Status DeviceExecutor::fail(TaskNumber task, const Error& error) {
  if (const Status ok = may_call("fail"); !ok) return ok;
  if (task >= graph_.submitted()) {
    return dovetail::fail(ErrorKind::kInvalid,
                          "fail(): task {}; the {} tasks that were submitted are valid", task,
                          graph_.submitted());
  }
  status_.fail_task(task, error);
  failed_ = true;
  return {};
}

Status DeviceExecutor::end_run() {
  if (const Status ok = may_call("end_run"); !ok) return ok;
  if (unfinished() > 0) {
    return dovetail::fail(ErrorKind::kInvalid,
                          "end_run(): {} tasks have not ended, {} lanes execute parts; it is valid "
                          "after complete() for these",
                          unfinished(), busy_lanes_);
  }
  failed_ = dropped_ = false;
  return status_.end_run();
}

LaneSpans DeviceExecutor::take_spans() {
  return {std::exchange(spans_, {}), slots_.take_pending(), slots_.take_reserved()};
}

}  // namespace dovetail::cores
