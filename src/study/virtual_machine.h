#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <utility>
#include <vector>

#include "cores/spans.h"

namespace dovetail::study {

// A block's time from being ready to the start of its last part.
struct Wait {
  cores::TaskId task = 0;
  std::uint32_t block = 0;
  cores::TaskShape shape;
  cores::Ticks ready = 0, start = 0;
};

// Plays tasks on the lanes of any machine under a virtual clock: the same dispatcher as for
// threads, with durations that are given. The parts of a mixed block work together: where a policy
// lets some of them start sooner, they have their lanes and wait until the last one has started;
// those of a staged block have lanes that stand idle until then, and start together.
// The same calls give the same spans.
class VirtualMachine {
 public:
  // How long the part of a block takes on a lane; at least 1.
  using Duration = std::function<cores::Ticks(cores::TaskId task, std::uint32_t block,
                                              cores::GroupId group, unsigned lane)>;
  // All parts of all blocks of a task have ended; may submit().
  using Ended = std::function<void(cores::TaskId task, cores::Ticks now)>;

  VirtualMachine(const cores::Topology& topology, const cores::DispatchOptions& options,
                 Duration duration, Ended ended = nullptr);

  // From here on also what lanes have pending and for how long they are reserved, below.
  void watch_slots() { watches_ = true; }

  // A task becomes ready at a time that is not over. kInvalid: see Dispatcher::check().
  Status submit(const cores::ReadyTask& task, cores::Ticks at);

  // Until nothing is left to end. Returns what is left without lanes: 0, or the dispatcher is at
  // fault.
  std::size_t run();

  const std::vector<cores::Span>& spans() const { return spans_; }  // by end
  const std::vector<cores::Move>& moves() const { return moves_; }
  const std::vector<Wait>& waits() const { return waits_; }
  const std::vector<cores::Span>& pending() const {
    return slots_.pending();
  }  // in pending slots, by end
  const std::vector<cores::ReservedSpan>& reserved() const { return slots_.reserved(); }
  cores::Ticks now() const { return now_; }

 private:
  struct Event {
    cores::Ticks time = 0;
    std::uint64_t order = 0;  // ends before arrivals, then in the order in which they came about
    std::size_t span = 0;     // that ends; kNoSpan: an arrival
    cores::ReadyTask task;
    bool operator>(const Event& other) const {
      return std::pair(time, order) > std::pair(other.time, other.order);
    }
  };
  static constexpr std::size_t kNoSpan = ~std::size_t{0};

  void start(cores::Dispatcher::Part part, cores::GroupId group, unsigned lane);
  void end_at(std::size_t span);
  void end(const cores::Span& span);

  cores::Dispatcher dispatcher_;
  bool stages_;
  Duration duration_;
  Ended ended_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t next_order_ = 0;
  cores::Ticks now_ = 0;
  std::vector<cores::Span> started_;
  std::vector<cores::Span> spans_;
  std::vector<cores::Move> moves_;
  std::vector<Wait> waits_;
  std::map<cores::TaskId, std::uint64_t> parts_left_;  // of all blocks
  std::map<cores::TaskId, std::uint64_t> blocks_unplaced_;
  std::map<cores::TaskId, std::size_t> first_wait_;  // in waits_: of its first block

  // Mixed blocks that start in parts.
  struct InParts {
    unsigned to_start = 0;
    std::vector<std::size_t> started;  // in started_
  };
  std::map<std::pair<cores::TaskId, std::uint32_t>, InParts> in_parts_;

  bool watches_ = false;
  cores::SlotWatch slots_;
};

}  // namespace dovetail::study
