#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/sampling_table.h"

namespace dovetail::load {

// The field `key` as a value of the row, of JsonFields or GgufFields.
template <class Fields>
std::optional<double> read_recommended(Fields& fields, std::string_view key,
                                       const SamplingRow& row) {
  if (row.whole()) {
    const std::int32_t least = row.minus_one ? -1 : static_cast<std::int32_t>(row.least);
    const auto given = fields.optional_int(key, least, static_cast<std::int32_t>(row.most));
    if (given && *given < row.least) return row.neutral();
    return given;
  }
  const auto given =
      fields.optional_float(key, static_cast<float>(row.least), static_cast<float>(row.most));
  if (row.least_excluded && given == row.least) {
    fields.reject(key, fmt::format("{}", row.least),
                  fmt::format("a number above {} and at most {}", row.least, row.most));
  }
  return given;
}

}  // namespace dovetail::load
