#include "pipeline/sample/stream.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cassert>

namespace dovetail::pipeline {

namespace {

constexpr int kRounds = 10;

constexpr std::uint32_t low_half(std::uint64_t value) {
  return static_cast<std::uint32_t>(value & 0xffffffffU);
}
constexpr std::uint32_t high_half(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32U);
}

}  // namespace

std::uint64_t stream_key(std::uint64_t run_seed, std::string_view column) {
  return XXH3_64bits_withSeed(column.data(), column.size(), run_seed);
}

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {high_half(second) ^ counter[1] ^ key[0], low_half(second),
               high_half(first) ^ counter[3] ^ key[1], low_half(first)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

Stream::Stream(std::uint64_t key, std::uint64_t record, std::uint32_t attempt)
    : key_{low_half(key), high_half(key)},
      counter_{0, attempt, low_half(record), high_half(record)} {}

std::uint64_t Stream::bits() {
  if (has_second_) {
    has_second_ = false;
    return second_;
  }
  const auto words = philox(counter_, key_);
  ++counter_[0];
  second_ = std::uint64_t{words[3]} << 32U | words[2];
  has_second_ = true;
  return std::uint64_t{words[1]} << 32U | words[0];
}

double Stream::unit() { return static_cast<double>(bits() >> 11U) * 0x1p-53; }

double Stream::open_unit() { return (static_cast<double>(bits() >> 12U) + 0.5) * 0x1p-52; }

std::uint64_t Stream::below(std::uint64_t bound) {
  assert(bound > 0);
  __extension__ using Wide = unsigned __int128;
  // Of 2^64 inputs, 2^64 mod bound are drawn again, so that every result has as many as the others.
  Wide product = Wide{bits()} * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t surplus = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < surplus) product = Wide{bits()} * bound;
  }
  return static_cast<std::uint64_t>(product >> 64U);
}

namespace {

// A bit of the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
bool mixed_bit(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return ((value ^ (value >> 31U)) >> 63U) != 0;
}

}  // namespace

Permutation::Permutation(std::uint64_t seed, std::string_view name, std::uint64_t epoch,
                         std::uint64_t size)
    : size_(size) {
  if (size < 2) return;
  // Enough by the paper's bound (2 log2 size, for orders that look random place by place) with room
  // to spare, and for sizes of a few so that every order is about as likely as the others.
  const auto rounds = 24 + 3 * static_cast<std::size_t>(std::bit_width(size));
  Stream stream(stream_key(seed, name), epoch);
  rounds_.reserve(rounds);
  for (std::size_t i = 0; i < rounds; ++i) {
    const std::uint64_t pivot = stream.below(size);
    rounds_.push_back({pivot, stream.bits()});
  }
}

std::uint64_t Permutation::operator()(std::uint64_t place) const {
  assert(place < size_);
  for (const Round& round : rounds_) {
    // An involution without state: place and partner share the larger of the two, and so the bit.
    const std::uint64_t partner =
        round.pivot >= place ? round.pivot - place : round.pivot + (size_ - place);
    if (mixed_bit(round.key ^ (std::max(place, partner) * 0x9e3779b97f4a7c15U))) place = partner;
  }
  return place;
}

}  // namespace dovetail::pipeline
