#include "kernels/candidates.h"

#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernels/amx/amx.h"
#include "kernels/avx2/avx2.h"
#include "kernels/avx512/avx512.h"

namespace dovetail::kernels {
namespace {

// __builtin_cpu_supports also asks whether the operating system saves the registers. Not every
// compiler's knows what is asked for here; F16C and AVX-VNNI need no registers beyond AVX's.
struct Leaf {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Leaf leaf(unsigned number, unsigned part = 0) {
  Leaf leaf;
  __get_cpuid_count(number, part, &leaf.a, &leaf.b, &leaf.c, &leaf.d);
  return leaf;
}

bool has_f16c() { return (leaf(1).c & bit_F16C) != 0; }

bool has_avx_vnni() { return leaf(7).a >= 1 && (leaf(7, 1).a & (1U << 4)) != 0; }

// Whether the CPU has tiles of bytes, and the system lets this process use them: Linux wants to be
// asked (https://docs.kernel.org/arch/x86/xstate.html), and refuses where it does not save them.
bool may_use_amx() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr unsigned kTiles = 1U << 24, kBytes = 1U << 25;
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  return (leaf(7).d & kTiles) != 0 && (leaf(7).d & kBytes) != 0 &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

std::vector<const Kernels*> candidates() {
  std::vector<const Kernels*> found;
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  if (!avx2) return found;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  const bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
  if (vnni && may_use_amx()) found.push_back(&amx::kernels());
  if (vnni && __builtin_cpu_supports("avx512bf16")) found.push_back(&avx512::bf16_kernels());
  if (vnni) found.push_back(&avx512::vnni_kernels());
  if (avx512) found.push_back(&avx512::kBase);
  if (has_avx_vnni()) found.push_back(&avx2::vnni_kernels());
  found.push_back(&avx2::kKernels);
  return found;
}

}  // namespace dovetail::kernels
