#pragma once

#include <cstddef>
#include <cstdint>

// The eight tile registers of AMX and what they do, of the Intel 64 Architecture Software
// Developer's Manual (TILELOADD, TDPBSSD). A compiler knows nothing of them here, and has none to
// keep.
namespace dovetail::kernels {
namespace {

// Sixteen rows of 64 bytes at most.
inline constexpr std::size_t kTileRows = 16;
inline constexpr std::size_t kTileRowBytes = 64;

// The shapes of a thread's tiles, from here until the object's end. No two at a time.
class TileShapes {
 public:
  // Of one tile register.
  void set(std::size_t tile, std::size_t rows, std::size_t row_bytes) {
    config_.rows[tile] = static_cast<std::uint8_t>(rows);
    config_.row_bytes[tile] = static_cast<std::uint16_t>(row_bytes);
  }
  // Makes them the thread's. Tiles are zeros then.
  void apply() { asm volatile("ldtilecfg %0" : : "m"(config_)); }

  TileShapes() = default;
  // A thread without tiles has less to be saved where another takes its core.
  ~TileShapes() { asm volatile("tilerelease"); }
  TileShapes(const TileShapes&) = delete;
  TileShapes& operator=(const TileShapes&) = delete;

 private:
  // As LDTILECFG reads it.
  struct alignas(64) Config {
    std::uint8_t palette = 1, start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  };
  static_assert(sizeof(Config) == 64);
  Config config_;
};

template <int kTile>
[[gnu::always_inline]] inline void tile_load(const void* from, std::size_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
}

template <int kTile>
[[gnu::always_inline]] inline void tile_store(void* to, std::size_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
}

template <int kTile>
[[gnu::always_inline]] inline void tile_zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}

// sums[m][n] += the products of four bytes each, all signed, of row m of `rows` and column n of
// `columns`, whose rows hold four elements of sixteen columns.
template <int kSums, int kRows, int kColumns>
[[gnu::always_inline]] inline void tile_multiply() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kRows), "i"(kColumns));
}

}  // namespace
}  // namespace dovetail::kernels
