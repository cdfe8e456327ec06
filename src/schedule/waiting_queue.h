#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

namespace dovetail::schedule {

// The scheduler's one order, for admission and (backwards) for preemption: the smaller goes first.
// Under a policy with priorities `urgency` is the step of arrival plus a constant per class, so
// that classes age into each other without sorting again; else it is 0.
struct OrderKey {
  std::int64_t urgency = 0;
  std::uint64_t arrival = 0;
  friend bool operator==(const OrderKey&, const OrderKey&) = default;
  friend bool operator<(const OrderKey& a, const OrderKey& b) {
    return a.urgency != b.urgency ? a.urgency < b.urgency : a.arrival < b.arrival;
  }
};

// Service of each tenant: the virtual token counter of Sheng et al., "Fairness in Serving Large
// Language Models" (OSDI 2024, https://arxiv.org/abs/2401.00588). An output token weighs twice a
// prompt token. A tenant that returns from idleness starts no lower than the least served of the
// active tenants, so that idleness earns no credit.
class FairShare {
 public:
  static constexpr std::uint64_t kPromptWeight = 1;
  static constexpr std::uint64_t kOutputWeight = 2;

  // The tenant has one more or one less unfinished sequence.
  void enter(std::uint32_t tenant);
  void leave(std::uint32_t tenant);

  void charge(std::uint32_t tenant, std::uint64_t service) { accounts_[tenant].served += service; }
  std::uint64_t served(std::uint32_t tenant) const {
    const auto account = accounts_.find(tenant);
    return account == accounts_.end() ? 0 : account->second.served;
  }

 private:
  // Accounts kept, idle tenants included.
  static constexpr std::size_t kMaxAccounts = 4096;

  struct Account {
    std::uint64_t served = 0;
    std::uint32_t alive = 0;
  };
  std::unordered_map<std::uint32_t, Account> accounts_;
};

// Sequences that wait for a slot: one queue per batch class, each ordered by key; or, with
// `by_tenant`, by the tenant's service so far, then by key. Waiting costs no time per step.
class WaitingQueue {
 public:
  using Handle = std::uint32_t;
  struct Entry {
    OrderKey key;
    Handle handle = 0;
    friend bool operator<(const Entry& a, const Entry& b) {
      return a.key == b.key ? a.handle < b.handle : a.key < b.key;
    }
  };

  explicit WaitingQueue(bool by_tenant) : by_tenant_(by_tenant) {}

  std::uint32_t size() const { return size_; }
  void push(const Entry& entry, std::uint32_t batch_class, std::uint32_t tenant);
  // Requires that `entry` is queued.
  void erase(const Entry& entry, std::uint32_t batch_class, std::uint32_t tenant);

  // The next sequence of a class. `fair` is read with by_tenant only.
  std::optional<Entry> head(std::uint32_t batch_class, const FairShare& fair) const;

  // The smallest key of a class.
  std::optional<OrderKey> oldest(std::uint32_t batch_class) const;

  template <class Visit>  // of each class with its head
  void for_each_head(const FairShare& fair, Visit&& visit) const {
    for (const auto& [batch_class, queue] : queues_) visit(batch_class, *head(batch_class, fair));
  }

 private:
  using Lanes = std::map<std::uint32_t, std::set<Entry>>;  // by tenant; lane 0 alone otherwise

  bool by_tenant_;
  std::uint32_t size_ = 0;
  std::map<std::uint32_t, Lanes> queues_;  // by batch class; none is empty
};

}  // namespace dovetail::schedule
