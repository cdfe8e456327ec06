#include "base/sampling_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace dovetail {

std::string option_name(const SamplingRow& row) {
  std::string name(row.name);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

double SamplingRow::neutral() const { return sampling_value(SamplingParams(), *this); }

double sampling_value(const SamplingParams& params, const SamplingRow& row) {
  return std::visit([&](const auto member) { return static_cast<double>(params.*member); },
                    row.member);
}

void set_sampling_value(SamplingParams& params, const SamplingRow& row, double value) {
  const auto store = [&](const auto member) {
    using Value = std::remove_reference_t<decltype(params.*member)>;
    params.*member = static_cast<Value>(value);
  };
  std::visit(store, row.member);
}

Status check_sampling_value(const SamplingRow& row, double value) {
  // Judged as what will be used.
  if (!row.whole()) value = static_cast<double>(static_cast<float>(value));
  const bool above = row.least_excluded ? value > row.least : value >= row.least;
  if (above && value <= row.most) return {};
  std::string expected = fmt::format("{} to {}", row.least, row.most);
  if (row.least_excluded) expected = fmt::format("above {} and at most {}", row.least, row.most);
  if (row.most == kMostWhole) {
    expected = fmt::format("{}{} or more", row.least, row.least == row.neutral() ? " (off)" : "");
  }
  return fail(ErrorKind::kInvalid, "{}: {} is out of range, expected {}", row.name,
              sampling_text(row, value), expected);
}

std::string sampling_text(const SamplingRow& row, double value) {
  if (row.whole()) return fmt::format("{}", static_cast<std::int64_t>(value));
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

SamplingParams SamplingValues::params() const {
  SamplingParams params;
  for (const SamplingRow& row : kSamplingRows) {
    if ((*this)[row]) set_sampling_value(params, row, *(*this)[row]);
  }
  return params;
}

}  // namespace dovetail
