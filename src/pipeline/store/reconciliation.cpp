#include "pipeline/store/reconciliation.h"

#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "pipeline/store/row_codec.h"

namespace dovetail::pipeline {

Result<Reconciliation> compare_columns(std::span<const ColumnSpec> before,
                                       std::span<const ColumnSpec> now) {
  if (now.size() > kMaxSlot) {
    return fail(ErrorKind::kInvalid, "{} columns; the store holds up to {}", now.size(), kMaxSlot);
  }
  std::unordered_map<std::string_view, const Hash128*> had;
  for (const ColumnSpec& column : before) had.emplace(column.name, &column.fingerprint);
  std::unordered_set<std::string_view> seen;
  Reconciliation found;
  for (const ColumnSpec& column : now) {
    if (!seen.insert(column.name).second) {
      return fail(ErrorKind::kInvalid, "column {}: the name is there twice", column.name);
    }
    const auto place = had.find(column.name);
    found.columns.push_back(place == had.end() ? Reconciliation::Change::kAdded
                            : *place->second == column.fingerprint
                                ? Reconciliation::Change::kKept
                                : Reconciliation::Change::kRemade);
  }
  for (const ColumnSpec& column : before) {
    if (!seen.contains(column.name)) found.removed.push_back(column.name);
  }
  return found;
}

Result<SlotPlan> plan_slots(std::span<const StoredColumn> before, std::span<const ColumnSpec> now) {
  std::unordered_map<std::string_view, const StoredColumn*> stored;
  std::vector<ColumnSpec> specs;
  for (const StoredColumn& column : before) {
    stored.emplace(column.spec.name, &column);
    specs.push_back(column.spec);
  }
  auto found = compare_columns(specs, now);
  if (!found) return fail(std::move(found.error()));
  SlotPlan plan;
  plan.next.resize(now.size());
  std::vector<bool> used(kMaxSlot + 1, false);
  used[kSharedSlot] = true;
  for (std::size_t i = 0; i < now.size(); ++i) {
    plan.next[i].spec = now[i];
    if (found->columns[i] != Reconciliation::Change::kKept) continue;
    // Where its cells lie was settled when the column was new.
    plan.next[i] = *stored.at(now[i].name);
    used[plan.next[i].slot] = true;
  }
  plan.gone.assign(kMaxSlot + 1, false);
  for (const StoredColumn& column : before) {
    if (used[column.slot]) continue;
    plan.gone[column.slot] = true;
    plan.deletes = true;
  }
  std::uint32_t free_slot = 1;
  for (StoredColumn& column : plan.next) {
    if (column.slot != kSharedSlot) continue;
    while (used[free_slot]) ++free_slot;
    column.slot = free_slot;
    used[free_slot] = true;
  }
  plan.found = *std::move(found);
  return plan;
}

}  // namespace dovetail::pipeline
