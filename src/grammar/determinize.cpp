#include "grammar/determinize.h"

#include <algorithm>
#include <bitset>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace dovetail::grammar {
namespace {

using Bytes = std::bitset<256>;

// A state of the NFA and what follows the rules that were copied in place around it.
struct Item {
  Nfa::State state = 0;
  std::uint32_t context = 0;
  bool operator==(const Item&) const = default;
  bool operator<(const Item& other) const {
    return state != other.state ? state < other.state : context < other.context;
  }
};
using Items = std::vector<Item>;

struct ItemsHash {
  std::size_t operator()(const Items& items) const {
    std::uint64_t hash = items.size();
    for (const Item& item : items) {
      hash ^= (std::uint64_t{item.state} << 32U) | item.context;
      hash *= 0x9E3779B97F4A7C15U;
      hash ^= hash >> 29U;
    }
    return hash;
  }
};

struct Context {
  Item after;
  std::uint32_t depth = 0;
};

// Calls that are one call: any of these rules, then any of these items.
struct CallGroup {
  std::vector<std::uint32_t> rules;
  Items after;
  Bytes first;
  bool inlined = false;
};

class Construction {
 public:
  Construction(const Nfa& nfa, std::span<const Rule> rules, std::string_view where, Work& work)
      : nfa_(nfa),
        rules_(rules),
        where_(where),
        work_(work),
        ends_(nfa.size(), 0),
        only_end_(nfa.size(), 0) {
    for (const Rule& rule : rules) ends_[rule.end] = 1;
    contexts_.push_back({});
    visited_.resize(nfa.size(), 0);
    find_classes();
    first_.resize(rules.size());
    known_first_.resize(rules.size(), false);
  }

  Result<Automaton> run(std::uint32_t root) {
    out_.start = state_of(closed({{rules_[root].start, 0}}));
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      if (queue_.size() > kMaxStates || queue_.size() * out_.classes > kMaxTableEntries) {
        return fail(ErrorKind::kUnsupported, "{}: needs more than {} states", where_,
                    std::min(kMaxStates, kMaxTableEntries / out_.classes));
      }
      if (items_ > kMaxSubsetItems) {
        return fail(ErrorKind::kUnsupported,
                    "{}: needs more than {} combinations of alternatives that begin alike", where_,
                    kMaxSubsetItems);
      }
      if (const Status enough = work_.check(where_); !enough) return fail(enough.error());
      const Items items = *queue_[i];
      if (const Status built = build(items); !built) return fail(built.error());
    }
    // Loops inside end early without work, so that the last states may be incomplete.
    if (const Status enough = work_.check(where_); !enough) return fail(enough.error());
    prune(out_, work_.stop());
    if (work_.stopped()) return fail(work_.check(where_).error());
    return std::move(out_);
  }

 private:
  void find_classes() {
    Bytes begins;
    begins.set(0);
    for (const Nfa::Edge& edge : nfa_.edges()) {
      if (edge.kind != Nfa::EdgeKind::kBytes) continue;
      begins.set(edge.bytes.first);
      if (edge.bytes.last < 255) begins.set(edge.bytes.last + 1U);
    }
    std::uint32_t count = 0;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if (begins.test(byte)) {
        ++count;
        example_.push_back(static_cast<std::uint8_t>(byte));
      }
      out_.class_of[byte] = static_cast<std::uint8_t>(count - 1);
    }
    out_.classes = count;
  }

  std::uint32_t state_of(const Items& items) {
    const auto [at, fresh] = ids_.try_emplace(items, static_cast<std::uint32_t>(queue_.size()));
    if (fresh) {
      queue_.push_back(&at->first);
      items_ += items.size() + 1;
    }
    return at->second;
  }

  // Whether nothing but the end of its rule can follow `state`.
  bool only_end(Nfa::State state) {
    std::uint8_t& known = only_end_[state];
    if (known == 0) {
      std::vector<Nfa::State> stack = {state};
      std::vector<Nfa::State> seen = stack;
      bool end = false;
      bool other = false;
      while (!stack.empty() && !other && seen.size() < 64) {
        const Nfa::State q = stack.back();
        stack.pop_back();
        end = end || ends_[q] != 0;
        for (std::uint32_t e = nfa_.first_edge(q); e != Nfa::kNoEdge; e = nfa_.edge(e).next) {
          const Nfa::Edge& edge = nfa_.edge(e);
          if (edge.kind != Nfa::EdgeKind::kNothing) {
            other = true;
          } else if (std::find(seen.begin(), seen.end(), edge.target) == seen.end()) {
            seen.push_back(edge.target);
            stack.push_back(edge.target);
          }
        }
      }
      known = end && !other && stack.empty() ? 2 : 1;
    }
    return known == 2;
  }

  // What `items` reach by nothing: ends, and states with bytes or calls. A call that ends its rule
  // becomes a jump.
  Items closed(const Items& from) {
    Items out;
    ++round_;
    const auto visit = [&](Item item) {
      if (item.context == 0) {
        if (visited_[item.state] == round_) return false;
        visited_[item.state] = round_;
        return true;
      }
      return with_context_.insert({item, true}).second;
    };
    with_context_.clear();
    Items todo;
    for (const Item& item : from) {
      if (visit(item)) todo.push_back(item);
    }
    while (!todo.empty() && !work_.exhausted()) {
      const Item item = todo.back();
      todo.pop_back();
      work_.spend(1);
      bool keep = false;
      const auto go = [&](Item next) {
        if (visit(next)) todo.push_back(next);
      };
      if (ends_[item.state] != 0) {
        if (item.context == 0) {
          keep = true;
        } else {
          go(contexts_[item.context].after);
        }
      }
      for (std::uint32_t e = nfa_.first_edge(item.state); e != Nfa::kNoEdge;
           e = nfa_.edge(e).next) {
        const Nfa::Edge& edge = nfa_.edge(e);
        if (edge.kind == Nfa::EdgeKind::kNothing) {
          go({edge.target, item.context});
        } else if (edge.kind == Nfa::EdgeKind::kCall && only_end(edge.target)) {
          go({rules_[edge.rule].start, item.context});
        } else {
          keep = true;
        }
      }
      if (keep) out.push_back(item);
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  const Bytes& first_of(std::uint32_t rule) {
    if (!known_first_[rule]) {
      known_first_[rule] = true;
      std::vector<Nfa::State> stack = {rules_[rule].start};
      std::unordered_map<Nfa::State, bool> seen = {{rules_[rule].start, true}};
      while (!stack.empty() && !work_.stopped()) {
        const Nfa::State q = stack.back();
        stack.pop_back();
        for (std::uint32_t e = nfa_.first_edge(q); e != Nfa::kNoEdge; e = nfa_.edge(e).next) {
          const Nfa::Edge& edge = nfa_.edge(e);
          if (edge.kind == Nfa::EdgeKind::kBytes) {
            for (std::size_t b = edge.bytes.first; b <= edge.bytes.last; ++b) first_[rule].set(b);
            continue;
          }
          const Nfa::State to =
              edge.kind == Nfa::EdgeKind::kCall ? rules_[edge.rule].start : edge.target;
          if (seen.insert({to, true}).second) stack.push_back(to);
        }
      }
    }
    return first_[rule];
  }

  // The calls of a closed set, by rule and then merged where they begin alike and go on alike;
  // `inlined` is set where bytes do not tell them apart.
  std::vector<CallGroup> groups_of(const Items& items) {
    std::map<std::uint32_t, Items> by_rule;
    Bytes direct;
    for (const Item& item : items) {
      for (std::uint32_t e = nfa_.first_edge(item.state); e != Nfa::kNoEdge;
           e = nfa_.edge(e).next) {
        const Nfa::Edge& edge = nfa_.edge(e);
        if (edge.kind == Nfa::EdgeKind::kCall && !only_end(edge.target)) {
          by_rule[edge.rule].push_back({edge.target, item.context});
        } else if (edge.kind == Nfa::EdgeKind::kBytes) {
          for (std::size_t b = edge.bytes.first; b <= edge.bytes.last; ++b) direct.set(b);
        }
      }
    }
    std::vector<CallGroup> groups;
    for (const auto& [rule, after] : by_rule) {
      if (work_.exhausted()) break;
      CallGroup group{{rule}, closed(after), first_of(rule), false};
      for (std::size_t i = 0; i < groups.size();) {
        if ((groups[i].first & group.first).any() && groups[i].after == group.after) {
          group.rules.insert(group.rules.end(), groups[i].rules.begin(), groups[i].rules.end());
          group.first |= groups[i].first;
          groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(i));
          i = 0;
        } else {
          ++i;
        }
      }
      groups.push_back(std::move(group));
    }
    for (CallGroup& group : groups) {
      if (work_.exhausted()) break;
      group.inlined = (group.first & direct).any();
      for (const CallGroup& other : groups) {
        if (&other != &group && (group.first & other.first).any()) group.inlined = true;
      }
    }
    return groups;
  }

  Result<std::uint32_t> context_of(Item after, std::uint32_t rule) {
    const std::uint32_t depth = contexts_[after.context].depth + 1;
    if (depth > kMaxInlined) {
      return fail(ErrorKind::kUnsupported,
                  "{}: alternatives begin alike and cannot be told apart within {} nested values",
                  rules_[rule].where, kMaxInlined);
    }
    const auto [at, fresh] =
        context_ids_.try_emplace(after, static_cast<std::uint32_t>(contexts_.size()));
    if (fresh) contexts_.push_back({after, depth});
    return at->second;
  }

  static bool is_inlined(const std::vector<CallGroup>& groups, std::uint32_t rule) {
    return std::any_of(groups.begin(), groups.end(), [&](const CallGroup& group) {
      return group.inlined &&
             std::find(group.rules.begin(), group.rules.end(), rule) != group.rules.end();
    });
  }

  Status build(const Items& key) {
    Items items = key;
    std::vector<CallGroup> groups = groups_of(items);
    // Copying rules in place may make others begin alike, so until nothing changes.
    while (std::any_of(groups.begin(), groups.end(),
                       [](const CallGroup& group) { return group.inlined; })) {
      Items more;
      for (const Item& item : items) {
        const std::uint32_t first = nfa_.first_edge(item.state);
        const bool calls = first != Nfa::kNoEdge && nfa_.edge(first).kind == Nfa::EdgeKind::kCall;
        if (!calls || !is_inlined(groups, nfa_.edge(first).rule)) {
          more.push_back(item);
          continue;
        }
        const Nfa::Edge& edge = nfa_.edge(first);
        const auto context = context_of({edge.target, item.context}, edge.rule);
        if (!context) return fail(context.error());
        more.push_back({rules_[edge.rule].start, *context});
      }
      items = closed(more);
      items_ += items.size();
      if (items_ > kMaxSubsetItems || work_.exhausted()) break;  // run() says so
      groups = groups_of(items);
    }
    emit(items, groups);
    return {};
  }

  void emit(const Items& items, const std::vector<CallGroup>& groups) {
    work_.spend(out_.classes);
    const std::size_t row = out_.next.size();
    out_.next.resize(row + out_.classes, Automaton::kNone);
    std::vector<Items> targets(out_.classes);
    bool final = false;
    for (const Item& item : items) {
      if (work_.exhausted()) break;
      final = final || (ends_[item.state] != 0 && item.context == 0);
      for (std::uint32_t e = nfa_.first_edge(item.state); e != Nfa::kNoEdge;
           e = nfa_.edge(e).next) {
        const Nfa::Edge& edge = nfa_.edge(e);
        if (edge.kind != Nfa::EdgeKind::kBytes) continue;
        work_.spend(1U + out_.class_of[edge.bytes.last] - out_.class_of[edge.bytes.first]);
        for (std::uint32_t c = out_.class_of[edge.bytes.first]; c <= out_.class_of[edge.bytes.last];
             ++c) {
          targets[c].push_back({edge.target, item.context});
        }
      }
    }
    out_.is_final.push_back(final ? 1 : 0);
    const Items* previous = nullptr;
    std::uint32_t previous_state = 0;
    for (std::uint32_t c = 0; c < out_.classes; ++c) {
      if (targets[c].empty()) continue;
      if (work_.exhausted()) break;
      if (previous == nullptr || *previous != targets[c]) {
        previous = &targets[c];
        previous_state = state_of(closed(targets[c]));
      }
      out_.next[row + c] = previous_state;
    }
    for (const CallGroup& group : groups) {
      Items starts;
      for (const std::uint32_t rule : group.rules) starts.push_back({rules_[rule].start, 0});
      const std::uint32_t start = state_of(closed(starts));
      const std::uint32_t after = state_of(group.after);
      const auto [at, fresh] =
          call_ids_.try_emplace({start, after}, static_cast<std::uint32_t>(out_.calls.size()));
      if (fresh) out_.calls.push_back({start, after});
      for (std::uint32_t c = 0; c < out_.classes; ++c) {
        if (group.first.test(example_[c])) out_.next[row + c] = Automaton::kCallBit | at->second;
      }
    }
  }

  const Nfa& nfa_;
  std::span<const Rule> rules_;
  std::string_view where_;
  Work& work_;
  std::vector<std::uint8_t> ends_;
  std::vector<std::uint8_t> only_end_;  // 0 unknown, 1 no, 2 yes
  std::vector<std::uint32_t> visited_;
  std::uint32_t round_ = 0;
  std::map<Item, bool> with_context_;
  std::vector<Context> contexts_;
  std::map<Item, std::uint32_t> context_ids_;
  std::vector<Bytes> first_;
  std::vector<bool> known_first_;
  std::unordered_map<Items, std::uint32_t, ItemsHash> ids_;
  std::vector<const Items*> queue_;
  std::size_t items_ = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> call_ids_;
  std::vector<std::uint8_t> example_;
  Automaton out_;
};

// Where a rule may go on or end, bytes that can follow it there must not be able to go on.
bool ends_are_clear(const Automaton& automaton, Work& work) {
  // By state of a rule, the classes that can follow the rule; grows until nothing changes.
  std::vector<Bytes> follow(automaton.states());
  std::vector<std::uint8_t> queued(automaton.states(), 0);
  std::vector<std::uint32_t> queue;
  const auto add = [&](std::uint32_t q, const Bytes& classes) {
    const Bytes before = follow[q];
    follow[q] |= classes;
    if (follow[q] == before || queued[q] != 0) return;
    queued[q] = 1;
    queue.push_back(q);
  };
  const auto readable = [&](std::uint32_t q) {
    Bytes out;
    for (std::uint32_t c = 0; c < automaton.classes; ++c) {
      if (automaton.next[std::size_t{q} * automaton.classes + c] != Automaton::kNone) out.set(c);
    }
    return out;
  };
  for (const Automaton::Call& call : automaton.calls) {
    if (work.exhausted()) return false;
    work.spend(automaton.classes);
    add(call.start, readable(call.after));
  }
  while (!queue.empty()) {
    if (work.exhausted()) return false;
    work.spend(automaton.classes);
    const std::uint32_t q = queue.back();
    queue.pop_back();
    queued[q] = 0;
    std::uint32_t last = Automaton::kNone;
    for (std::uint32_t c = 0; c < automaton.classes; ++c) {
      const std::uint32_t to = automaton.next[std::size_t{q} * automaton.classes + c];
      if (to == Automaton::kNone) continue;
      if (automaton.is_final[q] != 0 && follow[q].test(c)) return false;
      if (to == last) continue;
      last = to;
      if ((to & Automaton::kCallBit) == 0) {
        add(to, follow[q]);
        continue;
      }
      const Automaton::Call& call = automaton.calls[to & ~Automaton::kCallBit];
      add(call.after, follow[q]);
      // What the call returns to may end there and then.
      if (automaton.is_final[call.after] != 0) add(call.start, follow[q]);
    }
  }
  return true;
}

}  // namespace

Result<Automaton> determinize(const Nfa& nfa, std::span<const Rule> rules, std::uint32_t root,
                              std::string_view where, Work& work) {
  work.spend(nfa.size());
  if (work.stopped()) return fail(work.check(where).error());
  if (nfa.full()) {
    return fail(ErrorKind::kUnsupported, "{}: needs more than {} states", where, kMaxNfaStates);
  }
  auto out = Construction(nfa, rules, where, work).run(root);
  if (out && !ends_are_clear(*out, work)) {
    if (const Status enough = work.check(where); !enough) return fail(enough.error());
    return fail(ErrorKind::kUnsupported, "{}: where a nested value ends depends on what follows it",
                where);
  }
  return out;
}

}  // namespace dovetail::grammar
