#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace dovetail::pipeline {

// A random order of 0 .. size - 1 without a list of them: any place of it in O(log size) time and
// space. The swap-or-not shuffle (Hoang, Morris, Rogaway, "An enciphering scheme based on a card
// shuffle", CRYPTO 2012), which works for every size as it is. A pure function of (seed, name,
// epoch, size). Immutable.
class Permutation {
 public:
  Permutation(std::uint64_t seed, std::string_view name, std::uint64_t epoch, std::uint64_t size);

  // What stands at a place; place < size.
  std::uint64_t operator()(std::uint64_t place) const;

 private:
  struct Round {
    std::uint64_t pivot;  // below size
    std::uint64_t key;
  };
  std::uint64_t size_;
  std::vector<Round> rounds_;
};

}  // namespace dovetail::pipeline
