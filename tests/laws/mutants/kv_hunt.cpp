// dovetail_kv_hunt N: looks for the N-th fault of src/kv/mutation.h.

#include "kv/mutation.h"
#include "laws/mutants/hunt.h"

int main(int argc, char** argv) { return dovetail::laws::hunt<dovetail::kv::Mutant>(argc, argv); }
