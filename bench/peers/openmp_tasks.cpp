// Empty tasks on the compiler's OpenMP with two threads; dependencies by `depend`. Usage:
// openmp_tasks [WORKLOAD]

#include <omp.h>

#include "workloads.h"

namespace dovetail::bench {
namespace {

// What a compiler that sees through an empty task does not leave out.
void nothing() { asm volatile("" ::: "memory"); }

void run(int argc, char** argv) {
  omp_set_num_threads(2);
  static char memory[8 * kTasks];
  measure(argc, argv, "independent", [] {
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < kTasks; ++i) {
#pragma omp task
      nothing();
    }
  });
  measure(argc, argv, "chains", [] {
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < kTasks; ++i) {
      char* value = memory + i / kChain;
#pragma omp task depend(inout : value[0])
      nothing();
    }
  });
  measure(argc, argv, "attention", [] {
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < kTasks / 4; ++i) {
      char* block = memory + 8 * i;
      char* row = memory + 8 * (i / kBlocksPerRow);
#pragma omp task depend(in : row[0], block[1]) depend(out : block[3])
      nothing();
#pragma omp task depend(in : block[3]) depend(out : block[4])
      nothing();
#pragma omp task depend(in : block[4], block[2]) depend(out : block[5])
      nothing();
#pragma omp task depend(in : block[5]) depend(inout : row[6])
      nothing();
    }
  });
}

}  // namespace
}  // namespace dovetail::bench

int main(int argc, char** argv) { dovetail::bench::run(argc, argv); }
