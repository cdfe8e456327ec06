#include "cores/task_graph.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <functional>

namespace dovetail::cores {

TaskGraph::TaskGraph(const GraphOptions& options)
    : slots_(options.tasks), edges_(options.edges), map_(options.accesses), ready_(options.tasks) {
  assert(std::has_single_bit(options.tasks));
  for (std::uint32_t edge = 0; edge < options.edges; ++edge) edges_[edge].next = edge + 1;
  if (options.edges > 0) edges_.back().next = kNone;
  if (options.edges == 0) free_edge_ = kNone;
  passed_.reserve(options.tasks);
}

Status TaskGraph::room(std::size_t accesses, std::size_t edges) const {
  if (accesses > map_.capacity()) {
    return fail(ErrorKind::kInvalid,
                "task {}: {} accesses, and GraphOptions::accesses has room for {}", submitted_,
                accesses, map_.capacity());
  }
  if (submitted_ - oldest_ == slots_.size()) {
    // The submitter cannot end the scope while it waits for room among the scope's tasks.
    if (!scopes_.empty() && scopes_.front() == oldest_) {
      return fail(ErrorKind::kInvalid,
                  "deadlock: the scope that began with task {} holds all {} places, up to task {}; "
                  "end it earlier, or raise GraphOptions::tasks",
                  oldest_, slots_.size(), submitted_ - 1);
    }
    return fail(ErrorKind::kExhausted, "{} tasks have not ended", running());
  }
  if (edges > edges_.size() - edges_used_) {
    // Also where there are fewer in all: those that it waits for end.
    return fail(ErrorKind::kExhausted, "task {} waits for {} tasks, and {} of {} edges are in use",
                submitted_, edges, edges_used_, edges_.size());
  }
  return {};
}

Result<TaskNumber> TaskGraph::submit(std::span<const Access> accesses,
                                     std::span<const TaskNumber> after) {
  if (const Status ok = room(accesses.size(), 0); !ok) return fail(ok.error());
  const TaskNumber task = submitted_;
  // Predecessors are found before anything is entered, so that a refusal leaves no trace.
  map_.find(task, accesses, after, before_);
  std::erase_if(before_, [&](TaskNumber earlier) { return has_ended(earlier); });
  if (const Status ok = room(accesses.size(), before_.size()); !ok) return fail(ok.error());
  if (!map_.enter(task, accesses)) {
    return fail(ErrorKind::kExhausted, "{} accesses are held", map_.size());
  }

  Slot& own = slot(task);
  own = {static_cast<std::uint32_t>(before_.size()), kNone, kNone, false};
  ++submitted_;
  for (const TaskNumber earlier : before_) {
    const std::uint32_t index = free_edge_;
    free_edge_ = edges_[index].next;
    ++edges_used_;
    edges_[index] = {task, kNone};
    // At the end, so that tasks become ready in the order in which they were submitted.
    Slot& producer = slot(earlier);
    (producer.first_edge == kNone ? producer.first_edge : edges_[producer.last_edge].next) = index;
    producer.last_edge = index;
  }
  if (before_.empty()) ready_[ready_end_++ & (ready_.size() - 1)] = task;
  high_water_.tasks = std::max(high_water_.tasks, static_cast<std::uint32_t>(submitted_ - oldest_));
  high_water_.accesses = std::max(high_water_.accesses, map_.size());
  high_water_.edges = std::max(high_water_.edges, edges_used_);
  return task;
}

void TaskGraph::begin_scope() { scopes_.push_back(submitted_); }

void TaskGraph::end_scope() {
  assert(!scopes_.empty());
  scopes_.pop_back();
  reclaim();
}

std::optional<TaskNumber> TaskGraph::take_ready() {
  const bool any = ready_begin_ != ready_end_;
  const TaskNumber first = ready_[ready_begin_ & (ready_.size() - 1)];
  if (!passed_.empty() && (!any || passed_.front() < first)) {
    std::pop_heap(passed_.begin(), passed_.end(), std::greater<>());
    const TaskNumber task = passed_.back();
    passed_.pop_back();
    return task;
  }
  if (!any) return std::nullopt;
  ++ready_begin_;
  return first;
}

void TaskGraph::finish(TaskNumber task) {
  end(task, [this](TaskNumber next) { ready_[ready_end_++ & (ready_.size() - 1)] = next; });
}

void TaskGraph::pass(TaskNumber task) {
  end(task, [this](TaskNumber next) {
    passed_.push_back(next);
    std::push_heap(passed_.begin(), passed_.end(), std::greater<>());
  });
}

template <class Ready>
void TaskGraph::end(TaskNumber task, const Ready& ready) {
  Slot& own = slot(task);
  assert(task >= oldest_ && task < submitted_ && !own.ended && own.waits == 0);
  own.ended = true;
  ++ended_;
  for (std::uint32_t index = own.first_edge; index != kNone;) {
    Edge& edge = edges_[index];
    const std::uint32_t next = edge.next;
    if (--slot(edge.to).waits == 0) ready(edge.to);
    edge.next = free_edge_;
    free_edge_ = index;
    --edges_used_;
    index = next;
  }
  own.first_edge = own.last_edge = kNone;
  reclaim();
}

std::optional<TaskGraph::Waiting> TaskGraph::oldest_waiting() const {
  if (running() == 0) return std::nullopt;
  TaskNumber task = live_;
  while (task < submitted_ && (slot(task).ended || slot(task).waits == 0)) ++task;
  if (task == submitted_) return Waiting{live_, 0, std::nullopt};
  for (TaskNumber earlier = live_; earlier < task; ++earlier) {
    for (std::uint32_t index = slot(earlier).first_edge; index != kNone;
         index = edges_[index].next) {
      if (edges_[index].to == task) return Waiting{task, slot(task).waits, earlier};
    }
  }
  return Waiting{task, slot(task).waits, std::nullopt};
}

void TaskGraph::reclaim() {
  while (live_ < submitted_ && slot(live_).ended) ++live_;
  oldest_ = scopes_.empty() ? live_ : std::min(live_, scopes_.front());
  map_.retire_before(live_);
}

}  // namespace dovetail::cores
