#include "pipeline/flow/virtual_run.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace dovetail::pipeline {
namespace {

class Player {
 public:
  Player(const std::vector<ColumnPlan>& columns, const std::vector<VirtualEndpoint>& endpoints,
         const FrontierOptions& options, Dispatch dispatch)
      : columns_(columns),
        endpoints_(endpoints),
        options_(options),
        dispatch_(dispatch),
        frontier_(columns, static_cast<std::uint32_t>(endpoints.size()), options),
        busy_(endpoints.size(), 0) {
    run_.first_sent.assign(columns.size(), -1);
    run_.last_sent = run_.first_ended = run_.first_sent;
    run_.most_in_flight.assign(endpoints.size(), 0);
  }

  VirtualRun play(const std::function<bool(const VirtualRun&)>& until) {
    for (send_what_can_be(); !happenings_.empty(); send_what_can_be()) {
      run_.most_open = std::max(run_.most_open, frontier_.open());
      if (until && until(run_)) return run_;
      const Happening next = happenings_.top();
      happenings_.pop();
      pass_time(next.time);
      const QueueId queue = columns_[next.cell.column].queue;
      const VirtualEndpoint& endpoint = endpoints_[queue];
      if (!next.off_wire) {
        const bool holds = dispatch_ == Dispatch::kHoldsSlot && endpoint.off_wire_us > 0;
        if (!holds) --busy_[queue];
        if (endpoint.off_wire_us > 0) {
          happenings_.push({now_ + endpoint.off_wire_us, order_++, next.cell, true});
          continue;
        }
      } else if (dispatch_ == Dispatch::kHoldsSlot) {
        --busy_[queue];
      }
      if (run_.first_ended[next.cell.column] < 0) run_.first_ended[next.cell.column] = now_;
      frontier_.end(next.cell);
      while (frontier_.next_ended()) {
        if (run_.first_record_us < 0) run_.first_record_us = now_;
      }
    }
    run_.wall_us = now_;
    return run_;
  }

 private:
  struct Happening {
    std::int64_t time;
    std::uint64_t order;
    Cell cell;
    bool off_wire;
    bool operator<(const Happening& other) const {
      return std::tie(time, order) > std::tie(other.time, other.order);
    }
  };

  bool instant(QueueId queue) const {
    return std::find(options_.instant.begin(), options_.instant.end(), queue) !=
           options_.instant.end();
  }

  void pass_time(std::int64_t to) {
    if (busy_.size() > 1) {
      if (busy_[0] > 0 && busy_[1] > 0) run_.both_busy_us += to - now_;
      if (busy_[0] > 0 || busy_[1] > 0) run_.any_busy_us += to - now_;
    }
    now_ = to;
  }

  void make_instant_cells() {
    for (const QueueId queue : options_.instant) {
      while (const auto cell = frontier_.take(queue)) frontier_.end(*cell);
    }
    while (frontier_.next_ended()) {
      if (run_.first_record_us < 0) run_.first_record_us = now_;
    }
  }

  void send(Cell cell) {
    const QueueId queue = columns_[cell.column].queue;
    ++busy_[queue];
    ++run_.requests;
    run_.most_in_flight[queue] = std::max(run_.most_in_flight[queue], busy_[queue]);
    if (run_.first_sent[cell.column] < 0) run_.first_sent[cell.column] = now_;
    run_.last_sent[cell.column] = now_;
    if (queue == 0) run_.sent_by_second_before_last_of_first = sent_by_second_;
    if (queue == 1) ++sent_by_second_;
    const VirtualEndpoint& endpoint = endpoints_[queue];
    const std::int64_t latency =
        endpoint.latency ? endpoint.latency(cell, now_) : endpoint.latency_us;
    happenings_.push({now_ + latency, order_++, cell, false});
  }

  void send_what_can_be() {
    if (dispatch_ == Dispatch::kSnapshot) return walk_list();
    for (bool progress = true; progress;) {
      progress = false;
      make_instant_cells();
      for (QueueId queue = 0; queue < endpoints_.size(); ++queue) {
        if (instant(queue)) continue;
        while (busy_[queue] < endpoints_[queue].slots) {
          auto cell = frontier_.take(queue);
          if (!cell) {
            // It may have opened records whose first cells are made at once.
            const std::uint64_t ready = frontier_.ready(queue);
            make_instant_cells();
            if (frontier_.ready(queue) == ready) break;
            continue;
          }
          send(*cell);
          progress = true;
        }
      }
    }
  }

  // The list is walked in its order; where the endpoint of the next cell has no slot, all wait.
  void walk_list() {
    for (;;) {
      if (at_ == list_.size()) {
        list_.clear();
        at_ = 0;
        make_instant_cells();
        for (QueueId queue = 0; queue < endpoints_.size(); ++queue) {
          if (instant(queue)) continue;
          for (;;) {
            const auto cell = frontier_.take(queue);
            if (cell) {
              list_.push_back(*cell);
              continue;
            }
            const std::uint64_t ready = frontier_.ready(queue);
            make_instant_cells();
            if (frontier_.ready(queue) == ready) break;
          }
        }
        if (run_.first_list == 0) run_.first_list = list_.size();
        if (list_.empty()) return;
      }
      const QueueId queue = columns_[list_[at_].column].queue;
      if (busy_[queue] >= endpoints_[queue].slots) return;
      send(list_[at_++]);
    }
  }

  const std::vector<ColumnPlan>& columns_;
  const std::vector<VirtualEndpoint>& endpoints_;
  FrontierOptions options_;
  Dispatch dispatch_;
  Frontier frontier_;
  std::vector<std::uint32_t> busy_;
  std::priority_queue<Happening> happenings_;
  std::uint64_t order_ = 0;
  std::int64_t now_ = 0;
  std::uint64_t sent_by_second_ = 0;
  std::vector<Cell> list_;
  std::size_t at_ = 0;
  VirtualRun run_;
};

}  // namespace

VirtualRun play(const std::vector<ColumnPlan>& columns,
                const std::vector<VirtualEndpoint>& endpoints, FrontierOptions options,
                Dispatch dispatch, const std::function<bool(const VirtualRun&)>& until) {
  return Player(columns, endpoints, options, dispatch).play(until);
}

}  // namespace dovetail::pipeline
