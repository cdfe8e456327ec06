#pragma once

#include <cstdint>
#include <span>
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
  explicit FakeModel(const schedule::SchedulerOptions& options)
      : groups_(options.groups),
        tells_generated_(options.tells_generated),
        has_states_(options.has_states),
        block_size_(options.block_size),
        cache_(std::size_t{options.kv_blocks} * options.block_size),
        states_(options.max_num_seqs),
        saved_(options.saved_states) {}

  // Reads and writes what `row` of `request` does, and saves the states. The first fault, or an
  // empty string.
  std::string compute(const schedule::Row& row, std::span<const kv::SavedState> saves,
                      const FakeRequest& request);

 private:
  struct Cell {
    std::int32_t token = -1;
    std::uint32_t position = 0;
    std::size_t group = 0;
    bool generated = false;  // where layers tell
    bool operator==(const Cell&) const = default;
  };
  // A state is all tokens that it has taken.
  using State = std::vector<std::int32_t>;

  // Null: the row has no block there.
  Cell* at(const schedule::Row& row, std::size_t group, std::uint32_t position);
  std::string advance(const schedule::Row& row, std::span<const kv::SavedState> saves,
                      const FakeRequest& request);

  std::vector<kv::CacheGroup> groups_;
  bool tells_generated_;
  bool has_states_;
  std::uint32_t block_size_;
  std::vector<Cell> cache_;
  std::vector<State> states_;  // by slot
  std::vector<State> saved_;
};

}  // namespace dovetail::laws
