#include "grammar/gbnf.h"

#include <algorithm>
#include <set>
#include <utility>

#include "grammar/rule_book.h"

namespace dovetail::grammar {
namespace {

constexpr std::size_t kMaxGbnfRules = 512;
constexpr std::uint32_t kGbnfRule = 0;
constexpr std::uint32_t kGbnfRoot = 1;
constexpr std::size_t kMaxAttempts = 8;
constexpr int kMaxGbnfDepth = 1024;  // of parts that are expanded within others

using Index = std::uint32_t;
using Indices = std::set<Index>;

// What the rules of a grammar are to each other.
class GbnfRules {
 public:
  GbnfRules(const Gbnf& gbnf, Work& work) : gbnf_(gbnf), work_(work) {
    const std::size_t count = gbnf.rules.size();
    nullable_.resize(count, false);
    for (bool more = true; more && !work.exhausted();) {
      more = false;
      for (Index rule = 0; rule < count; ++rule) {
        if (nullable_[rule] || !is_nullable(body(rule))) continue;
        nullable_[rule] = more = true;
      }
    }
    for (Index rule = 0; rule < count && !work.exhausted(); ++rule) {
      refers_.emplace_back();
      collect(body(rule), refers_.back());
      begins_.emplace_back();
      collect_first(body(rule), begins_.back());
    }
    if (work.exhausted()) return;
    for (Index rule = 0; rule < count; ++rule) reaches_.push_back(reached(rule, refers_, {}));
  }

  Index body(Index rule) const { return *gbnf_.rules[rule].body; }
  bool nullable(Index rule) const { return nullable_[rule]; }

  // A rule that refers to itself before a character.
  std::optional<Index> left_recursive() const {
    for (Index rule = 0; rule < begins_.size(); ++rule) {
      if (reached(rule, begins_, {}).contains(rule)) return rule;
    }
    return std::nullopt;
  }

  // Whether a rule refers to itself directly alone, and only where nothing follows: a loop.
  bool is_loop(Index rule) const {
    for (const Index other : refers_[rule]) {
      if (other != rule && reaches_[other].contains(rule)) return false;
    }
    return refers_[rule].contains(rule) && only_at_end(body(rule), rule, true);
  }

  // Sets of rules without which none refers to itself (loops aside), the most promising first: a
  // rule that nests and is called must be told apart from what follows it.
  std::vector<Indices> cuts() const {
    std::vector<Indices> groups;  // of rules that refer to each other
    for (Index rule = 0; rule < reaches_.size(); ++rule) {
      if (!reaches_[rule].contains(rule) || is_loop(rule)) continue;
      const auto known = std::find_if(groups.begin(), groups.end(), [&](const Indices& group) {
        return reaches_[rule].contains(*group.begin()) && reaches_[*group.begin()].contains(rule);
      });
      if (known != groups.end()) {
        known->insert(rule);
      } else {
        groups.push_back({rule});
      }
    }
    std::vector<std::vector<Indices>> choices;  // of each group
    for (const Indices& group : groups) {
      choices.emplace_back();
      for (const Index rule : group) {
        const bool enough = std::none_of(group.begin(), group.end(), [&](Index other) {
          return other != rule && !is_loop(other) &&
                 reached(other, refers_, {rule}).contains(other);
        });
        if (enough) choices.back().push_back({rule});
      }
      if (choices.back().empty()) choices.back().push_back(group);
    }
    std::vector<Indices> out;
    for (std::size_t i = 0; i < kMaxAttempts; ++i) {
      Indices cut;
      bool fresh = i == 0;
      for (const auto& options : choices) {
        fresh = fresh || i < options.size();
        const Indices& option = options[std::min(i, options.size() - 1)];
        cut.insert(option.begin(), option.end());
      }
      if (!fresh) break;
      out.push_back(std::move(cut));
    }
    return out;
  }

 private:
  bool is_nullable(Index index) const {
    work_.spend(1);
    const Gbnf::Node& node = gbnf_.nodes[index];
    const auto good = [&](Index child) { return is_nullable(child); };
    switch (node.kind) {
      case Gbnf::Kind::kSet:
        return false;
      case Gbnf::Kind::kSequence:
        return std::all_of(node.children.begin(), node.children.end(), good);
      case Gbnf::Kind::kUnion:
        return std::any_of(node.children.begin(), node.children.end(), good);
      case Gbnf::Kind::kRepeat:
        return node.min == 0 || good(node.children[0]);
      case Gbnf::Kind::kRule:
        return nullable_[node.rule];
    }
    return false;
  }

  void collect(Index index, Indices& out) const {
    work_.spend(1);
    const Gbnf::Node& node = gbnf_.nodes[index];
    if (node.kind == Gbnf::Kind::kRule) out.insert(node.rule);
    for (const Index child : node.children) collect(child, out);
  }

  void collect_first(Index index, Indices& out) const {
    work_.spend(1);
    const Gbnf::Node& node = gbnf_.nodes[index];
    if (node.kind == Gbnf::Kind::kRule) out.insert(node.rule);
    for (const Index child : node.children) {
      collect_first(child, out);
      if (node.kind == Gbnf::Kind::kSequence && !is_nullable(child)) return;
    }
  }

  Indices reached(Index from, const std::vector<Indices>& edges, const Indices& without) const {
    Indices out;
    std::vector<Index> stack = {from};
    while (!stack.empty() && !work_.exhausted()) {
      const Index rule = stack.back();
      stack.pop_back();
      for (const Index next : edges[rule]) {
        work_.spend(1);
        if (!without.contains(next) && out.insert(next).second) stack.push_back(next);
      }
    }
    return out;
  }

  bool only_at_end(Index index, Index rule, bool end) const {
    const Gbnf::Node& node = gbnf_.nodes[index];
    if (node.kind == Gbnf::Kind::kRule) return end || node.rule != rule;
    const bool passes = node.kind != Gbnf::Kind::kRepeat || node.max == 1;
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      const bool last = node.kind != Gbnf::Kind::kSequence || i + 1 == node.children.size();
      if (!only_at_end(node.children[i], rule, end && passes && last)) return false;
    }
    return true;
  }

  const Gbnf& gbnf_;
  Work& work_;
  std::vector<bool> nullable_;
  std::vector<Indices> refers_;   // by rule
  std::vector<Indices> begins_;   // where no character was read before
  std::vector<Indices> reaches_;  // over any number of references
};

// Where a text stands in a rule: without and with characters of it read before. Rules that are
// called match no empty text; where they are called, that is an alternative of its own.
struct GbnfPlace {
  Nfa::State fresh = Nfa::kNoEdge;
  Nfa::State moved = Nfa::kNoEdge;
  bool nowhere() const { return fresh == Nfa::kNoEdge && moved == Nfa::kNoEdge; }
};

class GbnfCompiler {
 public:
  GbnfCompiler(const Gbnf& gbnf, const GbnfRules& rules, const Indices& called, Work& work)
      : gbnf_(gbnf), rules_(rules), called_(called), work_(work), book_(work, "grammar") {}

  Result<Automaton> compile() {
    const std::uint32_t root = book_.rule({kGbnfRoot, {}}, where(gbnf_.root), [&](State from) {
      const GbnfPlace end = reference({from, Nfa::kNoEdge}, gbnf_.root);
      const State to = nfa_.add_state();
      nothing(end.fresh, to);
      nothing(end.moved, to);
      return Result<State>(to);
    });
    if (const Status built = book_.build(); !built) return fail(built.error());
    if (too_deep_) {
      return fail(ErrorKind::kUnsupported, "grammar: rules and groups nest deeper than {} levels",
                  kMaxGbnfDepth);
    }
    auto out = book_.determinized(root);
    if (out || called_.empty()) return out;
    std::string names;
    for (const Index rule : called_) {
      names += fmt::format("{}\"{}\" (line {})", names.empty() ? "" : ", ", gbnf_.rules[rule].name,
                           gbnf_.rules[rule].line);
    }
    return fail(out.error().kind, "{}; rules that nest: {}", out.error().message, names);
  }

 private:
  using State = Nfa::State;

  std::string where(Index rule) const {
    return fmt::format("grammar, line {}: \"{}\"", gbnf_.rules[rule].line, gbnf_.rules[rule].name);
  }

  void nothing(State from, State to) {
    if (from != Nfa::kNoEdge) nfa_.nothing(from, to);
  }
  void join(State from, State& to) {
    if (from == Nfa::kNoEdge) return;
    if (to == Nfa::kNoEdge) to = nfa_.add_state();
    nfa_.nothing(from, to);
  }
  void join(const GbnfPlace& from, GbnfPlace& to) {
    join(from.fresh, to.fresh);
    join(from.moved, to.moved);
  }
  GbnfPlace copy_of(const GbnfPlace& from) {
    GbnfPlace own;
    join(from, own);
    return own;
  }

  GbnfPlace reference(const GbnfPlace& from, Index rule) {
    if (called_.contains(rule)) {
      const std::uint32_t call =
          book_.rule({kGbnfRule, {rule}}, where(rule), [this, rule](State s) {
            const State to = nfa_.add_state();
            nothing(node({s, Nfa::kNoEdge}, rules_.body(rule)).moved, to);
            return Result<State>(to);
          });
      GbnfPlace to;
      if (rules_.nullable(rule)) to = copy_of(from);
      for (const State state : {from.fresh, from.moved}) {
        if (state != Nfa::kNoEdge) join(nfa_.call(state, call), to.moved);
      }
      return to;
    }
    if (!rules_.is_loop(rule)) return node(copy_of(from), rules_.body(rule));
    GbnfPlace again = copy_of(from);
    if (again.moved == Nfa::kNoEdge) again.moved = nfa_.add_state();
    loops_.emplace_back(rule, again);
    const GbnfPlace to = node(copy_of(again), rules_.body(rule));
    loops_.pop_back();
    return to;
  }

  GbnfPlace node(const GbnfPlace& from, Index index) {
    work_.spend(1);
    if (from.nowhere() || nfa_.full() || work_.exhausted()) return {};
    if (depth_ >= kMaxGbnfDepth) {
      too_deep_ = true;
      return {};
    }
    ++depth_;
    const GbnfPlace to = piece(from, index);
    --depth_;
    return to;
  }

  GbnfPlace piece(const GbnfPlace& from, Index index) {
    const Gbnf::Node& node = gbnf_.nodes[index];
    GbnfPlace to;
    switch (node.kind) {
      case Gbnf::Kind::kSet:
        for (const State state : {from.fresh, from.moved}) {
          if (state != Nfa::kNoEdge) join(nfa_.code_point(state, node.set), to.moved);
        }
        return to;
      case Gbnf::Kind::kSequence:
        to = from;
        for (const Index child : node.children) to = this->node(to, child);
        return to;
      case Gbnf::Kind::kUnion:
        for (const Index child : node.children) join(this->node(from, child), to);
        return to;
      case Gbnf::Kind::kRepeat:
        return repeat(from, node);
      case Gbnf::Kind::kRule:
        for (auto loop = loops_.rbegin(); loop != loops_.rend(); ++loop) {
          if (loop->first != node.rule) continue;
          nothing(from.fresh, loop->second.fresh);
          nothing(from.moved, loop->second.moved);
          return {};
        }
        return reference(from, node.rule);
    }
    return to;
  }

  GbnfPlace repeat(GbnfPlace from, const Gbnf::Node& node) {
    const Index child = node.children[0];
    const auto goes_on = [&] { return !from.nowhere() && !nfa_.full() && !work_.exhausted(); };
    for (std::uint32_t i = 0; i < node.min && goes_on(); ++i) {
      from = this->node(copy_of(from), child);
    }
    if (node.max != Regex::kUnbounded) {
      GbnfPlace to = copy_of(from);
      for (std::uint32_t i = node.min; i < node.max && goes_on(); ++i) {
        from = this->node(copy_of(from), child);
        join(from, to);
      }
      return to;
    }
    GbnfPlace again = copy_of(from);
    if (again.moved == Nfa::kNoEdge) again.moved = nfa_.add_state();
    join(this->node(again, child), again);
    return copy_of(again);
  }

  const Gbnf& gbnf_;
  const GbnfRules& rules_;
  const Indices& called_;
  Work& work_;
  RuleBook book_;
  Nfa& nfa_ = book_.nfa();
  std::vector<std::pair<Index, GbnfPlace>> loops_;
  int depth_ = 0;
  bool too_deep_ = false;
};

}  // namespace

Result<Automaton> compile_gbnf(std::string_view text, StopFlag stop) {
  const auto gbnf = parse_gbnf(text);
  if (!gbnf) return fail(gbnf.error());
  if (gbnf->rules.size() > kMaxGbnfRules) {
    return fail(ErrorKind::kUnsupported, "grammar: {} rules; at most {}", gbnf->rules.size(),
                kMaxGbnfRules);
  }
  Work work(stop);
  const GbnfRules rules(*gbnf, work);
  if (const Status enough = work.check("grammar"); !enough) return fail(enough.error());
  if (const auto rule = rules.left_recursive()) {
    return fail(ErrorKind::kUnsupported,
                "grammar, line {}: \"{}\" refers to itself before it has read a character",
                gbnf->rules[*rule].line, gbnf->rules[*rule].name);
  }
  std::optional<Error> first;
  for (const Indices& called : rules.cuts()) {
    auto out = GbnfCompiler(*gbnf, rules, called, work).compile();
    if (out && !out->empty()) return out;
    if (out) return fail(ErrorKind::kInvalid, "grammar: no text is one of \"root\"");
    if (!first) first = out.error();
    if (work.exhausted()) break;
  }
  return fail(*first);
}

}  // namespace dovetail::grammar
