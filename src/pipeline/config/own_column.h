#pragma once

#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/column_type.h"
#include "pipeline/config/column_draft.h"

namespace dovetail::pipeline {

// kInvalid: a type that files could not name, or that has the name of one of `built_in` or of
// another; a field that could not be told from others; nothing to call.
Status check_column_types(std::span<const ColumnType> types,
                          const std::vector<std::string>& built_in);

// As the readers of the built-in types in column_draft.h.
void read_own_column(const ColumnContext& context, const ColumnType& type, Fields& fields,
                     ColumnDraft& draft);

// What a user's function returns; what it throws is an error.
template <class Call>
auto guarded(std::string_view name, Call&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::exception& thrown) {
    return fail(ErrorKind::kInternal, "{} threw: {}", name, thrown.what());
  } catch (...) {
    return fail(ErrorKind::kInternal, "{} threw something that is no std::exception", name);
  }
}

}  // namespace dovetail::pipeline
