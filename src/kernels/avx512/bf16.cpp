#include <cstring>

#include "kernels/avx512/avx512.h"
#include "kernels/avx512/vec.h"
#include "kernels/vector/float_matmul.h"

namespace dovetail::kernels::avx512::bf16 {
namespace {

// Both sides in BF16: 32 elements at a time, pairs summed in the lane.
struct WeightPairs {
  using Operand = __m512i;
  static constexpr std::size_t kStep = 32, kWeightBytes = 2, kActivationBytes = 2, kBlock = 0;
  static Operand weight(const std::byte* p) { return _mm512_loadu_si512(p); }
  static Operand weight_n(const std::byte* p, std::size_t n) {
    return _mm512_maskz_loadu_epi16((std::uint32_t{1} << n) - 1, p);
  }
  static Operand activation(const std::byte* p) { return weight(p); }
  static Operand activation_n(const std::byte* p, std::size_t n) { return weight_n(p, n); }
  static Operand hold(Operand x) { return x; }
  static __m512 multiply_add(Operand x, Operand w, __m512 sum) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(w));
  }
};

}  // namespace

std::size_t activation_bytes(std::size_t k) { return (2 * k + 63) / 64 * 64; }

void prepare(const float* x, std::size_t k, std::byte* out) {
  for (std::size_t i = 0; i < k; i += 16) {
    const std::size_t n = k - i < 16 ? k - i : 16;
    const auto rounded = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(Vec::load_n(x + i, n)));
    _mm256_mask_storeu_epi16(out + 2 * i, Vec::mask(n), rounded);
  }
}

void matmul(const MatmulArgs& args) { float_matmul<WeightPairs>(args); }

}  // namespace dovetail::kernels::avx512::bf16
