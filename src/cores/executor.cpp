#include "cores/executor.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace dovetail::cores {
namespace {

// Ready tasks that a submitting caller holds back while nobody sleeps, so that lanes that look for
// work do not have its cache lines fetched for each of them.
constexpr std::uint64_t kHeldBack = 8;
// Tasks that it submits before it looks at what has ended.
constexpr std::uint32_t kSubmitsPerCollect = 32;
// Bodies that it fetches before it writes them: other threads have read them.
constexpr TaskNumber kBodiesAhead = 4;

}  // namespace

Executor::Executor(const Topology& topology, const ExecutorOptions& options)
    : topology_(topology),
      options_(options),
      lane_count_(topology.lanes()),
      bodies_(std::make_unique<Body[]>(options.graph.tasks)),
      conditions_(std::make_unique<Condition[]>(options.graph.tasks)),
      progress_(std::make_unique<Progress[]>(options.graph.tasks)),
      matrix_ring_(options.graph.tasks),
      vector_ring_(options.graph.tasks),
      graph_(options.graph),
      dispatcher_(topology, options.dispatch),
      slots_(topology.groups().size()),
      gates_(4 * static_cast<std::uint32_t>(lane_count_) + 4) {
  if (options.outputs) {
    outputs_.emplace(*options.outputs);
    output_memory_.reserve(outputs_->capacity());
  }
  const auto lanes = static_cast<unsigned>(lane_count_);
  const unsigned serving = options.threads == 0 ? lanes : std::min(options.threads, lanes);
  gated_ = serving == lanes && options.dispatch.policy == AdmissionPolicy::kStrict;

  // Each thread reports a task or a gate at most once while it lives.
  const std::uint64_t reports = std::bit_ceil(std::uint64_t{options.graph.tasks} + gates_.size());
  ended_mask_ = reports - 1;

  for (unsigned index = 0; index < serving + (options.caller_serves ? 0 : 1); ++index) {
    threads_.push_back(std::make_unique<Thread>());
    threads_.back()->index = index;
    threads_.back()->ended = std::make_unique<std::atomic<std::uint64_t>[]>(reports);
  }
  for (const auto& thread : threads_) thread->to_notify.reserve(lane_count_);
  woken_.reserve(lane_count_);
  uniform_ = true;
  lanes_ = std::make_unique<Lane[]>(lane_count_);
  std::size_t number = 0;
  for (GroupId group = 0; group < topology.groups().size(); ++group) {
    const GroupSpec& spec = topology.groups()[group];
    first_lane_.push_back(number);
    for (unsigned index = 0; index < static_cast<unsigned>(std::bit_width(spec.all())); ++index) {
      Lane& lane = lanes_[number];
      lane.group = group;
      lane.index = index;
      lane.matrix = (spec.matrix >> index & 1) != 0;
      lane.vector = (spec.vector >> index & 1) != 0;
      // Lanes of a group on different threads, as far as there are.
      lane.thread = static_cast<unsigned>(number % serving) + (options.caller_serves ? 0 : 1);
      threads_[lane.thread]->lanes.push_back(&lane);
      uniform_ &= lane.matrix && lane.vector;
      ++number;
    }
  }
  assert(number == lane_count_);

  for (Lane* lane : threads_[0]->lanes) {
    dispatcher_.occupy(lane->group, LaneMask{1} << lane->index);
  }
  idle_lanes_ = lanes - static_cast<std::uint32_t>(threads_[0]->lanes.size());
  count_idle();

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
    if (options_.stall_limit.count() > 0) watchdog_ = std::thread([this] { watch(); });
  } catch (...) {
    stop();
    throw;
  }
}

Executor::~Executor() {
  assert(graph_.running() == 0 && gates_.in_use() == 0);
  stop();
}

Ticks Executor::clock() {
  return static_cast<Ticks>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                std::chrono::steady_clock::now().time_since_epoch())
                                .count());
}

void Executor::stop() {
  {
    const std::lock_guard guard(watch_lock_);
    stop_.store(true, std::memory_order_release);
  }
  watch_ends_.notify_one();
  if (watchdog_.joinable()) watchdog_.join();
  {
    const Keeper guard(*this, threads_[0]->to_notify);
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
      const Keeper guard(*this, threads_[0]->to_notify);
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
      const Keeper guard(*this, threads_[0]->to_notify);
      if (const Status ok = may_submit(); !ok) return dovetail::fail(ok.error());
      collect();
      outputs_->give_up_before(graph_.oldest());
      const auto offset = outputs_->allocate(graph_.submitted(), bytes, graph_.held_from());
      if (offset) return Output{*offset, {output_memory_.data() + *offset, bytes}};
      // Nobody else may be looking for what can be given to lanes.
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
  // Nothing runs, so nobody looks at any of this before something is published.
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
    const Keeper guard(*this, threads_[0]->to_notify);
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

// One task after the other, each of one block, on the caller's lane, which no placement can take
// while the caller has not come to wait: nobody else could do any of it sooner.
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
  all.parked = slots_.take_parked();
  all.kept = slots_.take_kept();
  return all;
}

}  // namespace dovetail::cores
