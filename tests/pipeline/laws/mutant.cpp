// All of Run with a fault of mutation.h, compiled as one; what it uses of the rest has no faults.
// NOLINTBEGIN(bugprone-suspicious-include)
#include "pipeline/run/run_cells.cpp"
#include "pipeline/run/run_models.cpp"
#include "pipeline/run/run_records.cpp"
#include "pipeline/run/runner.cpp"
// NOLINTEND(bugprone-suspicious-include)
