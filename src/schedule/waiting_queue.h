#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "schedule/fair_share.h"

namespace dovetail::schedule {

// The scheduler's one order, for admission and for who gives way: the smaller goes first. Under a
// policy with priorities `urgency` is the step of arrival plus a constant per class, so that a
// class ages into the next without anything being sorted again; else it is 0.
struct OrderKey {
  std::int64_t urgency = 0;
  std::uint64_t arrival = 0;
  friend bool operator==(const OrderKey&, const OrderKey&) = default;
  friend bool operator<(const OrderKey& a, const OrderKey& b) {
    return a.urgency != b.urgency ? a.urgency < b.urgency : a.arrival < b.arrival;
  }
};

// Sequences that wait for a slot: one queue per batch class, each ordered by key; or, with
// `by_tenant`, by what the tenant was served so far, then by key. Waiting costs nothing.
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
  // `entry` must be in.
  void erase(const Entry& entry, std::uint32_t batch_class, std::uint32_t tenant);

  // Who of a class goes next. `fair` is read with by_tenant only.
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
