#include "pipeline/store/lease_book.h"

namespace dovetail::pipeline {

void LeaseBook::add(const Lease& lease) {
  const std::lock_guard lock(mutex_);
  size_ = lease.size;
  leases_.insert_or_assign(lease.range, lease);
}

bool LeaseBook::remove(const Lease& lease) {
  const std::lock_guard lock(mutex_);
  const auto place = leases_.find(lease.range);
  if (place == leases_.end() || place->second != lease) return false;
  leases_.erase(place);
  return true;
}

std::vector<Lease> LeaseBook::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<Lease> all;
  for (const auto& [range, lease] : leases_) all.push_back(lease);
  return all;
}

Status LeaseBook::cover(std::span<const CellResult> cells, std::vector<Lease>& leases) const {
  const std::lock_guard lock(mutex_);
  const std::size_t before = leases.size();
  for (const CellResult& cell : cells) {
    const auto range = static_cast<std::int64_t>(cell.record / static_cast<std::uint64_t>(size_));
    if (leases.size() > before && leases.back().range == range) continue;
    const auto place = leases_.find(range);
    if (place == leases_.end()) {
      leases.resize(before);
      return fail(ErrorKind::kTimeout,
                  "record {}: this worker holds no lease on it (it ran out or was given back)",
                  cell.record);
    }
    leases.push_back(place->second);
  }
  return {};
}

}  // namespace dovetail::pipeline
