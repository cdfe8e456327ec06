#include "kernels/candidates.h"

#include <cpuid.h>

#include "kernels/avx2/avx2.h"
#include "kernels/avx512/avx512.h"

namespace dovetail::kernels {
namespace {

// __builtin_cpu_supports also asks whether the operating system saves the registers. It does not
// know F16C in every compiler; that needs no registers beyond AVX's.
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

}  // namespace

std::vector<const Kernels*> candidates() {
  std::vector<const Kernels*> found;
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  if (!avx2) return found;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  const bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
  if (vnni && __builtin_cpu_supports("avx512bf16")) found.push_back(&avx512::bf16_kernels());
  if (vnni) found.push_back(&avx512::vnni_kernels());
  if (avx512) found.push_back(&avx512::kBase);
  found.push_back(&avx2::kKernels);
  return found;
}

}  // namespace dovetail::kernels
