#pragma once

#include "base/mutant.h"

namespace dovetail::grammar {

// Faults of grammars that tests build in (base/mutant.h).
enum class Mutant {
  kNone,
  kRestsFromHere,        // what runs beyond a value is read inside of it
  kEndInside,            // the text may end where a value inside of it may
  kOpenTooMuch,          // values are opened beyond what can be closed
  kRestAnywhere,         // tokens lead to places that no token leads on from
  kSkipRests,            // of tokens that run beyond a value, those that begin alike count once
  kBoundsIncluded,       // exclusive bounds of numbers are taken for inclusive ones
  kAdditionalLikeNamed,  // members that a schema does not name may have the names that it does
  kControlBytes,         // control tokens are spelled byte by byte
  kFreeHoldsMarks,       // free text may hold its marks
  kDivisorsLeft,         // numbers need not be multiples of what "multipleOf" says
  kBoundariesLeft,       // \b and \B hold everywhere
  kCount
};

}  // namespace dovetail::grammar
