#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dovetail::kernels {

// One kind of multiply-and-add, as fast as an instruction set does it: operands stay in registers,
// and there are as many sums as it takes to keep the units busy.
struct RooflineLoop {
  std::uint64_t products = 0;  // of a round
  // Multiplies and adds for so many rounds. Gives what depends on all products; of no other use.
  double (*run)(std::uint64_t rounds) = nullptr;  // null: the instruction set has none of the kind
};

// What the products of a set of Kernels are measured against.
struct Roofline {
  RooflineLoop bytes;   // 8-bit whole numbers, summed in 32 bits: block types
  RooflineLoop bf16;    // BF16 on both sides, summed in floats
  RooflineLoop floats;  // F32
};

// That of the kernels with this name, which this CPU must run.
Roofline roofline_of(std::string_view kernels);

// Reads memory and does next to nothing with it: `bytes` at a multiple of 64, in whole 64s.
std::uint64_t read_memory(const std::byte* memory, std::size_t bytes);

}  // namespace dovetail::kernels
