#include "grammar/matcher.h"

#include <algorithm>
#include <utility>

#include "grammar/walk.h"

namespace dovetail::grammar {

Matcher::Matcher(std::shared_ptr<const TokenMasks> masks)
    : masks_(std::move(masks)), state_(masks_->automaton().start) {}

void Matcher::allowed(std::span<std::uint64_t> mask) const {
  if (ended_) {
    std::fill(mask.begin(), mask.end(), 0);
  } else {
    masks_->allowed(state_, stack_, mask);
  }
  if (!can_end()) return;
  for (const TokenId end : masks_->vocabulary().ends()) {
    const auto id = static_cast<std::size_t>(end);
    mask[id / 64] |= std::uint64_t{1} << (id % 64);
  }
}

bool Matcher::is_allowed(TokenId token) const { return Matcher(*this).accept(token); }

bool Matcher::accept(TokenId token) {
  if (masks_->vocabulary().is_end(token)) {
    if (!can_end()) return false;
    ended_ = true;
    return true;
  }
  const std::string_view bytes = masks_->vocabulary().bytes(token);
  return !bytes.empty() && accept_bytes(bytes);
}

bool Matcher::accept_bytes(std::string_view bytes) {
  if (bytes.empty()) return true;
  if (ended_) return false;
  Walk walk(masks_->automaton(), masks_->need(), stack_, Grammar::kMaxDepth);
  Place place = walk.begin(state_);
  for (const char c : bytes) {
    if (walk.step(place, static_cast<std::uint8_t>(c)) != Step::kOk) return false;
  }
  if (!walk.can_rest(place)) return false;
  std::vector<std::uint32_t> stack;
  walk.write_stack(place, stack);
  stack_ = std::move(stack);
  state_ = place.state;
  return true;
}

bool Matcher::can_end() const {
  return Walk(masks_->automaton(), masks_->need(), stack_, Grammar::kMaxDepth)
      .can_end({state_, 0, static_cast<std::uint32_t>(stack_.size()),
                static_cast<std::uint32_t>(stack_.size())});
}

bool Matcher::must_end() const {
  if (ended_) return true;
  if (!can_end()) return false;
  // Frames of the stack end one after the other, so what could follow is what one of them reads.
  const Automaton& automaton = masks_->automaton();
  const auto reads = [&](std::uint32_t state) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if (automaton.at(state, static_cast<std::uint8_t>(byte)) != Automaton::kNone) return true;
    }
    return false;
  };
  return !reads(state_) && std::none_of(stack_.begin(), stack_.end(), reads);
}

bool Matcher::is_dead() const { return masks_->need()[state_] == Automaton::kNever && !can_end(); }

}  // namespace dovetail::grammar
