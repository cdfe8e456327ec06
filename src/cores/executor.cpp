#include "cores/executor.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace dovetail::cores {
namespace {

// Ready tasks that a submitting caller holds back while no thread sleeps: lanes that look for work
// fetch the caller's cache lines once for all of these, not once for each.
constexpr std::uint64_t kHeldBack = 8;
// Tasks that it submits before it looks at what has ended.
constexpr std::uint32_t kSubmitsPerCollect = 32;
// Bodies that it fetches before it writes them: other threads have read them.
constexpr TaskNumber kBodiesAhead = 4;

}  // namespace

Executor::Executor(const Topology& topology, const ExecutorOptions& options)
    : LaneThreads(topology, options) {
  const auto start = [this](Thread& thread) {
    thread.thread = std::thread([this, &thread] {
      const auto lane = static_cast<std::size_t>(thread.lanes.front() - lanes_.get());
      std::optional<ThreadPins::Member> member;
      if (options_.pins != nullptr) member.emplace(*options_.pins, topology_.core_of(lane));
      serve(thread, nullptr);
    });
  };
  try {
    for (std::size_t index = 1; index < threads_.size(); ++index) start(*threads_[index]);
    watchdog_.start();
  } catch (...) {
    stop();
    throw;
  }
}

Executor::~Executor() {
  assert(graph_.running() == 0 && gates_.in_use() == 0);
  stop();
}

void Executor::stop() {
  watchdog_.stop();
  stop_.store(true, std::memory_order_release);
  {
    const Lock guard(*this, threads_[0]->to_notify);
    for (const auto& thread : threads_) wake(*thread);
  }
  for (const auto& thread : threads_) {
    if (thread->thread.joinable()) thread->thread.join();
  }
}

Status Executor::check(const TaskSpec& spec) const {
  if (spec.blocks > ReadyRing::kMaxBlocks) {
    return dovetail::fail(ErrorKind::kInvalid, "a task of {} blocks: {} at most", spec.blocks,
                          ReadyRing::kMaxBlocks);
  }
  if (!spec.shape.whole_group && spec.shape.lanes() == 0) return {};
  return dispatcher_.check({0, spec.shape, spec.blocks, spec.together, spec.cost});
}

// The error of the run, if a task has failed.
Status Executor::may_submit() {
  if (!failed_.load(std::memory_order_relaxed)) return {};
  const std::lock_guard status(status_lock_);
  return status_.may_submit();
}

Result<TaskNumber> Executor::submit(const TaskSpec& spec, const TaskFunction& function,
                                    std::span<const Access> accesses,
                                    std::span<const TaskNumber> after, const Condition& condition) {
  if (const Status ok = check(spec); !ok) return dovetail::fail(ok.error());
  for (;;) {
    Until room;
    {
      const Waker waker{*this};
      const Lock guard(*this, threads_[0]->to_notify);
      if (const Status ok = may_submit(); !ok) return dovetail::fail(ok.error());
      if (++since_collect_ >= kSubmitsPerCollect) collect();
      const auto task = graph_.submit(accesses, after);
      if (task) {
        Body& own = body(*task);
        __builtin_prefetch(&body(*task + kBodiesAhead), 1);
        own.function = function;
        own.spec = spec;
        own.conditional = !condition.always();
        if (own.conditional) conditions_[*task & (options_.graph.tasks - 1)] = condition;
        costs_known_ |= spec.cost > 0;
        if (spec.is_wide()) wide_.fetch_add(1, std::memory_order_relaxed);
        own.blocks_left.store(spec.blocks, std::memory_order_relaxed);
        make_ready();
        if (closed_ || idle_lanes_ > 0 ||
            matrix_ring_.unpublished() + vector_ring_.unpublished() >= kHeldBack) {
          dispatch({});
        }
        return task;
      }
      if (task.error().kind != ErrorKind::kExhausted) {
        dispatch({});
        return dovetail::fail(task.error());
      }
      room = {false, ended_ + 1 + graph_.running() / 4};
    }
    serve(*threads_[0], &room);
  }
}

Result<Executor::Output> Executor::allocate_output(std::uint64_t bytes) {
  if (!outputs_) {
    return dovetail::fail(ErrorKind::kInvalid,
                          "{} bytes of output memory, and ExecutorOptions::outputs gives none",
                          bytes);
  }
  for (;;) {
    Until room;
    {
      const Waker waker{*this};
      const Lock guard(*this, threads_[0]->to_notify);
      if (const Status ok = may_submit(); !ok) return dovetail::fail(ok.error());
      collect();
      outputs_->give_up_before(graph_.oldest());
      const auto offset = outputs_->allocate(graph_.submitted(), bytes, graph_.held_from());
      if (offset) return Output{*offset, {output_memory_.data() + *offset, bytes}};
      // No other thread may be looking for work that lanes can get.
      dispatch({});
      if (offset.error().kind != ErrorKind::kExhausted) return dovetail::fail(offset.error());
      room = {false, ended_ + 1 + graph_.running() / 4};
    }
    serve(*threads_[0], &room);
  }
}

void Executor::begin_scope() {
  const std::lock_guard guard(lock_);
  graph_.begin_scope();
}

void Executor::end_scope() {
  const std::lock_guard guard(lock_);
  graph_.end_scope();
}

Executor::HighWater Executor::high_water() {
  const std::lock_guard guard(lock_);
  return {graph_.high_water(), outputs_ ? outputs_->high_water() : OutputRing::HighWater{}};
}

Status Executor::wait() {
  const Until all;
  serve(*threads_[0], &all);
  return end_run();
}

Status Executor::run(const Recording& recording) {
  if (recording.size() > options_.graph.tasks) {
    return dovetail::fail(ErrorKind::kInvalid,
                          "a recording of {} tasks, and GraphOptions::tasks has room for {}",
                          recording.size(), options_.graph.tasks);
  }
  if (is_chain(recording)) return run_chain(recording);
  // Nothing runs, so no other thread reads any of this before something is published.
  const TaskSpec* checked = nullptr;
  bool costs_known = false;
  std::uint32_t wide = 0;
  for (TaskNumber task = 0; task < recording.size(); ++task) {
    const Recording::Task& from = recording.tasks_[task];
    if (checked == nullptr || !(*checked == from.spec)) {
      if (const Status ok = check(from.spec); !ok) return dovetail::fail(ok.error());
      checked = &from.spec;
    }
    progress_[task].blocks_left.store(from.spec.blocks, std::memory_order_relaxed);
    progress_[task].waits.store(from.waits, std::memory_order_relaxed);
    costs_known |= from.spec.cost > 0;
    wide += from.spec.is_wide() ? 1 : 0;
  }
  {
    const Waker waker{*this};
    const Lock guard(*this, threads_[0]->to_notify);
    assert(graph_.running() == 0);
    costs_known_ |= costs_known;
    wide_.fetch_add(wide, std::memory_order_relaxed);
    ended_before_ = ended();
    recording_ = &recording;
    sinks_left_.store(recording.sinks_, std::memory_order_relaxed);
    for (TaskNumber task = 0; task < recording.size(); ++task) {
      if (recording.tasks_[task].waits == 0) newly_ready_.push_back(task);
    }
    make_ready();
    // The caller takes some of it at once.
    Kinds first;
    for (const Lane* lane : threads_[0]->lanes) {
      first.matrix += lane->matrix ? 1 : 0;
      first.vector += lane->vector ? 1 : 0;
    }
    dispatch(first);
  }
  Status done = wait();
  const std::lock_guard guard(lock_);
  recording_ = nullptr;
  return done;
}

// Of single blocks that the caller's lane can do.
bool Executor::is_chain(const Recording& recording) const {
  if (!recording.chain_ || !options_.caller_serves) return false;
  const Lane& own = *threads_[0]->lanes.front();
  const Recording::Kinds& kinds = recording.kinds_;
  assert(kinds.matrix + kinds.vector + kinds.others == recording.size());
  return kinds.others == 0 && (kinds.matrix == 0 || own.matrix) &&
         (kinds.vector == 0 || own.vector);
}

// One task after the other, each of one block, on the caller's lane. No placement can take that
// lane before the caller waits, and no other lane could begin any of the tasks sooner.
Status Executor::run_chain(const Recording& recording) {
  Thread& self = *threads_[0];
  Lane& lane = *self.lanes.front();
  const auto replay = [&](const Recording* what) {
    const Waker waker{*this};
    const std::lock_guard guard(lock_);
    assert(graph_.running() == 0);
    if (what != nullptr) ended_before_ = ended();
    sinks_left_.store(what != nullptr && what->size() > 0 ? 1 : 0, std::memory_order_relaxed);
    recording_ = what;
  };
  replay(&recording);
  for (TaskNumber task = 0; task < recording.size(); ++task) {
    if (!failed_.load(std::memory_order_relaxed))
      call(self, lane, {task, 0, 0, 1, lane.group, lane.index, self.index});
    self.finished.store(self.finished.load(std::memory_order_relaxed) + 1,
                        std::memory_order_relaxed);
  }
  replay(nullptr);
  return end_run();
}

Status Executor::end_run() {
  if (!failed_.load(std::memory_order_acquire)) return {};
  const std::lock_guard guard(status_lock_);
  failed_.store(false, std::memory_order_release);
  return status_.end_run();
}

void Executor::fail(const Part& part, const Error& error) {
  const std::lock_guard guard(status_lock_);
  status_.fail_task(part.task, error);
  failed_.store(true, std::memory_order_release);
}

LaneSpans Executor::take_spans() {
  LaneSpans all;
  for (const auto& thread : threads_) {
    all.running.insert(all.running.end(), thread->spans.begin(), thread->spans.end());
    thread->spans.clear();
  }
  const std::lock_guard guard(lock_);
  all.pending = slots_.take_pending();
  all.reserved = slots_.take_reserved();
  return all;
}

}  // namespace dovetail::cores
