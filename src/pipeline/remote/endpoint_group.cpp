#include "pipeline/remote/endpoint_group.h"

#include <xxhash.h>

#include <cassert>

namespace dovetail::pipeline {

namespace {

double load_of(const EndpointLoad& load) {
  return static_cast<double>(load.in_flight) / static_cast<double>(load.limit);
}

}  // namespace

std::uint64_t prefix_hash(std::string_view prompt, std::size_t most) {
  const std::string_view prefix = prompt.substr(0, most);
  return XXH3_64bits(prefix.data(), prefix.size());
}

EndpointGroup::EndpointGroup(const std::vector<std::string>& names, GroupOptions options)
    : options_(options) {
  for (const std::string& name : names) names_.push_back(XXH3_64bits(name.data(), name.size()));
}

std::optional<std::size_t> EndpointGroup::choose(std::span<const EndpointLoad> loads,
                                                 std::optional<std::uint64_t> prefix) const {
  assert(loads.size() == names_.size());
  std::optional<std::size_t> least;
  std::optional<std::size_t> favourite;
  std::uint64_t best = 0;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const EndpointLoad& load = loads[i];
    if (!load.available || load.in_flight >= load.limit) continue;
    if (!least || load_of(load) < load_of(loads[*least])) least = i;
    if (!prefix) continue;
    const std::uint64_t score = XXH3_64bits_withSeed(&*prefix, sizeof *prefix, names_[i]);
    if (!favourite || score > best) {
      favourite = i;
      best = score;
    }
  }
  if (!favourite || *favourite == *least) return least;
  const double busier = load_of(loads[*favourite]) - load_of(loads[*least]);
  return busier <= options_.affinity_slack ? favourite : least;
}

}  // namespace dovetail::pipeline
