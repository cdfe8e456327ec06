#include "grammar/rule_book.h"

#include <unordered_set>

#include "grammar/determinize.h"

namespace dovetail::grammar {
namespace {

constexpr std::size_t kMaxRules = 1U << 14U;

}  // namespace

std::uint32_t RuleBook::rule(Key key, std::string_view where, Body body) {
  const auto [at, fresh] =
      ids_.try_emplace(std::move(key), static_cast<std::uint32_t>(rules_.size()));
  if (fresh) {
    rules_.push_back({nfa_.add_state(), 0, std::string(where)});
    bodies_.push_back(std::move(body));
  }
  return at->second;
}

Status RuleBook::build() {
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    if (const Status enough = work_.check(where_); !enough) return fail(enough.error());
    if (bodies_.size() > kMaxRules || nfa_.full()) {
      return fail(ErrorKind::kUnsupported, "{}: needs more than {} states or {} kinds of values",
                  where_, kMaxNfaStates, kMaxRules);
    }
    const Body body = std::move(bodies_[i]);
    const auto end = body(rules_[i].start);
    if (!end) return fail(end.error());
    rules_[i].end = *end;
  }
  return {};
}

std::vector<bool> RuleBook::productive() const {
  // Edges backwards; those that call wait for their rule.
  struct Back {
    Nfa::State from;
    std::uint32_t rule;
  };
  constexpr std::uint32_t kNoRule = Nfa::kNoEdge;
  std::vector<std::vector<Back>> back(nfa_.size());
  for (Nfa::State q = 0; q < nfa_.size() && !work_.stopped(); ++q) {
    for (std::uint32_t e = nfa_.first_edge(q); e != Nfa::kNoEdge; e = nfa_.edge(e).next) {
      const Nfa::Edge& edge = nfa_.edge(e);
      back[edge.target].push_back({q, edge.kind == Nfa::EdgeKind::kCall ? edge.rule : kNoRule});
    }
  }
  std::vector<bool> out(nfa_.size(), false);
  std::vector<std::vector<Nfa::State>> waiting(rules_.size());
  std::map<Nfa::State, std::uint32_t> starts;
  std::vector<Nfa::State> stack;
  const auto reach = [&](Nfa::State q) {
    if (out[q]) return;
    out[q] = true;
    stack.push_back(q);
  };
  for (std::uint32_t rule = 0; rule < rules_.size(); ++rule) {
    starts[rules_[rule].start] = rule;
    reach(rules_[rule].end);
  }
  while (!stack.empty() && !work_.stopped()) {
    const Nfa::State q = stack.back();
    stack.pop_back();
    for (const Back& edge : back[q]) {
      if (edge.rule == kNoRule || out[rules_[edge.rule].start]) {
        reach(edge.from);
      } else {
        waiting[edge.rule].push_back(edge.from);
      }
    }
    if (const auto rule = starts.find(q); rule != starts.end()) {
      for (const Nfa::State caller : waiting[rule->second]) reach(caller);
    }
  }
  return out;
}

bool RuleBook::has_text(Nfa::State from, Nfa::State to, const std::vector<bool>& productive) const {
  std::vector<Nfa::State> stack = {from};
  std::unordered_set<Nfa::State> seen = {from};
  while (!stack.empty() && !work_.stopped()) {
    const Nfa::State q = stack.back();
    stack.pop_back();
    if (q == to) return true;
    for (std::uint32_t e = nfa_.first_edge(q); e != Nfa::kNoEdge; e = nfa_.edge(e).next) {
      const Nfa::Edge& edge = nfa_.edge(e);
      if (edge.kind == Nfa::EdgeKind::kCall && !productive[rules_[edge.rule].start]) continue;
      if (seen.insert(edge.target).second) stack.push_back(edge.target);
    }
  }
  return false;
}

Result<Automaton> RuleBook::determinized(std::uint32_t root) const {
  return determinize(nfa_, rules_, root, where_, work_);
}

}  // namespace dovetail::grammar
