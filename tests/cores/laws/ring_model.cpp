#include "cores/laws/ring_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <random>

namespace dovetail::cores {
namespace {

struct Interval {
  TaskNumber task = 0;
  std::uint64_t begin = 0, end = 0;
};

// Every answer from the whole list of what is held.
class SlowRing {
 public:
  explicit SlowRing(const OutputRingOptions& options) : options_(options) {}

  // Where it would lie if only what tasks from `from` on hold was held.
  std::optional<std::uint64_t> find(std::uint64_t bytes, TaskNumber from) const {
    std::vector<Interval> held;
    for (const Interval& one : held_) {
      if (one.task >= from) held.push_back(one);
    }
    // Behind the youngest, or else from 0 on.
    for (const std::uint64_t begin : {held.empty() ? 0 : held.back().end, std::uint64_t{0}}) {
      const bool free = std::none_of(held.begin(), held.end(), [&](const Interval& one) {
        return begin < one.end && one.begin < begin + bytes;
      });
      if (free && begin + bytes <= options_.bytes) return begin;
    }
    return std::nullopt;
  }

  bool has_place(TaskNumber task, TaskNumber from) const {
    std::vector<TaskNumber> tasks;
    for (const Interval& one : held_) {
      if (one.task >= from) tasks.push_back(one.task);
    }
    tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
    return (!tasks.empty() && tasks.back() == task) || tasks.size() < options_.tasks;
  }

  void hold(const Interval& interval) { held_.push_back(interval); }
  void give_up_before(TaskNumber oldest) {
    std::erase_if(held_, [&](const Interval& one) { return one.task < oldest; });
  }

  std::uint64_t used() const {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      bytes += held_[i].end - held_[i].begin;
      const bool wraps = i > 0 && held_[i].begin < held_[i - 1].end;
      bytes += wraps ? options_.bytes - held_[i - 1].end : 0;
    }
    return bytes;
  }

 private:
  OutputRingOptions options_;
  std::vector<Interval> held_;  // by age
};

}  // namespace

std::optional<std::string> ring_fault(const OutputRingOptions& options,
                                      std::span<const RingStep> steps) {
  OutputRing ring(options);
  SlowRing slow(options);
  TaskNumber next = 0, ended = 0;
  std::optional<TaskNumber> scope;
  std::uint64_t most = 0;
  for (std::size_t number = 0; number < steps.size(); ++number) {
    const RingStep& step = steps[number];
    const auto wrong = [&](const std::string& what) {
      return fmt::format("step {}: {}", number, what);
    };
    switch (step.kind) {
      case RingStep::Kind::kScope:
        scope = scope ? std::nullopt : std::optional(next);
        break;
      case RingStep::Kind::kNext:
        ended = std::min(++next, ended + step.amount);
        break;
      case RingStep::Kind::kAsk: {
        const TaskNumber held_from = scope.value_or(next);
        const auto got = ring.allocate(next, step.amount, held_from);
        const std::uint64_t whole =
            (step.amount + options.alignment - 1) / options.alignment * options.alignment;
        if (step.amount == 0) {
          if (!got) return wrong("nothing was asked for, and refused");
          break;
        }
        const auto begin = whole <= options.bytes ? slow.find(whole, 0) : std::nullopt;
        if (begin && slow.has_place(next, 0)) {
          if (!got) return wrong(got.error().message);
          if (*got != *begin) return wrong(fmt::format("{} for {} bytes", *got, whole));
          slow.hold({next, *got, *got + whole});
          break;
        }
        if (got) return wrong(fmt::format("{} bytes at {}, where there is no room", whole, *got));
        const bool for_ever = whole > options.bytes || !slow.find(whole, held_from) ||
                              !slow.has_place(next, held_from);
        if ((got.error().kind == ErrorKind::kInvalid) != for_ever) {
          return wrong(got.error().message);
        }
        break;
      }
    }
    const TaskNumber oldest = std::min(ended, scope.value_or(ended));
    ring.give_up_before(oldest);
    most = std::max(most, slow.used());
    slow.give_up_before(oldest);
    if (ring.used() != slow.used()) {
      return wrong(fmt::format("{} bytes are in use, not {}", ring.used(), slow.used()));
    }
    if (ring.high_water().bytes != most) {
      return wrong(fmt::format("{} bytes at most, not {}", ring.high_water().bytes, most));
    }
  }
  return std::nullopt;
}

RingHistory random_ring_history(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  RingHistory history;
  history.options.alignment = std::uint64_t{1} << below(11);
  history.options.bytes = history.options.alignment * (1 + below(seed % 3 == 0 ? 300 : 12));
  history.options.tasks = static_cast<std::uint32_t>(1 + below(seed % 2 == 0 ? 4 : 64));
  const std::uint64_t largest = 1 + below(history.options.bytes + history.options.bytes / 8 + 2);
  const std::uint64_t count = 1 + below(200);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t what = below(20);
    if (what == 0) {
      history.steps.push_back({RingStep::Kind::kScope, 0});
    } else if (what < 10) {
      history.steps.push_back({RingStep::Kind::kNext, below(4)});
    } else {
      history.steps.push_back({RingStep::Kind::kAsk, below(largest + 1)});
    }
  }
  return history;
}

}  // namespace dovetail::cores
