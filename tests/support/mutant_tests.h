#pragma once

#include <gtest/gtest.h>

#include "support/mutant_argument.h"

namespace dovetail {

// What main() returns of a program of tests whose first argument is the number of a fault to build
// in. A fault is seen as soon as one test sees it.
template <class Mutant>
int run_mutant_tests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (activate_mutant_argument<Mutant>(argc, argv) != 0) GTEST_FLAG_SET(fail_fast, true);
  return RUN_ALL_TESTS();
}

}  // namespace dovetail
