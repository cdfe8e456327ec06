#include <gtest/gtest.h>

#include "model/mutation.h"
#include "support/mutant_argument.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  dovetail::activate_mutant_argument<dovetail::model::Mutant>(argc, argv);
  return RUN_ALL_TESTS();
}
