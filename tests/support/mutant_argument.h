#pragma once

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/mutant.h"

namespace dovetail {

// Builds in the fault whose number is the program's first argument, and returns that; 0: no fault.
// Ends the program with 2 where the enum lists no such fault.
template <class Mutant>
int activate_mutant_argument(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  int number = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size() ||
      !activate_mutant<Mutant>(number)) {
    std::fprintf(stderr, "'%s' is no number of a fault; valid: 0 to %d\n", word.data(),
                 static_cast<int>(Mutant::kCount) - 1);
    std::exit(2);
  }
  return number;
}

}  // namespace dovetail
