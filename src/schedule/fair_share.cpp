#include "schedule/fair_share.h"

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
  if (--account->second.alive == 0 && accounts_.size() > kMostAccounts) accounts_.erase(account);
}

}  // namespace dovetail::schedule
