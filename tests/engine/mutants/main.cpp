#include <gtest/gtest.h>

#include "engine/mutation.h"
#include "support/mutant_argument.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // A fault is seen as soon as one test sees it.
  if (dovetail::activate_mutant_argument<dovetail::engine::Mutant>(argc, argv) != 0) {
    GTEST_FLAG_SET(fail_fast, true);
  }
  return RUN_ALL_TESTS();
}
