#include "grammar/token_masks.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <string_view>
#include <utility>

#include "grammar/mutation.h"
#include "grammar/walk.h"

namespace dovetail::grammar {
namespace {

constexpr std::uint32_t kNoLimit = std::numeric_limits<std::uint32_t>::max();

void set(std::span<std::uint64_t> mask, TokenId token) {
  const auto id = static_cast<std::size_t>(token);
  mask[id / 64] |= std::uint64_t{1} << (id % 64);
}

// Walks the trie from `from`, calling take(first, last) for runs of Vocabulary::sorted() that are
// allowed, and below(node) for subtrees whose byte belongs to a frame that is not known.
template <class Take, class Below>
void walk_trie(const Vocabulary& vocabulary, Walk& walk, const Place& from, const Take& take,
               const Below& below) {
  struct Level {
    Place place;
    std::size_t mark;
  };
  std::vector<Level> levels(vocabulary.longest() + 1);
  levels[0] = {from, walk.mark()};
  const auto nodes = vocabulary.nodes();
  for (std::size_t i = 0; i < nodes.size();) {
    const Vocabulary::Node& node = nodes[i];
    const Level& parent = levels[node.depth - 1U];
    walk.cut(parent.mark);
    Place place = parent.place;
    const Step step = walk.step(place, node.byte);
    if (step != Step::kOk) {
      if (step == Step::kBelow) below(i);
      i = node.past;
      continue;
    }
    const std::uint32_t first = node.first_token;
    const std::uint32_t last = vocabulary.first_token(i + 1);
    if (first != last && walk.can_rest(place)) take(first, last);
    levels[node.depth] = {place, walk.mark()};
    ++i;
  }
}

}  // namespace

struct TokenMasks::Entry {
  // What is left of a token where it runs beyond the frames known.
  struct Rest {
    std::uint32_t offset = 0;  // of the first byte left, in `text`
    std::uint16_t size = 0;
    std::uint16_t same = 0;  // leading bytes that the one before has, too
    TokenId token = 0;
  };
  std::vector<std::uint64_t> mask;  // empty: `few` instead
  std::vector<TokenId> few;
  std::vector<Rest> rests;  // by bytes
  std::string text;
  std::uint32_t high = 0;  // frames needed on top of those below, at most

  std::size_t bytes() const {
    return sizeof(Entry) + mask.size() * sizeof(mask[0]) + few.size() * sizeof(few[0]) +
           rests.size() * sizeof(rests[0]) + text.size();
  }
};

Result<std::shared_ptr<const TokenMasks>> TokenMasks::create(
    Grammar grammar, std::shared_ptr<const Vocabulary> vocabulary, std::size_t max_bytes,
    StopFlag stop) {
  for (const ControlToken& token : grammar.control_tokens()) {
    if (vocabulary->has(control_token(token.spelling))) continue;
    return fail(ErrorKind::kUnsupported,
                "{}: the vocabulary has no control token \"{}\" that does not end the output",
                token.where, token.spelling);
  }
  std::shared_ptr<const TokenMasks> out(
      new TokenMasks(std::move(grammar), std::move(vocabulary), max_bytes, stop));
  if (is_set(stop)) return fail(ErrorKind::kUnavailable, "the compilation was stopped");
  const std::uint32_t need = out->need_[out->automaton().start];
  if (need == Automaton::kNever) {
    return fail(
        ErrorKind::kUnsupported,
        "the vocabulary has no tokens for single bytes that every text of the grammar needs");
  }
  if (need > Grammar::kMaxDepth) {
    return fail(ErrorKind::kUnsupported, "every text of the grammar nests {} values; at most {}",
                need, Grammar::kMaxDepth);
  }
  return out;
}

TokenMasks::TokenMasks(Grammar grammar, std::shared_ptr<const Vocabulary> vocabulary,
                       std::size_t max_bytes, StopFlag stop)
    : grammar_(std::move(grammar)),
      vocabulary_(std::move(vocabulary)),
      follow_(256, false),
      max_bytes_(max_bytes),
      entries_(new std::atomic<const Entry*>[automaton().states()]()) {
  const Automaton& a = automaton();
  std::vector<bool> usable(a.classes, false);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (vocabulary_->has_byte(static_cast<std::uint8_t>(byte))) usable[a.class_of[byte]] = true;
  }
  need_ = frames_needed(a, usable, stop);
  // Control tokens come whole, even where their bytes are tokens.
  const std::vector<bool> inside = inside_control_tokens(a);
  for (std::size_t q = 0; q < a.states() && !mutated(Mutant::kControlBytes); ++q) {
    if (inside[q]) need_[q] = Automaton::kNever;
  }
  for (const Automaton::Call& call : a.calls) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if (a.at(call.after, static_cast<std::uint8_t>(byte)) != Automaton::kNone) {
        follow_[byte] = true;
      }
    }
  }
}

std::size_t TokenMasks::bytes() const {
  const Automaton& a = automaton();
  return sizeof(TokenMasks) + sizeof(Automaton) + kept_bytes() + a.next.size() * sizeof(a.next[0]) +
         a.calls.size() * sizeof(a.calls[0]) +
         a.states() * (sizeof(a.is_final[0]) + 2 * sizeof(a.need[0]) + sizeof(entries_[0]));
}

TokenMasks::~TokenMasks() {
  for (std::size_t q = 0; q < automaton().states(); ++q) delete entries_[q].load();
}

std::unique_ptr<TokenMasks::Entry> TokenMasks::find(std::uint32_t state) const {
  auto out = std::make_unique<Entry>();
  const auto sorted = vocabulary_->sorted();
  std::vector<std::pair<std::uint32_t, std::uint32_t>> runs;
  std::size_t count = 0;
  struct Beyond {
    std::string_view rest;
    TokenId token;
  };
  std::vector<Beyond> beyond;
  Walk walk(automaton(), need_, {}, kNoLimit);
  walk_trie(
      *vocabulary_, walk, walk.begin(state),
      [&](std::uint32_t first, std::uint32_t last) {
        if (!runs.empty() && runs.back().second == first) {
          runs.back().second = last;
        } else {
          runs.emplace_back(first, last);
        }
        count += last - first;
      },
      [&](std::size_t node) {
        const Vocabulary::Node& at = vocabulary_->nodes()[node];
        if (!follow_[at.byte]) return;
        for (std::uint32_t t = at.first_token; t < vocabulary_->first_token(at.past); ++t) {
          beyond.push_back({vocabulary_->bytes(sorted[t]).substr(at.depth - 1U), sorted[t]});
        }
      });
  out->high = walk.high();
  if (count * sizeof(TokenId) < vocabulary_->words() * sizeof(std::uint64_t)) {
    for (const auto& [first, last] : runs) {
      out->few.insert(out->few.end(), sorted.begin() + first, sorted.begin() + last);
    }
    std::sort(out->few.begin(), out->few.end());
  } else {
    out->mask.assign(vocabulary_->words(), 0);
    for (const auto& [first, last] : runs) {
      for (std::uint32_t t = first; t < last; ++t) set(out->mask, sorted[t]);
    }
  }
  std::stable_sort(beyond.begin(), beyond.end(),
                   [](const Beyond& a, const Beyond& b) { return a.rest < b.rest; });
  std::string_view before;
  for (const Beyond& token : beyond) {
    std::size_t same = 0;
    while (same < before.size() && same < token.rest.size() && before[same] == token.rest[same]) {
      ++same;
    }
    // Equal rests share their text.
    if (same < token.rest.size() || same < before.size() || out->rests.empty()) {
      out->text += token.rest;
    }
    out->rests.push_back({static_cast<std::uint32_t>(out->text.size() - token.rest.size()),
                          static_cast<std::uint16_t>(token.rest.size()),
                          static_cast<std::uint16_t>(same), token.token});
    before = token.rest;
  }
  out->rests.shrink_to_fit();
  out->few.shrink_to_fit();
  return out;
}

const TokenMasks::Entry& TokenMasks::entry(std::uint32_t state, std::unique_ptr<Entry>& own) const {
  std::atomic<const Entry*>& slot = entries_[state];
  if (const Entry* there = slot.load(std::memory_order_acquire)) return *there;
  own = find(state);
  const std::size_t bytes = own->bytes();
  if (kept_.fetch_add(bytes, std::memory_order_relaxed) + bytes > max_bytes_) {
    kept_.fetch_sub(bytes, std::memory_order_relaxed);
    return *own;
  }
  const Entry* expected = nullptr;
  if (slot.compare_exchange_strong(expected, own.get(), std::memory_order_acq_rel)) {
    return *own.release();
  }
  kept_.fetch_sub(bytes, std::memory_order_relaxed);
  return *expected;
}

void TokenMasks::prepare(std::size_t states, StopFlag stop) const {
  const Automaton& a = automaton();
  std::vector<bool> seen(a.states(), false);
  std::vector<std::uint32_t> queue;
  const auto go = [&](std::uint32_t q) {
    if (seen[q]) return;
    seen[q] = true;
    queue.push_back(q);
  };
  go(a.start);
  for (std::size_t i = 0; i < queue.size() && states > 0 && !is_set(stop); ++i) {
    const std::uint32_t q = queue[i];
    // Elsewhere no sequence comes to rest.
    if (need_[q] != Automaton::kNever) {
      std::unique_ptr<Entry> own;
      entry(q, own);
      if (own) return;  // no room
      --states;
    }
    for (std::uint32_t c = 0; c < a.classes; ++c) {
      const std::uint32_t to = a.next[std::size_t{q} * a.classes + c];
      if (to == Automaton::kNone) continue;
      if ((to & Automaton::kCallBit) == 0) {
        go(to);
      } else {
        go(a.calls[to & ~Automaton::kCallBit].start);
        go(a.calls[to & ~Automaton::kCallBit].after);
      }
    }
  }
}

void TokenMasks::find_with_stack(std::uint32_t state, std::span<const std::uint32_t> stack,
                                 std::span<std::uint64_t> mask) const {
  Walk walk(automaton(), need_, stack, Grammar::kMaxDepth);
  walk_trie(
      *vocabulary_, walk, walk.begin(state),
      [&](std::uint32_t first, std::uint32_t last) {
        for (std::uint32_t t = first; t < last; ++t) set(mask, vocabulary_->sorted()[t]);
      },
      [](std::size_t) {});
}

void TokenMasks::allowed(std::uint32_t state, std::span<const std::uint32_t> stack,
                         std::span<std::uint64_t> mask) const {
  assert(mask.size() == vocabulary_->words());
  std::unique_ptr<Entry> own;
  const Entry& known = entry(state, own);
  if (stack.size() + known.high > Grammar::kMaxDepth) {
    std::fill(mask.begin(), mask.end(), 0);
    find_with_stack(state, stack, mask);
    return;
  }
  if (known.mask.empty()) {
    std::fill(mask.begin(), mask.end(), 0);
    for (const TokenId token : known.few) set(mask, token);
  } else {
    std::copy(known.mask.begin(), known.mask.end(), mask.begin());
  }
  if (stack.empty() || known.rests.empty()) return;
  // The rests in order, each from where the value around this one goes on; levels[n] is where their
  // first n bytes led.
  Walk walk(automaton(), need_, stack, Grammar::kMaxDepth);
  struct Level {
    Place place;
    std::size_t mark;
  };
  std::vector<Level> levels(vocabulary_->longest() + 1);
  levels[0] = {mutated(Mutant::kRestsFromHere) ? walk.begin(state) : walk.below(), 0};
  std::size_t good = 0;  // bytes of the rest before that could be read
  bool rests = false;    // whether a token may end there
  for (const Entry::Rest& rest : known.rests) {
    if (rest.same > good || (mutated(Mutant::kSkipRests) && rest.same > 0))
      continue;  // the byte that failed is in this one, too
    if (rest.same == good && rest.same == rest.size && good != 0) {
      if (rests) set(mask, rest.token);
      continue;
    }
    good = rest.same;
    const char* text = known.text.data() + rest.offset;
    while (good < rest.size) {
      walk.cut(levels[good].mark);
      Place place = levels[good].place;
      if (walk.step(place, static_cast<std::uint8_t>(text[good])) != Step::kOk) break;
      levels[++good] = {place, walk.mark()};
    }
    rests = good == rest.size && walk.can_rest(levels[good].place);
    if (rests) set(mask, rest.token);
  }
}

}  // namespace dovetail::grammar
