#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/code_points.h"
#include "grammar/work.h"

namespace dovetail::grammar {

struct Automaton;

// A nondeterministic automaton under construction: edges for bytes, for nothing, and for whole
// rules. Functions that add a piece take the state that it starts from and give the state that it
// ends in; no piece adds an edge into the state that it starts from, so alternatives may share it.
// Beyond the bound on states, or once the stop flag is set, everything goes to state 0 and full()
// is true.
class Nfa {
 public:
  using State = std::uint32_t;
  enum class EdgeKind : std::uint8_t { kNothing, kBytes, kCall };
  struct Edge {
    EdgeKind kind = EdgeKind::kNothing;
    ByteRange bytes;
    std::uint32_t rule = 0;
    State target = 0;
    std::uint32_t next = 0;  // index of the state's next edge
  };
  static constexpr std::uint32_t kNoEdge = std::numeric_limits<std::uint32_t>::max();

  explicit Nfa(std::size_t max_states, StopFlag stop = nullptr)
      : max_states_(max_states), stop_(stop) {}

  State add_state();
  void nothing(State from, State to) { add({EdgeKind::kNothing, {}, 0, to, 0}, from); }
  void bytes(State from, ByteRange range, State to) {
    add({EdgeKind::kBytes, range, 0, to, 0}, from);
  }
  // A state that calls has no other edge.
  State call(State from, std::uint32_t rule);
  State literal(State from, std::string_view bytes);
  // One code point of the set, in UTF-8.
  State code_point(State from, const CodePointSet& set);
  // A copy of an automaton without calls.
  State copy(State from, const Automaton& automaton);

  bool full() const { return full_; }
  std::size_t size() const { return first_edge_.size(); }
  std::uint32_t first_edge(State state) const { return first_edge_[state]; }
  const Edge& edge(std::uint32_t index) const { return edges_[index]; }
  const std::vector<Edge>& edges() const { return edges_; }

 private:
  void add(Edge edge, State from);

  std::size_t max_states_;
  StopFlag stop_;
  bool full_ = false;
  std::vector<std::uint32_t> first_edge_;
  std::vector<Edge> edges_;
};

// What a kCall edge names: a part with one start and one end.
struct Rule {
  Nfa::State start = 0;
  Nfa::State end = 0;
  std::string where;  // for messages
};

}  // namespace dovetail::grammar
