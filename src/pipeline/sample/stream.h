#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace dovetail::pipeline {

// What all streams of one column share: XXH3-64 of the column's name, seeded with the run's seed.
std::uint64_t stream_key(std::uint64_t run_seed, std::string_view column);

// Random bits that are a pure function of (run seed, column, record, attempt), whatever the order
// in which they are asked for and on whatever machine: Philox4x32-10 (Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011), keyed by stream_key(), over the counter (block,
// attempt, low and high half of the record). A value object; different streams are independent of
// each other.
class Stream {
 public:
  Stream(std::uint64_t key, std::uint64_t record, std::uint32_t attempt = 0);

  // 64 bits: of each block of four words first the words 0 (low) and 1 (high), then 2 and 3.
  std::uint64_t bits();
  // One of the 2^53 multiples of 2^-53 in [0, 1).
  double unit();
  // (k + 0.5) * 2^-52 for one of 2^52 values of k: never 0 and never 1.
  double open_unit();
  // An integer in [0, bound), each equally likely (Lemire's method); bound > 0.
  std::uint64_t below(std::uint64_t bound);

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::uint64_t second_ = 0;
  bool has_second_ = false;
};

// One block of Philox4x32-10.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key);

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
