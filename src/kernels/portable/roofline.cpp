#include "kernels/portable/roofline.h"

#include <cstring>

namespace dovetail::kernels {
namespace {

constexpr int kByteSums = 32;
constexpr int kFloatRows = 2, kFloatColumns = 4;

// The compilers' vectors, as in portable/vec.h: what the portable products are made of.
using Floats = float __attribute__((vector_size(16)));
using Words = std::uint64_t __attribute__((vector_size(16)));

// What an array holds is unknown from here on, so that no product may be taken out of a loop.
void change(const void* array) { asm volatile("" : : "r"(array) : "memory"); }

double byte_loop(std::uint64_t rounds) {
  alignas(64) std::int8_t x[kByteSums], y[kByteSums];
  std::memset(x, 3, sizeof x);
  std::memset(y, 5, sizeof y);
  std::uint32_t sums[kByteSums] = {};  // without a sign: they may wrap around
  change(y);
  for (; rounds > 0; --rounds) {
    change(x);
    for (int i = 0; i < kByteSums; ++i) sums[i] += static_cast<std::uint32_t>(x[i] * y[i]);
  }
  double all = 0.0;
  for (const std::uint32_t sum : sums) all += sum;
  return all;
}

double float_loop(std::uint64_t rounds) {
  Floats rows[kFloatRows], columns[kFloatColumns];
  for (int i = 0; i < kFloatRows; ++i) rows[i] = Floats{0.25F, 0.5F, 0.75F, 1.0F};
  for (int i = 0; i < kFloatColumns; ++i) columns[i] = rows[0] * static_cast<float>(i);
  // All loops over it are unrolled, so that it is registers.
  Floats sums[kFloatRows * kFloatColumns];
#pragma GCC unroll 8
  for (int i = 0; i < kFloatRows * kFloatColumns; ++i) sums[i] = Floats{};
  for (; rounds > 0; --rounds) {
    change(rows);
#pragma GCC unroll 2
    for (int row = 0; row < kFloatRows; ++row) {
#pragma GCC unroll 4
      for (int column = 0; column < kFloatColumns; ++column)
        sums[row * kFloatColumns + column] += rows[row] * columns[column];
    }
  }
#pragma GCC unroll 8
  for (int i = 1; i < kFloatRows * kFloatColumns; ++i) sums[0] += sums[i];
  return static_cast<double>(sums[0][0] + sums[0][1] + sums[0][2] + sums[0][3]);
}

}  // namespace

Roofline portable::roofline() {
  return {{kByteSums, byte_loop}, {}, {kFloatRows * kFloatColumns * 4, float_loop}};
}

// Memory is slower than the narrowest loads there are: all instruction sets read it like this.
std::uint64_t read_memory(const std::byte* memory, std::size_t bytes) {
  Words sums[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) sums[i] = Words{};
  // The CPU's own prefetchers stop at the ends of pages.
  constexpr std::size_t kAhead = 16 * 1024;
  for (std::size_t at = 0; at < bytes; at += sizeof sums) {
    if (at + kAhead < bytes) __builtin_prefetch(memory + at + kAhead, 0, 2);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      Words words;
      std::memcpy(&words, memory + at + sizeof words * static_cast<std::size_t>(i), sizeof words);
      sums[i] ^= words;
    }
  }
  const Words all = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
  return all[0] ^ all[1];
}

}  // namespace dovetail::kernels
