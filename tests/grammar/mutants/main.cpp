#include "grammar/mutation.h"
#include "support/mutant_tests.h"

int main(int argc, char** argv) {
  return dovetail::run_mutant_tests<dovetail::grammar::Mutant>(argc, argv);
}
