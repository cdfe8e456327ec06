#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "pipeline/store/lease.h"
#include "pipeline/store/store.h"

namespace dovetail::pipeline {

// Which records of a shared run are this process's to make, as the runner sees it. The functions
// may block; they are called on one thread of the runner's. See Leases for what they mean.
struct LeasePort {
  std::function<Result<std::optional<RecordRange>>()> take;
  std::function<Status(const RecordRange&)> complete;
  std::function<Status(const RecordRange&)> give_back;
  // Whether all ranges of the run are complete, those of other workers included.
  std::function<Result<bool>()> all_complete;
  // Called once, before the first take(): `lost` is to be called, on any thread, with a range that
  // another worker has now; it does not block.
  std::function<void(std::function<void(const RecordRange&)> lost)> on_lost;
  // Between two attempts to take a range where others hold all that is not complete.
  std::chrono::milliseconds pause{500};
};

// Leases on a run that the store shares, given back when the port and its copies are gone. A worker
// that is cut off for `duration` loses its records to the others.
Result<LeasePort> lease_port(Store& store, std::uint64_t records,
                             std::chrono::milliseconds duration);

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
