#include "engine/sampling_members.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <variant>

namespace dovetail {
namespace {

using Member = std::variant<float SamplingParams::*, std::int32_t SamplingParams::*>;

// By row, in the table's order.
constexpr std::array<std::pair<std::string_view, Member>, kSamplingRows.size()> kMembers = {{
    {"temperature", &SamplingParams::temperature},
    {"top_k", &SamplingParams::top_k},
    {"top_p", &SamplingParams::top_p},
    {"min_p", &SamplingParams::min_p},
    {"repetition_penalty", &SamplingParams::repetition_penalty},
    {"presence_penalty", &SamplingParams::presence_penalty},
    {"frequency_penalty", &SamplingParams::frequency_penalty},
}};

static_assert(std::equal(kMembers.begin(), kMembers.end(), kSamplingRows.begin(),
                         [](const auto& member, const SamplingRow& row) {
                           return member.first == row.name &&
                                  member.second.index() == (row.whole ? 1 : 0);
                         }));

const Member& member_of(const SamplingRow& row) {
  return kMembers[static_cast<std::size_t>(&row - kSamplingRows.data())].second;
}

}  // namespace

double sampling_value(const SamplingParams& params, const SamplingRow& row) {
  return std::visit([&](const auto member) { return static_cast<double>(params.*member); },
                    member_of(row));
}

void set_sampling_value(SamplingParams& params, const SamplingRow& row, double value) {
  const auto store = [&](const auto member) {
    using Value = std::remove_reference_t<decltype(params.*member)>;
    params.*member = static_cast<Value>(value);
  };
  std::visit(store, member_of(row));
}

SamplingParams sampling_params(const SamplingValues& values) {
  SamplingParams params;
  for (const SamplingRow& row : kSamplingRows) {
    if (values[row]) set_sampling_value(params, row, *values[row]);
  }
  return params;
}

}  // namespace dovetail
