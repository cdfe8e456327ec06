#include "schedule/waiting_queue.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace dovetail::schedule {

void FairShare::enter(std::uint32_t tenant) {
  Account& account = accounts_[tenant];
  if (account.alive++ > 0) return;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const auto& [other, its] : accounts_) {
    if (other != tenant && its.alive > 0) least = std::min(least, its.served);
  }
  if (least != std::numeric_limits<std::uint64_t>::max()) {
    account.served = std::max(account.served, least);
  }
}

void FairShare::leave(std::uint32_t tenant) {
  const auto account = accounts_.find(tenant);
  assert(account != accounts_.end() && account->second.alive > 0);
  if (--account->second.alive == 0 && accounts_.size() > kMaxAccounts) accounts_.erase(account);
}

void WaitingQueue::push(const Entry& entry, std::uint32_t batch_class, std::uint32_t tenant) {
  queues_[batch_class][by_tenant_ ? tenant : 0].insert(entry);
  ++size_;
}

void WaitingQueue::erase(const Entry& entry, std::uint32_t batch_class, std::uint32_t tenant) {
  const auto queue = queues_.find(batch_class);
  const auto lane = queue->second.find(by_tenant_ ? tenant : 0);
  const bool erased = lane->second.erase(entry) == 1;
  assert(erased);
  static_cast<void>(erased);
  if (lane->second.empty()) queue->second.erase(lane);
  if (queue->second.empty()) queues_.erase(queue);
  --size_;
}

std::optional<WaitingQueue::Entry> WaitingQueue::head(std::uint32_t batch_class,
                                                      const FairShare& fair) const {
  const auto queue = queues_.find(batch_class);
  if (queue == queues_.end()) return std::nullopt;
  std::optional<Entry> best;
  std::uint64_t least = 0;
  for (const auto& [tenant, lane] : queue->second) {
    const std::uint64_t served = by_tenant_ ? fair.served(tenant) : 0;
    const Entry& first = *lane.begin();
    if (!best || served < least || (served == least && first < *best)) {
      best = first;
      least = served;
    }
  }
  return best;
}

std::optional<OrderKey> WaitingQueue::oldest(std::uint32_t batch_class) const {
  const auto queue = queues_.find(batch_class);
  if (queue == queues_.end()) return std::nullopt;
  std::optional<OrderKey> oldest;
  for (const auto& [tenant, lane] : queue->second) {
    if (!oldest || lane.begin()->key < *oldest) oldest = lane.begin()->key;
  }
  return oldest;
}

}  // namespace dovetail::schedule
