#include "kernels/amx/amx.h"
#include "kernels/avx2/avx2.h"
#include "kernels/avx512/avx512.h"

// The tables of sets that differ from a base in their products alone.
namespace dovetail::kernels {
namespace {

// As kBase, but for block types.
template <const Kernels* kBase, auto kActivationBytes, auto kPrepare, auto kMatmul>
struct WithBlocks {
  static std::size_t activation_bytes(DataType weights, std::size_t k) {
    return is_float(weights) ? kBase->activation_bytes(weights, k) : kActivationBytes(weights, k);
  }
  static void prepare(DataType weights, const float* x, std::size_t k, std::byte* out) {
    is_float(weights) ? kBase->prepare(weights, x, k, out) : kPrepare(weights, x, k, out);
  }
  static void matmul(const MatmulArgs& args) {
    is_float(args.type) ? kBase->matmul(args) : kMatmul(args);
  }
};

// As Base, but for BF16.
template <class Base>
struct WithBf16 {
  static std::size_t activation_bytes(DataType weights, std::size_t k) {
    return weights == DataType::kBF16 ? avx512::bf16::activation_bytes(k)
                                      : Base::activation_bytes(weights, k);
  }
  static void prepare(DataType weights, const float* x, std::size_t k, std::byte* out) {
    weights == DataType::kBF16 ? avx512::bf16::prepare(x, k, out)
                               : Base::prepare(weights, x, k, out);
  }
  static void matmul(const MatmulArgs& args) {
    args.type == DataType::kBF16 ? avx512::bf16::matmul(args) : Base::matmul(args);
  }
};

template <class Products>
Kernels with_products(const Kernels& base, std::string_view name) {
  Kernels k = base;
  k.name = name;
  k.activation_bytes = Products::activation_bytes;
  k.prepare = Products::prepare;
  k.matmul = Products::matmul;
  return k;
}

using Avx2Vnni = WithBlocks<&avx2::kKernels, avx2::vnni::activation_bytes, avx2::vnni::prepare,
                            avx2::vnni::matmul>;
using Avx512Vnni = WithBlocks<&avx512::kBase, avx512::vnni::activation_bytes, avx512::vnni::prepare,
                              avx512::vnni::matmul>;
using Amx =
    WithBlocks<&avx512::kBase, avx512::vnni::activation_bytes, avx512::vnni::prepare, amx::matmul>;

}  // namespace

const Kernels& avx2::vnni_kernels() {
  static const Kernels kernels = with_products<Avx2Vnni>(kKernels, "avx2_vnni");
  return kernels;
}

const Kernels& avx512::vnni_kernels() {
  static const Kernels kernels = with_products<Avx512Vnni>(kBase, "avx512_vnni");
  return kernels;
}

const Kernels& avx512::bf16_kernels() {
  static const Kernels kernels = [] {
    Kernels k = with_products<WithBf16<Avx512Vnni>>(kBase, "avx512_bf16");
    k.rounds_bf16 = true;
    return k;
  }();
  return kernels;
}

const Kernels& amx::kernels() {
  static const Kernels kernels = with_products<Amx>(avx512::kBase, "amx");
  return kernels;
}

}  // namespace dovetail::kernels
