#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/sampling_members.h"
#include "serve/field_table.h"

namespace dovetail::serve {
namespace {

Problem read_sampling(const SamplingRow& row, std::string_view field, const Json& value,
                      Draft& draft) {
  SamplingParams& sampling = draft.request.sampling;
  if (!row.whole) {
    const auto number = read_number(field, value, {row.least, row.most, row.least_excluded});
    if (!number) return number.error();
    set_sampling_value(sampling, row, *number);
    return std::nullopt;
  }
  const auto least = static_cast<std::int64_t>(row.minus_one ? -1 : row.least);
  const auto number = read_integer(field, value, least, static_cast<std::int64_t>(row.most));
  if (!number) return number.error();
  const auto given = static_cast<double>(*number);
  set_sampling_value(sampling, row, given < row.least ? row.neutral : given);
  return std::nullopt;
}

template <std::size_t I>
Problem read_row(std::string_view field, const Json& value, Draft& draft) {
  return read_sampling(kSamplingRows[I], field, value, draft);
}

constexpr auto kAliases = static_cast<std::size_t>(
    std::count_if(kSamplingRows.begin(), kSamplingRows.end(),
                  [](const SamplingRow& row) { return !row.http_alias.empty(); }));
using Table = std::array<Field, kSamplingRows.size() + kAliases>;

template <std::size_t... I>
constexpr Table make_table(std::index_sequence<I...>) {
  Table table{};
  std::size_t used = 0;
  const auto add = [&](const SamplingRow& row, auto read) {
    for (const std::string_view name : {row.name, row.http_alias}) {
      if (!name.empty()) table[used++] = {name, kOutputs, read};
    }
  };
  (add(kSamplingRows[I], read_row<I>), ...);
  return table;
}

constexpr Table kSamplingFields = make_table(std::make_index_sequence<kSamplingRows.size()>());

}  // namespace

std::span<const Field> sampling_fields() { return kSamplingFields; }

}  // namespace dovetail::serve
