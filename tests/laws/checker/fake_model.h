#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schedule/scheduler.h"

namespace dovetail::laws {

// A request as the outside knows it: which token stands at which position.
struct FakeRequest {
  schedule::SequenceId id = 0;
  std::uint32_t prompt = 0;
  std::uint32_t tokens = 0;  // known: prompt and generated
  std::uint32_t final_length = 0;
  std::uint32_t family = 0;
  std::uint32_t shared = 0;  // positions [0, shared) hold the family's tokens
  bool finish_next = false;
  std::uint32_t drafts = 0;  // offered with every result,
  std::uint32_t right = 0;   // and so many of them turn out right

  std::int32_t token(std::uint32_t position) const;
};

// Carries plans out on a cache of tokens, and says what is wrong with what it reads.
class FakeModel {
 public:
  FakeModel(std::uint32_t blocks, std::uint32_t block_size)
      : block_size_(block_size), cache_(std::size_t{blocks} * block_size) {}

  // Reads and writes what `row` of `request` does. The first fault, or an empty string.
  std::string compute(const schedule::Row& row, const FakeRequest& request);

 private:
  struct Cell {
    std::int32_t token = -1;
    std::uint32_t position = 0;
    bool operator==(const Cell&) const = default;
  };
  Cell& at(const schedule::Row& row, std::uint32_t position) {
    return cache_[std::size_t{row.blocks[position / block_size_]} * block_size_ +
                  position % block_size_];
  }

  std::uint32_t block_size_;
  std::vector<Cell> cache_;
};

}  // namespace dovetail::laws
