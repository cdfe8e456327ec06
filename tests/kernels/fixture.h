#pragma once

#include <gtest/gtest.h>

#include <array>
#include <new>
#include <string>

#include "kernels/kernels.h"

namespace dovetail::kernels {

#define DOVETAIL_TYPE(name) DataType::k##name,
inline constexpr auto kAllTypes = std::to_array<DataType>({DOVETAIL_WEIGHT_TYPES(DOVETAIL_TYPE)});
#undef DOVETAIL_TYPE

inline void PrintTo(const Kernels* kernels, std::ostream* out) { *out << kernels->name; }

// Rows of activations as matmul wants them: prepared, 64-byte aligned.
class Prepared {
 public:
  Prepared(const Kernels& kernels, DataType type, const float* x, std::size_t m, std::size_t k)
      : stride(kernels.activation_bytes(type, k)),
        data(static_cast<std::byte*>(::operator new(m* stride + 1, std::align_val_t(64)))) {
    for (std::size_t i = 0; i < m; ++i) kernels.prepare(type, x + i * k, k, data + i * stride);
  }
  ~Prepared() { ::operator delete(data, std::align_val_t(64)); }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  std::size_t stride;
  std::byte* data;
};

// Every test of this kind runs once per instruction set of this machine.
class EachKernels : public ::testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& kernels() const { return *GetParam(); }
};

inline std::string kernels_name(const ::testing::TestParamInfo<const Kernels*>& info) {
  return std::string(info.param->name);
}

}  // namespace dovetail::kernels
