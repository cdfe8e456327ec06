#pragma once

#include <cstdint>
#include <unordered_map>

namespace dovetail::schedule {

// How much service each tenant has had: the virtual token counter of Sheng et al., "Fairness in
// Serving Large Language Models" (OSDI 2024, https://arxiv.org/abs/2401.00588). A token that is
// generated weighs twice a token that is read. A tenant that comes back from idleness starts no
// lower than the least served of those that are there, so that idleness earns no credit.
class FairShare {
 public:
  static constexpr std::uint64_t kPromptWeight = 1;
  static constexpr std::uint64_t kOutputWeight = 2;

  // One more or one less sequence of the tenant is alive.
  void enter(std::uint32_t tenant);
  void leave(std::uint32_t tenant);

  void charge(std::uint32_t tenant, std::uint64_t service) { accounts_[tenant].served += service; }
  std::uint64_t served(std::uint32_t tenant) const {
    const auto account = accounts_.find(tenant);
    return account == accounts_.end() ? 0 : account->second.served;
  }

 private:
  // The debts of so many idle tenants are remembered.
  static constexpr std::size_t kMostAccounts = 4096;

  struct Account {
    std::uint64_t served = 0;
    std::uint32_t alive = 0;
  };
  std::unordered_map<std::uint32_t, Account> accounts_;
};

}  // namespace dovetail::schedule
