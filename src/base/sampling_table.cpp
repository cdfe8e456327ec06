#include "base/sampling_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

namespace dovetail {

std::string option_name(const SamplingRow& row) {
  std::string name(row.name);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string sampling_text(const SamplingRow& row, double value) {
  if (row.whole) return fmt::format("{}", static_cast<std::int64_t>(value));
  return fmt::format("{}", static_cast<float>(value));
}

bool SamplingValues::any() const {
  return std::any_of(values_.begin(), values_.end(),
                     [](const std::optional<double>& value) { return value.has_value(); });
}

SamplingValues SamplingValues::or_else(const SamplingValues& others) const {
  SamplingValues both = *this;
  for (const SamplingRow& row : kSamplingRows) {
    if (!both[row]) both[row] = others[row];
  }
  return both;
}

}  // namespace dovetail
