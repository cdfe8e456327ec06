#include "kernels/avx512/avx512.h"

// The tables of the later steps: the base, with what the step brings in front.
namespace dovetail::kernels::avx512 {
namespace {

std::size_t vnni_activation_bytes(DataType weights, std::size_t k) {
  return is_float(weights) ? kBase.activation_bytes(weights, k)
                           : vnni::activation_bytes(weights, k);
}

void vnni_prepare(DataType weights, const float* x, std::size_t k, std::byte* out) {
  is_float(weights) ? kBase.prepare(weights, x, k, out) : vnni::prepare(weights, x, k, out);
}

void vnni_matmul(const MatmulArgs& args) {
  is_float(args.type) ? kBase.matmul(args) : vnni::matmul(args);
}

std::size_t bf16_activation_bytes(DataType weights, std::size_t k) {
  return weights == DataType::kBF16 ? bf16::activation_bytes(k) : vnni_activation_bytes(weights, k);
}

void bf16_prepare(DataType weights, const float* x, std::size_t k, std::byte* out) {
  weights == DataType::kBF16 ? bf16::prepare(x, k, out) : vnni_prepare(weights, x, k, out);
}

void bf16_matmul(const MatmulArgs& args) {
  args.type == DataType::kBF16 ? bf16::matmul(args) : vnni_matmul(args);
}
}  // namespace

const Kernels& vnni_kernels() {
  static const Kernels kernels = [] {
    Kernels k = kBase;
    k.name = "avx512_vnni";
    k.activation_bytes = vnni_activation_bytes;
    k.prepare = vnni_prepare;
    k.matmul = vnni_matmul;
    k.panel_bytes = vnni::panel_bytes;
    k.pack = vnni::pack;
    return k;
  }();
  return kernels;
}

const Kernels& bf16_kernels() {
  static const Kernels kernels = [] {
    Kernels k = kBase;
    k.name = "avx512_bf16";
    k.activation_bytes = bf16_activation_bytes;
    k.prepare = bf16_prepare;
    k.matmul = bf16_matmul;
    k.panel_bytes = vnni::panel_bytes;
    k.pack = vnni::pack;
    return k;
  }();
  return kernels;
}

}  // namespace dovetail::kernels::avx512
