#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::pipeline {

struct EndpointLoad {
  int in_flight = 0;
  int limit = 1;
  bool available = true;  // neither cooling, nor open, nor out of budget
};

struct GroupOptions {
  // How much busier, as a share of its limit, the favourite of a prefix may be than the least
  // loaded endpoint before the prefix goes there. Below 0: no affinity.
  double affinity_slack = 0.25;
};

// Chooses among the endpoints of one alias: the least loaded (in flight / limit) that has room; of
// prompts with an equal prefix, the same one as long as it is not much busier, so that it finds the
// prefix in its cache. The favourite is found by rendezvous hashing (Thaler, Ravishankar, 1998) of
// the prefix with the endpoints' names: when one is missing only its own prefixes move.
//
// Without state, any thread.
class EndpointGroup {
 public:
  explicit EndpointGroup(const std::vector<std::string>& names, GroupOptions options = {});

  // One load per endpoint, in the order of the names. Empty where none is available with room.
  std::optional<std::size_t> choose(std::span<const EndpointLoad> loads,
                                    std::optional<std::uint64_t> prefix = std::nullopt) const;

  std::size_t size() const { return names_.size(); }

 private:
  std::vector<std::uint64_t> names_;  // their hashes
  GroupOptions options_;
};

// The hash of a prompt's beginning. Prompts made from one template share what comes before its
// first variable: pass that, or the first `most` bytes of the prompt are taken.
inline constexpr std::size_t kPrefixBytes = 1024;
std::uint64_t prefix_hash(std::string_view prompt, std::size_t most = kPrefixBytes);

}  // namespace dovetail::pipeline
