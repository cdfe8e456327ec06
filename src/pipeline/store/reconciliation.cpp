#include "pipeline/store/reconciliation.h"

#include <string_view>
#include <unordered_map>
#include <unordered_set>

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

}  // namespace dovetail::pipeline
