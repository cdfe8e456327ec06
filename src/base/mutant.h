#pragma once

namespace dovetail {

// Faults that tests build in on purpose, to see that their checkers notice them. A room lists its
// faults as an enum (its mutation.h) with kNone first and kCount last, and asks
// `mutated(Mutant::kFault)` where the fault would be. A build of the room with DOVETAIL_MUTANTS
// (the target dovetail_<room>_mutants, for tests alone) reads a variable there; in the product the
// question is a constant and costs nothing.
#ifdef DOVETAIL_MUTANTS

template <class Mutant>
inline Mutant active_mutant = Mutant::kNone;

template <class Mutant>
bool mutated(Mutant mutant) {
  return active_mutant<Mutant> == mutant;
}

// Builds in the fault of this number; false: there is no such fault. Before anything else runs: the
// variable is read by all threads without a lock.
template <class Mutant>
bool activate_mutant(int number) {
  if (number < 0 || number >= static_cast<int>(Mutant::kCount)) return false;
  active_mutant<Mutant> = static_cast<Mutant>(number);
  return true;
}

#else

template <class Mutant>
constexpr bool mutated(Mutant) {
  return false;
}

#endif

}  // namespace dovetail
