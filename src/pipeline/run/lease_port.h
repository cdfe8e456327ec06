#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/result.h"
#include "pipeline/store/lease.h"

namespace dovetail::pipeline {

// Which records of a shared run are this process's to make, as the runner sees it. The functions
// may block; they are called on one thread of the runner's. See Leases for what they mean.
struct LeasePort {
  std::function<Result<std::optional<RecordRange>>()> take;
  std::function<Status(const RecordRange&)> complete;
  std::function<Status(const RecordRange&)> give_back;
  // All ranges of the run are, whoever made them.
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

}  // namespace dovetail::pipeline
