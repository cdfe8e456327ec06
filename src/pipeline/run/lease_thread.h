#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "pipeline/run/lease_port.h"
#include "pipeline/store/store.h"

namespace dovetail::pipeline {

// A range that is this worker's now, and what the store has of it.
struct RangeTaken {
  RecordRange range;
  std::vector<CellResult> cells;  // by record, then column
};
struct RangeLost {
  RecordRange range;
};
struct NoRangeFree {};    // others hold all that is not complete; it goes on asking
struct AllRangesMade {};  // of the run
struct LeasesFailed {
  Error error;
};
using LeaseNews = std::variant<RangeTaken, RangeLost, NoRangeFree, AllRangesMade, LeasesFailed>;

// Asks a lease port, which may block, on a thread of its own. Its functions return at once; they
// are called on one thread.
class LeaseThread {
 public:
  // `tell` is called on any thread, possibly after this object is gone; it does not block.
  LeaseThread(const LeasePort& port, const Store& store, std::function<void(LeaseNews)> tell);
  // What was to be completed or given back is, first.
  ~LeaseThread();
  LeaseThread(const LeaseThread&) = delete;
  LeaseThread& operator=(const LeaseThread&) = delete;

  // Takes a range: RangeTaken, once there is one, or AllRangesMade or LeasesFailed.
  void take();
  void complete(const RecordRange& range) { end(range, true); }
  void give_back(const RecordRange& range) { end(range, false); }

 private:
  struct Ended {
    RecordRange range;
    bool complete = false;
  };

  void end(const RecordRange& range, bool complete);
  void run();
  // False: no range is free, yet.
  bool try_take(bool first);
  void settle(const Ended& ended);

  const LeasePort& port_;
  const Store& store_;
  std::function<void(LeaseNews)> tell_;
  std::mutex mutex_;
  std::condition_variable asked_;
  std::vector<Ended> ended_;
  bool takes_ = false;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace dovetail::pipeline
