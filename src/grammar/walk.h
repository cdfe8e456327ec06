#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/mutation.h"

namespace dovetail::grammar {

// Where a text stands in an automaton: a state, frames pushed since the walk began (a list in the
// walk's arena), and how many frames of the stack that it began with are left below.
struct Place {
  std::uint32_t state = 0;
  std::uint32_t top = 0;    // arena index + 1; 0: none
  std::uint32_t base = 0;   // frames left of the stack below
  std::uint32_t depth = 0;  // frames in all
};

enum class Step { kOk, kNo, kBelow };

// Reads bytes from a place and can go back to earlier ones. `limit` bounds the frames: a place is
// reached only if the text can be ended from it within the bound.
class Walk {
 public:
  // `need` is Automaton::need, or one with fewer usable bytes, by which pushed frames are judged.
  Walk(const Automaton& automaton, std::span<const std::uint32_t> need,
       std::span<const std::uint32_t> stack, std::uint32_t limit)
      : automaton_(&automaton), need_(need), stack_(stack), limit_(limit) {}

  Place begin(std::uint32_t state) const {
    const auto frames = static_cast<std::uint32_t>(stack_.size());
    return {state, 0, frames, frames};
  }

  // Where the text goes on behind the end of the stack's uppermost frame, of which there is one.
  Place below() const {
    const auto frames = static_cast<std::uint32_t>(stack_.size()) - 1;
    return {stack_[frames], 0, frames, frames};
  }

  // kNo and kBelow leave `place` in an unspecified state; kBelow: the byte belongs to a frame below
  // those known.
  Step step(Place& place, std::uint8_t byte) {
    for (;;) {
      const std::uint32_t to = automaton_->at(place.state, byte);
      if (to == Automaton::kNone) {
        if (automaton_->is_final[place.state] == 0) return Step::kNo;
        if (place.top != 0) {
          const Frame& frame = arena_[place.top - 1];
          place.state = frame.after;
          place.top = frame.below;
        } else if (place.base != 0) {
          place.state = stack_[--place.base];
        } else {
          return Step::kBelow;
        }
        --place.depth;
        continue;
      }
      if ((to & Automaton::kCallBit) == 0) {
        place.state = to;
        high_ = std::max(high_, place.depth + automaton_->need[to]);
        const bool fits = place.depth + automaton_->need[to] <= limit_;
        return fits || mutated(Mutant::kOpenTooMuch) ? Step::kOk : Step::kNo;
      }
      const Automaton::Call& call = automaton_->calls[to & ~Automaton::kCallBit];
      if (need_[call.after] == Automaton::kNever) return Step::kNo;
      high_ = std::max(high_, place.depth + need_[call.after]);
      if (place.depth + need_[call.after] > limit_ && !mutated(Mutant::kOpenTooMuch)) {
        return Step::kNo;
      }
      arena_.push_back({call.after, place.top});
      place.top = static_cast<std::uint32_t>(arena_.size());
      ++place.depth;
      place.state = call.start;
    }
  }

  // Whether a token may end here: the text can go on or end from here by usable bytes alone.
  bool can_rest(const Place& place) {
    if (mutated(Mutant::kRestAnywhere)) return true;
    if (need_[place.state] == Automaton::kNever) return false;
    high_ = std::max(high_, place.depth + need_[place.state]);
    return place.depth + need_[place.state] <= limit_ || mutated(Mutant::kOpenTooMuch);
  }

  // Whether the text may end here.
  bool can_end(Place place) const {
    for (;;) {
      if (automaton_->is_final[place.state] == 0) return false;
      if (mutated(Mutant::kEndInside)) return true;
      if (place.top != 0) {
        place.state = arena_[place.top - 1].after;
        place.top = arena_[place.top - 1].below;
      } else if (place.base != 0) {
        place.state = stack_[--place.base];
      } else {
        return true;
      }
    }
  }

  // The frames pushed so far, to be cut back to when places made since are given up.
  std::size_t mark() const { return arena_.size(); }
  void cut(std::size_t mark) { arena_.resize(mark); }

  // The frames at `place`, the lowest first.
  void write_stack(const Place& place, std::vector<std::uint32_t>& out) const {
    out.assign(stack_.begin(), stack_.begin() + place.base);
    const std::size_t from = out.size();
    for (std::uint32_t top = place.top; top != 0; top = arena_[top - 1].below) {
      out.push_back(arena_[top - 1].after);
    }
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(from), out.end());
  }

  // The most frames that any place would have needed.
  std::uint32_t high() const { return high_; }

 private:
  struct Frame {
    std::uint32_t after;
    std::uint32_t below;
  };
  const Automaton* automaton_;
  std::span<const std::uint32_t> need_;
  std::span<const std::uint32_t> stack_;
  std::uint32_t limit_;
  std::uint32_t high_ = 0;
  std::vector<Frame> arena_;
};

}  // namespace dovetail::grammar
