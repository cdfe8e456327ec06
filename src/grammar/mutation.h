#pragma once

namespace dovetail::grammar {

// Ways to break grammars on purpose, to see that tests notice. A build with the compile definition
// DOVETAIL_GRAMMAR_MUTANT=N has the N-th; the product has none of them, and pays nothing.
enum class Mutant {
  kNone,
  kRestsFromHere,        // what runs beyond a value is read inside of it
  kEndInside,            // the text may end where a value inside of it may
  kOpenTooMuch,          // values are opened beyond what can be closed
  kRestAnywhere,         // tokens lead to places that no token leads on from
  kSkipRests,            // of tokens that run beyond a value, those that begin alike count once
  kBoundsIncluded,       // exclusive bounds of numbers are taken for inclusive ones
  kAdditionalLikeNamed,  // members that a schema does not name may have the names that it does
  kCount
};

#ifdef DOVETAIL_GRAMMAR_MUTANT
inline constexpr Mutant kMutant = static_cast<Mutant>(DOVETAIL_GRAMMAR_MUTANT);
#else
inline constexpr Mutant kMutant = Mutant::kNone;
#endif

constexpr bool mutated(Mutant mutant) { return kMutant == mutant; }

}  // namespace dovetail::grammar
