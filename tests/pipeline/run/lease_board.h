#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "pipeline/run/lease_thread.h"

namespace dovetail::pipeline {

// The leases of a run that workers in one process share, in the place of a database: ranges go out
// in an order that the test chooses, and are taken away when it says so.
class LeaseBoard {
 public:
  // `order`: of the numbers of ranges.
  LeaseBoard(std::uint64_t records, std::uint64_t range_records, std::vector<std::size_t> order)
      : records_(records), size_(range_records), order_(std::move(order)), states_(order_.size()) {}

  // While `may_take` says no, no range is free.
  LeasePort port(std::function<bool(const RecordRange&)> may_take = nullptr) {
    auto worker = std::make_shared<Worker>();
    LeasePort port;
    port.pause = std::chrono::milliseconds(1);
    port.take = [this, worker, may_take]() -> Result<std::optional<RecordRange>> {
      const std::lock_guard lock(mutex_);
      for (const std::size_t number : order_) {
        State& state = states_[number];
        if (state.complete || state.holder != nullptr) continue;
        if (may_take && !may_take(range(number))) continue;
        state.holder = worker;
        ++taken_;
        return range(number);
      }
      return std::nullopt;
    };
    const auto end = [this, worker](const RecordRange& records, bool complete) -> Status {
      const std::lock_guard lock(mutex_);
      State& state = states_[records.first / size_];
      if (state.holder != worker) return fail(ErrorKind::kTimeout, "another worker has it");
      state.holder = nullptr;
      state.complete = complete;
      return {};
    };
    port.complete = [end](const RecordRange& records) { return end(records, true); };
    port.give_back = [end](const RecordRange& records) { return end(records, false); };
    port.all_complete = [this]() -> Result<bool> {
      const std::lock_guard lock(mutex_);
      return std::all_of(states_.begin(), states_.end(),
                         [](const State& state) { return state.complete; });
    };
    port.on_lost = [this, worker](std::function<void(const RecordRange&)> lost) {
      const std::lock_guard lock(mutex_);
      worker->lost = std::move(lost);
    };
    return port;
  }

  // Takes a range away from whoever holds it, and tells so; false: nobody does.
  bool take_away(std::size_t number) {
    const std::lock_guard lock(mutex_);
    State& state = states_[number];
    if (state.complete || state.holder == nullptr) return false;
    const auto holder = std::exchange(state.holder, nullptr);
    if (holder->lost) holder->lost(range(number));
    return true;
  }

  // Leases that were given out.
  std::size_t taken() const {
    const std::lock_guard lock(mutex_);
    return taken_;
  }

 private:
  struct Worker {
    std::function<void(const RecordRange&)> lost;
  };
  struct State {
    std::shared_ptr<Worker> holder;
    bool complete = false;
  };

  RecordRange range(std::size_t number) const {
    return {number * size_, std::min((number + 1) * size_, records_)};
  }

  std::uint64_t records_, size_;
  std::vector<std::size_t> order_;
  mutable std::mutex mutex_;
  std::vector<State> states_;
  std::size_t taken_ = 0;
};

}  // namespace dovetail::pipeline
