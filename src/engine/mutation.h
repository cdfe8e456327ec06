#pragma once

namespace dovetail::engine {

// Ways to break the engine on purpose, to see that tests notice. A build with the compile
// definition DOVETAIL_ENGINE_MUTANT=N has the N-th; the product has none of them, and pays nothing.
enum class Mutant {
  kNone,
  kBelieveGuesses,  // what follows a guess is taken whether the guess was right or not
  kOneDrawPerStep,  // all tokens of a step are drawn with the same random number
  kReadPastTheEnd,  // tokens after the end token are taken if they were guessed
  kPlaceholder,     // planned ahead, a row computes a placeholder instead of the real last token
  kEarlierGuesses,  // the guesses that are computed are not those that are compared
  kCount
};

#ifdef DOVETAIL_ENGINE_MUTANT
inline constexpr Mutant kMutant = static_cast<Mutant>(DOVETAIL_ENGINE_MUTANT);
#else
inline constexpr Mutant kMutant = Mutant::kNone;
#endif

constexpr bool mutated(Mutant mutant) { return kMutant == mutant; }

}  // namespace dovetail::engine
