// Products and attention of one core, per instruction set. FLOP/s count two per multiply-add;
// bytes/s are those of the weights or of the cache.
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <cstring>
#include <random>
#include <vector>

#include "kernels/kernels.h"

namespace dovetail::kernels {
namespace {

using kernels::DataType;

#define DOVETAIL_LISTED(name) DataType::k##name,
constexpr DataType kTypes[] = {DOVETAIL_WEIGHT_TYPES(DOVETAIL_LISTED)};
#undef DOVETAIL_LISTED

struct Buffer {
  explicit Buffer(std::size_t bytes) : storage(bytes + 64) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage.data());
    data = storage.data() + (64 - address % 64) % 64;
  }
  std::vector<std::byte> storage;
  std::byte* data;
};

// Weights larger than the caches are walked matrix by matrix, as a model's layers are.
void matmul(benchmark::State& state, const Kernels& kernels, DataType type, std::size_t m,
            std::size_t n, std::size_t k) {
  // Small positive 16-bit floats wherever one may be read as such, and no NaN in any type.
  Buffer rows(n * row_bytes(type, k));
  std::memset(rows.data, 0x2a, n * row_bytes(type, k));
  const std::size_t panel = kernels.panel_bytes(type, k);
  const std::size_t matrix =
      panel == 0 ? n * row_bytes(type, k) : (n + kPanelRows - 1) / kPanelRows * panel;
  const std::size_t matrices = m <= 32 ? (std::size_t{192} << 20) / matrix + 1 : 1;
  Buffer weights(matrices * matrix);
  for (std::size_t i = 0; i < matrices; ++i) {
    if (panel == 0) {
      std::memcpy(weights.data + i * matrix, rows.data, matrix);
    } else {
      kernels.pack(type, rows.data, n, k, weights.data + i * matrix);
    }
  }
  const std::size_t stride = kernels.activation_bytes(type, k);
  Buffer activations(m * stride);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(k);
  for (std::size_t i = 0; i < m; ++i) {
    for (float& v : x) v = normal(random);
    kernels.prepare(type, x.data(), k, activations.data + i * stride);
  }
  std::vector<float> output(m * n);
  std::size_t next = 0;
  for (auto _ : state) {
    kernels.matmul({.type = type,
                    .weights = weights.data + next * matrix,
                    .packed = panel != 0,
                    .activations = activations.data,
                    .activation_stride = stride,
                    .output = output.data(),
                    .output_stride = n,
                    .m = m,
                    .k = k,
                    .n_begin = 0,
                    .n_end = n});
    benchmark::ClobberMemory();
    next = (next + 1) % matrices;
  }
  const auto calls = static_cast<double>(state.iterations());
  state.counters["FLOP/s"] =
      benchmark::Counter(2.0 * static_cast<double>(m * n * k) * calls, benchmark::Counter::kIsRate);
  state.counters["B/s"] =
      benchmark::Counter(static_cast<double>(matrix) * calls, benchmark::Counter::kIsRate);
}

void attention(benchmark::State& state, const Kernels& kernels, CacheType type, std::size_t rows,
               std::size_t heads, std::size_t dim, std::size_t context) {
  const std::size_t blocks = (context + kBlockSize - 1) / kBlockSize;
  const std::size_t block = kBlockSize * dim * cache_element_bytes(type);
  // Several heads' caches, so that decoding reads memory and not a cache.
  const std::size_t copies = rows == 1 ? (std::size_t{64} << 20) / (blocks * block) + 1 : 1;
  Buffer keys(copies * blocks * block);
  Buffer values(copies * blocks * block);
  std::vector<float> x(kBlockSize * dim);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& v : x) v = normal(random);
  std::vector<const std::byte*> key_blocks;
  std::vector<const std::byte*> value_blocks;
  for (std::size_t b = 0; b < copies * blocks; ++b) {
    kernels.store_cache(type, x.data(), x.size(), keys.data + b * block);
    kernels.store_cache(type, x.data(), x.size(), values.data + b * block);
    key_blocks.push_back(keys.data + b * block);
    value_blocks.push_back(values.data + b * block);
  }
  const std::vector<float> query(rows * heads * dim, 0.1F);
  std::vector<float> output(query.size());
  std::size_t next = 0;
  for (auto _ : state) {
    kernels.attention({.cache_type = type,
                       .key_blocks = key_blocks.data() + next * blocks,
                       .value_blocks = value_blocks.data() + next * blocks,
                       .query = query.data(),
                       .query_stride = heads * dim,
                       .output = output.data(),
                       .output_stride = heads * dim,
                       .rows = rows,
                       .heads = heads,
                       .head_dim = dim,
                       .first_position = context - rows,
                       .scale = 0.125F});
    benchmark::ClobberMemory();
    next = (next + 1) % copies;
  }
  const auto calls = static_cast<double>(state.iterations());
  const double seen = static_cast<double>(rows) *
                      (static_cast<double>(context) - static_cast<double>(rows - 1) / 2);
  state.counters["FLOP/s"] = benchmark::Counter(
      4.0 * seen * static_cast<double>(heads * dim) * calls, benchmark::Counter::kIsRate);
  state.counters["B/s"] = benchmark::Counter(2.0 * static_cast<double>(blocks * block) * calls,
                                             benchmark::Counter::kIsRate);
}

void silu(benchmark::State& state, const Kernels& kernels) {
  const std::vector<float> gate(2816, 0.5F);
  std::vector<float> up(2816, 1.0F);
  for (auto _ : state) {
    kernels.silu_mul(gate.data(), up.data(), up.size(), up.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * 2816);
}

void declare() {
  for (const Kernels* kernels : available_kernels()) {
    for (const DataType type : kTypes) {
      for (const std::size_t m : {1, 8, 32, 512}) {
        for (const std::size_t k : {1024, 2816}) {
          benchmark::RegisterBenchmark(
              fmt::format("matmul/{}/{}/m:{}/k:{}", kernels->name, kernels::info(type).name, m, k)
                  .c_str(),
              [=](benchmark::State& state) { matmul(state, *kernels, type, m, 1024, k); });
        }
      }
    }
    for (const CacheType type : {CacheType::kF32, CacheType::kF16}) {
      const char* name = type == CacheType::kF32 ? "f32" : "f16";
      for (const std::size_t dim : {64, 128}) {
        for (const std::size_t heads : {1, 4}) {
          for (const std::size_t rows : {1, 256}) {
            benchmark::RegisterBenchmark(fmt::format("attention/{}/{}/rows:{}/heads:{}/dim:{}",
                                                     kernels->name, name, rows, heads, dim)
                                             .c_str(),
                                         [=](benchmark::State& state) {
                                           attention(state, *kernels, type, rows, heads, dim,
                                                     rows == 1 ? 4096 : 1024);
                                         });
          }
        }
      }
    }
    benchmark::RegisterBenchmark(fmt::format("silu/{}", kernels->name).c_str(),
                                 [=](benchmark::State& state) { silu(state, *kernels); });
  }
}

}  // namespace
}  // namespace dovetail::kernels

int main(int argc, char** argv) {
  dovetail::kernels::declare();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
