#include "pipeline/sample/permutation.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "pipeline/sample/stream.h"

namespace dovetail::pipeline {
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
