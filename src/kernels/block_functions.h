#pragma once

#include <cstddef>

#include "kernels/data_type.h"
#include "kernels/kernels.h"

// Declares what an instruction set's namespace has for block types; see Kernels. Its translation
// unit defines them by vector/products.h.
#define DOVETAIL_BLOCK_FUNCTIONS                                                      \
  std::size_t activation_bytes(DataType type, std::size_t k);                         \
  void prepare(DataType type, const float* x, std::size_t k, std::byte* out);         \
  void matmul(const MatmulArgs& args);                                                \
  std::size_t panel_bytes(DataType type, std::size_t k);                              \
  void pack(DataType type, const std::byte* weights, std::size_t rows, std::size_t k, \
            std::byte* out);

#define DOVETAIL_DEFINE_BLOCK_FUNCTIONS                                                        \
  std::size_t activation_bytes(DataType type, std::size_t k) {                                 \
    return block_activation_bytes(type, k);                                                    \
  }                                                                                            \
  void prepare(DataType type, const float* x, std::size_t k, std::byte* out) {                 \
    block_prepare(type, x, k, out);                                                            \
  }                                                                                            \
  void matmul(const MatmulArgs& args) { block_matmul(args); }                                  \
  std::size_t panel_bytes(DataType type, std::size_t k) { return block_panel_bytes(type, k); } \
  void pack(DataType type, const std::byte* weights, std::size_t rows, std::size_t k,          \
            std::byte* out) {                                                                  \
    block_pack(type, weights, rows, k, out);                                                   \
  }
