// dovetail_schedule_hunt N: looks for the N-th fault of src/schedule/mutation.h.

#include "laws/mutants/hunt.h"
#include "schedule/mutation.h"

int main(int argc, char** argv) {
  return dovetail::laws::hunt<dovetail::schedule::Mutant>(argc, argv);
}
