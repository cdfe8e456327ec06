#include <gtest/gtest.h>

#include "grammar/mutation.h"
#include "support/mutant_argument.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  dovetail::activate_mutant_argument<dovetail::grammar::Mutant>(argc, argv);
  return RUN_ALL_TESTS();
}
