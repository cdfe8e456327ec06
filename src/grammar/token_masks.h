#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/grammar.h"
#include "grammar/vocabulary.h"

namespace dovetail::grammar {

// The tokens allowed in every state of a grammar's automaton, found once per state and kept: those
// decided by the state alone as a mask or a list, those that run beyond the frames that the state
// knows of by what is left of them then (after XGrammar, arXiv 2411.15100). Shared by all sequences
// with this grammar and vocabulary, from any thread.
class TokenMasks {
 public:
  // What the masks kept may take; beyond it, they are found anew each time.
  static constexpr std::size_t kDefaultBytes = std::size_t{256} << 20U;

  // An error if no text of the grammar can be spelled: a token of a single byte counts as usable
  // for every place, and from each place that a token may lead to, single bytes can end the text.
  // So a vocabulary should have all 256 of them; without, texts that need others are not offered.
  // A control token of the grammar that the vocabulary lacks is an error that names it.
  // Once `stop` is set, the outcome is of no use.
  static Result<std::shared_ptr<const TokenMasks>> create(
      Grammar grammar, std::shared_ptr<const Vocabulary> vocabulary,
      std::size_t max_bytes = kDefaultBytes, StopFlag stop = nullptr);
  ~TokenMasks();
  TokenMasks(const TokenMasks&) = delete;
  TokenMasks& operator=(const TokenMasks&) = delete;

  // Finds and keeps the masks of up to `states` states, nearest the start first, so that no step
  // has to. Takes milliseconds for each state inside of a string; ends early once `stop` is set.
  void prepare(std::size_t states, StopFlag stop = nullptr) const;

  // Sets exactly the bits of the tokens allowed with this state and stack. mask: words() long.
  void allowed(std::uint32_t state, std::span<const std::uint32_t> stack,
               std::span<std::uint64_t> mask) const;

  const Automaton& automaton() const { return grammar_.automaton(); }
  std::span<const std::string> left_out() const { return grammar_.left_out(); }
  const Vocabulary& vocabulary() const { return *vocabulary_; }
  std::shared_ptr<const Vocabulary> share_vocabulary() const { return vocabulary_; }
  // Automaton::need by the bytes that are tokens, and the control tokens; kNever inside of these.
  std::span<const std::uint32_t> need() const { return need_; }
  std::size_t kept_bytes() const { return kept_.load(std::memory_order_relaxed); }
  // All memory but the vocabulary's.
  std::size_t bytes() const;

 private:
  struct Entry;
  TokenMasks(Grammar grammar, std::shared_ptr<const Vocabulary> vocabulary, std::size_t max_bytes,
             StopFlag stop);

  std::unique_ptr<Entry> find(std::uint32_t state) const;
  // The entry of a state; `own` holds it where it is not kept.
  const Entry& entry(std::uint32_t state, std::unique_ptr<Entry>& own) const;
  void find_with_stack(std::uint32_t state, std::span<const std::uint32_t> stack,
                       std::span<std::uint64_t> mask) const;

  Grammar grammar_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<std::uint32_t> need_;
  std::vector<bool> follow_;  // by byte: what some return state can read
  std::size_t max_bytes_;
  mutable std::atomic<std::size_t> kept_{0};
  std::unique_ptr<std::atomic<const Entry*>[]> entries_;
};

}  // namespace dovetail::grammar
