#include "grammar/automaton.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace dovetail::grammar {
namespace {

// The states of the product; the second automaton may be in no state at all (kNone).
Result<Automaton> product(const Automaton& a, const Automaton& b, bool negate_b,
                          std::string_view where, Work& work) {
  Automaton out;
  std::map<std::pair<std::uint8_t, std::uint8_t>, std::uint8_t> classes;
  std::vector<std::uint8_t> example;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const auto [at, fresh] = classes.try_emplace({a.class_of[byte], b.class_of[byte]},
                                                 static_cast<std::uint8_t>(classes.size()));
    if (fresh) example.push_back(static_cast<std::uint8_t>(byte));
    out.class_of[byte] = at->second;
  }
  out.classes = static_cast<std::uint32_t>(example.size());
  std::unordered_map<std::uint64_t, std::uint32_t> ids;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> states;
  const auto id_of = [&](std::uint32_t qa, std::uint32_t qb) {
    const auto [at, fresh] =
        ids.try_emplace((std::uint64_t{qa} << 32U) | qb, static_cast<std::uint32_t>(states.size()));
    if (fresh) states.emplace_back(qa, qb);
    return at->second;
  };
  out.start = id_of(a.start, b.start);
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (states.size() > kMaxStates || states.size() * out.classes > kMaxTableEntries) {
      return fail(ErrorKind::kUnsupported, "{}: needs more than {} states", where,
                  std::min(kMaxStates, kMaxTableEntries / out.classes));
    }
    work.spend(out.classes);
    if (const Status enough = work.check(where); !enough) return fail(enough.error());
    const auto [qa, qb] = states[i];
    const bool in_b = qb != Automaton::kNone && b.is_final[qb] != 0;
    out.is_final.push_back(a.is_final[qa] != 0 && in_b != negate_b ? 1 : 0);
    for (const std::uint8_t byte : example) {
      const std::uint32_t ta = a.at(qa, byte);
      const std::uint32_t tb = qb == Automaton::kNone ? Automaton::kNone : b.at(qb, byte);
      const bool gone = ta == Automaton::kNone || (tb == Automaton::kNone && !negate_b);
      out.next.push_back(gone ? Automaton::kNone : id_of(ta, tb));
    }
  }
  prune(out, work.stop());
  if (work.stopped()) return fail(work.check(where).error());
  return out;
}

}  // namespace

std::vector<bool> inside_control_tokens(const Automaton& automaton) {
  std::vector<bool> inside(automaton.states(), false);
  std::vector<std::uint32_t> queue;
  const auto go = [&](std::uint32_t to) {
    if (to == Automaton::kNone || inside[to]) return;
    inside[to] = true;
    queue.push_back(to);
  };
  const auto read = [&](std::uint32_t from, std::size_t byte) {
    const std::uint32_t to = automaton.at(from, static_cast<std::uint8_t>(byte));
    // A call reads the byte in the rule that it leads to.
    return to != Automaton::kNone && (to & Automaton::kCallBit) != 0 ? Automaton::kNone : to;
  };
  for (std::uint32_t q = 0; q < automaton.states(); ++q) go(read(q, kControlBegin));
  while (!queue.empty()) {
    const std::uint32_t q = queue.back();
    queue.pop_back();
    for (std::size_t byte = 0; byte < kControlEnd; ++byte) go(read(q, byte));
  }
  return inside;
}

std::vector<std::uint32_t> frames_needed(const Automaton& automaton,
                                         const std::vector<bool>& usable, StopFlag stop) {
  const std::size_t states = automaton.states();
  const std::vector<bool> inside = inside_control_tokens(automaton);
  const std::uint32_t control = automaton.class_of[kControlBegin];
  // Edges backwards, flat: those by byte, and those by call with the call's number.
  struct Back {
    std::uint32_t from;
    std::uint32_t call;
  };
  std::vector<std::uint32_t> count(states + 1, 0);
  std::vector<Back> back;
  for (const bool filling : {false, true}) {
    for (std::uint32_t q = 0; q < states && !is_set(stop); ++q) {
      std::uint32_t last = Automaton::kNone;
      for (std::uint32_t c = 0; c < automaton.classes; ++c) {
        const std::uint32_t to = automaton.next[std::size_t{q} * automaton.classes + c];
        if (to == Automaton::kNone || to == last) continue;
        const bool by_call = (to & Automaton::kCallBit) != 0;
        // What a call reads first is its start's affair.
        if (!by_call && !usable[c] && !inside[q] && c != control) continue;
        last = to;
        const std::uint32_t call = by_call ? to & ~Automaton::kCallBit : Automaton::kNone;
        const std::uint32_t target = by_call ? automaton.calls[call].after : to;
        if (filling) {
          back[--count[target]] = {q, call};
        } else {
          ++count[target];
        }
      }
    }
    if (filling) break;
    for (std::size_t q = 1; q <= states; ++q) count[q] += count[q - 1];
    back.resize(count[states]);
  }
  std::vector<std::uint32_t> need(states, Automaton::kNever);
  if (is_set(stop)) return need;  // `back` may be incomplete
  std::vector<std::uint32_t> ready;
  for (std::uint32_t q = 0; q < states; ++q) {
    if (automaton.is_final[q] != 0) ready.push_back(q);
  }
  // Level by level: with `level` frames more, calls can be used whose start needs one less.
  for (std::uint32_t level = 0; !ready.empty() && level <= Automaton::kMaxFrames && !is_set(stop);
       ++level) {
    for (const std::uint32_t q : ready) need[q] = level;
    while (!ready.empty()) {
      const std::uint32_t q = ready.back();
      ready.pop_back();
      for (std::uint32_t e = count[q]; e < count[q + 1]; ++e) {
        const Back& edge = back[e];
        if (need[edge.from] != Automaton::kNever) continue;
        if (edge.call != Automaton::kNone && need[automaton.calls[edge.call].start] >= level) {
          continue;
        }
        need[edge.from] = level;
        ready.push_back(edge.from);
      }
    }
    for (std::uint32_t q = 0; q < states; ++q) {
      if (need[q] == Automaton::kNever) continue;
      for (std::uint32_t e = count[q]; e < count[q + 1]; ++e) {
        const Back& edge = back[e];
        if (need[edge.from] == Automaton::kNever && edge.call != Automaton::kNone &&
            need[automaton.calls[edge.call].start] <= level) {
          ready.push_back(edge.from);
        }
      }
    }
  }
  return need;
}

void prune(Automaton& automaton, StopFlag stop) {
  automaton.need = frames_needed(automaton, std::vector<bool>(automaton.classes, true), stop);
  const auto lost = [&](std::uint32_t to) {
    if (to == Automaton::kNone) return false;
    if ((to & Automaton::kCallBit) == 0) return automaton.need[to] == Automaton::kNever;
    const Automaton::Call& call = automaton.calls[to & ~Automaton::kCallBit];
    return automaton.need[call.start] == Automaton::kNever ||
           automaton.need[call.after] == Automaton::kNever;
  };
  for (std::uint32_t& to : automaton.next) {
    if (lost(to)) to = Automaton::kNone;
  }
}

Result<Automaton> intersection(const Automaton& a, const Automaton& b, std::string_view where,
                               Work& work) {
  return product(a, b, false, where, work);
}

Result<Automaton> difference(const Automaton& a, const Automaton& b, std::string_view where,
                             Work& work) {
  return product(a, b, true, where, work);
}

bool matches(const Automaton& automaton, std::string_view text) {
  std::uint32_t state = automaton.start;
  for (const char c : text) {
    state = automaton.at(state, static_cast<std::uint8_t>(c));
    if (state == Automaton::kNone) return false;
  }
  return automaton.is_final[state] != 0;
}

}  // namespace dovetail::grammar
