#include "grammar/nfa.h"

#include "grammar/automaton.h"

namespace dovetail::grammar {

Nfa::State Nfa::add_state() {
  if (first_edge_.size() >= max_states_ || is_set(stop_)) {
    full_ = true;
    return 0;
  }
  first_edge_.push_back(kNoEdge);
  return static_cast<State>(first_edge_.size() - 1);
}

void Nfa::add(Edge edge, State from) {
  // A state has few edges but for unions, which add a state for most of them.
  if (full_ || edges_.size() >= 8 * max_states_) {
    full_ = true;
    return;
  }
  edge.next = first_edge_[from];
  first_edge_[from] = static_cast<std::uint32_t>(edges_.size());
  edges_.push_back(edge);
}

Nfa::State Nfa::call(State from, std::uint32_t rule) {
  const State caller = add_state();
  const State to = add_state();
  nothing(from, caller);
  add({EdgeKind::kCall, {}, rule, to, 0}, caller);
  return to;
}

Nfa::State Nfa::literal(State from, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    const State to = add_state();
    bytes(from, {byte, byte}, to);
    from = to;
  }
  return from;
}

Nfa::State Nfa::code_point(State from, const CodePointSet& set) {
  const State to = add_state();
  for (const CodePointRange& range : set.ranges()) {
    utf8_sequences(range, [&](std::span<const ByteRange> sequence) {
      State at = from;
      for (std::size_t i = 0; i < sequence.size(); ++i) {
        const State next = i + 1 == sequence.size() ? to : add_state();
        bytes(at, sequence[i], next);
        at = next;
      }
    });
  }
  return to;
}

Nfa::State Nfa::copy(State from, const Automaton& automaton) {
  const auto states = static_cast<std::uint32_t>(automaton.states());
  std::vector<State> at(states);
  for (State& state : at) state = add_state();
  const State to = add_state();
  nothing(from, at[automaton.start]);
  for (std::uint32_t q = 0; q < states && !full_; ++q) {
    if (automaton.is_final[q] != 0) nothing(at[q], to);
    std::uint32_t first = 0;
    while (first < 256) {
      const std::uint32_t target = automaton.at(q, static_cast<std::uint8_t>(first));
      std::uint32_t last = first;
      while (last < 255 && automaton.at(q, static_cast<std::uint8_t>(last + 1)) == target) ++last;
      if (target != Automaton::kNone) {
        bytes(at[q], {static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last)},
              at[target]);
      }
      first = last + 1;
    }
  }
  return to;
}

}  // namespace dovetail::grammar
