#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "pipeline/store/batch.h"
#include "pipeline/store/cell.h"
#include "pipeline/store/place.h"

namespace dovetail::pipeline {

// The leases that this process holds, as far as it knows: what the store's put() asks and Leases
// keeps up to date. Any thread.
class LeaseBook {
 public:
  void add(const Lease& lease);
  // False: it was not there.
  bool remove(const Lease& lease);
  std::vector<Lease> all() const;
  // Appends the leases that cover the cells' records; kTimeout where a record is not covered.
  Status cover(std::span<const CellResult> cells, std::vector<Lease>& leases) const;

 private:
  mutable std::mutex mutex_;
  std::int64_t size_ = 1;  // records of a range
  std::map<std::int64_t, Lease> leases_;
};

// What a shared store and its Leases have in common.
struct Sharing {
  PostgresPlace place;
  std::chrono::milliseconds retry_for{};
  std::shared_ptr<LeaseBook> book;
};

}  // namespace dovetail::pipeline
