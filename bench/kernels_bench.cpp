// Products, attention and the rest of one core, per instruction set. FLOP/s count two per
// multiply-add; bytes/s are those of the weights or of the cache.
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
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

// The last `rows` positions of a context. A decode row walks contexts that no cache holds; each has
// neighbouring blocks in groups of sixteen, as model::Cache has them.
void attention(benchmark::State& state, const Kernels& kernels, CacheType type, std::size_t rows,
               std::size_t heads, std::size_t dim, std::size_t context, float softcap = 0.0F,
               bool with_sinks = false) {
  const std::vector<float> sinks(heads, 0.5F);
  const std::size_t blocks = (context + kBlockSize - 1) / kBlockSize;
  const std::size_t tile = cache_tile_bytes(type, dim);
  const std::size_t copies = rows == 1 ? (std::size_t{64} << 20) / (2 * blocks * tile) + 1 : 1;
  constexpr std::size_t kGroup = 16;
  const std::size_t groups = (copies * blocks + kGroup - 1) / kGroup;
  Buffer tiles(groups * kGroup * 2 * tile);
  std::mt19937 random(1);
  std::vector<std::size_t> order(groups);
  for (std::size_t i = 0; i < groups; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  std::normal_distribution<float> normal;
  std::vector<float> x(kBlockSize * dim);
  for (float& v : x) v = normal(random);
  for (std::size_t p = 0; p < kBlockSize; ++p) {
    kernels.store_key(type, x.data() + p * dim, dim, p, tiles.data);
    kernels.store_value(type, x.data() + p * dim, dim, p, tiles.data + tile);
  }
  std::vector<const std::byte*> key_blocks;
  std::vector<const std::byte*> value_blocks;
  for (std::size_t b = 0; b < copies * blocks; ++b) {
    std::byte* at = tiles.data + (order[b / kGroup] * kGroup + b % kGroup) * 2 * tile;
    if (at != tiles.data) std::memcpy(at, tiles.data, 2 * tile);
    key_blocks.push_back(at);
    value_blocks.push_back(at + tile);
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
                       .scale = 0.125F,
                       .softcap = softcap,
                       .sinks = with_sinks ? sinks.data() : nullptr});
    benchmark::ClobberMemory();
    next = (next + 1) % copies;
  }
  const auto calls = static_cast<double>(state.iterations());
  const double seen = static_cast<double>(rows) *
                      (static_cast<double>(context) - static_cast<double>(rows - 1) / 2);
  state.counters["FLOP/s"] = benchmark::Counter(
      4.0 * seen * static_cast<double>(heads * dim) * calls, benchmark::Counter::kIsRate);
  state.counters["B/s"] = benchmark::Counter(2.0 * static_cast<double>(blocks * tile) * calls,
                                             benchmark::Counter::kIsRate);
}

void gate(benchmark::State& state, const Kernels& kernels, Activation activation) {
  const std::vector<float> gate(2816, 0.5F);
  std::vector<float> up(2816, 1.0F);
  for (auto _ : state) {
    kernels.gate(activation, gate.data(), up.data(), up.size(), up.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * 2816);
}

void layer_norm(benchmark::State& state, const Kernels& kernels, std::size_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(n);
  for (float& v : x) v = normal(random);
  std::vector<float> out(n);
  for (auto _ : state) {
    kernels.layer_norm(x.data(), x.data(), x.data(), n, 1e-5F, out.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(n));
}

// A row in the form that products of a type take, after its norm where `norm`, as blocks do it.
void prepare(benchmark::State& state, const Kernels& kernels, DataType type, bool norm,
             std::size_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(n);
  for (float& v : x) v = normal(random);
  std::vector<float> normed = x;
  Buffer prepared(kernels.activation_bytes(type, n));
  for (auto _ : state) {
    if (norm) kernels.rms_norm(x.data(), x.data(), n, 1e-5F, normed.data());
    kernels.prepare(type, normed.data(), n, prepared.data);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(n));
}

// One token of `heads` heads, whose states are walked one after another, as in a model: one is in a
// cache near the core, many are not. Bytes are those of the states, once.
void delta_rule(benchmark::State& state, const Kernels& kernels, std::size_t dim,
                std::size_t heads) {
  std::vector<float> states(heads * dim * dim, 0.01F);
  const std::vector<float> query(dim, 0.05F);
  std::vector<float> output(dim);
  std::size_t next = 0;
  for (auto _ : state) {
    kernels.delta_rule({.state = states.data() + next * dim * dim,
                        .query = query.data(),
                        .key = query.data(),
                        .value = query.data(),
                        .decay = 0.99F,
                        .beta = 0.5F,
                        .key_dim = dim,
                        .value_dim = dim,
                        .output = output.data()});
    benchmark::ClobberMemory();
    next = (next + 1) % heads;
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(dim * dim * 4));
}

// One token, as delta_rule().
void state_space(benchmark::State& state, const Kernels& kernels, std::size_t state_dim,
                 std::size_t head_dim, std::size_t heads) {
  const std::size_t size = state_dim * head_dim;
  std::vector<float> states(heads * size, 0.01F);
  const std::vector<float> write(state_dim, 0.05F), input(head_dim, 0.05F);
  std::vector<float> output(head_dim);
  std::size_t next = 0;
  for (auto _ : state) {
    kernels.state_space({.state = states.data() + next * size,
                         .input = input.data(),
                         .write = write.data(),
                         .read = write.data(),
                         .decay = 0.99F,
                         .step = 0.5F,
                         .skip = 1.0F,
                         .state_dim = state_dim,
                         .head_dim = head_dim,
                         .output = output.data()});
    benchmark::ClobberMemory();
    next = (next + 1) % heads;
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(size * sizeof(float)));
}

void short_conv(benchmark::State& state, const Kernels& kernels, std::size_t width,
                std::size_t channels) {
  const std::vector<float> x((width + 1) * channels, 0.1F);
  std::vector<const float*> rows;
  for (std::size_t j = 0; j < width; ++j) rows.push_back(x.data() + j * channels);
  std::vector<float> output(channels);
  for (auto _ : state) {
    kernels.short_conv({.rows = rows.data(),
                        .weights = x.data() + channels,
                        .width = width,
                        .channels = channels,
                        .output = output.data()});
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(channels));
}

void declare() {
  for (const Kernels* kernels : available_kernels()) {
    for (const DataType type : kTypes) {
      for (const std::size_t m : {1, 2, 3, 4, 5, 6, 8, 16, 32, 512}) {
        for (const std::size_t k : {1024, 2816}) {
          benchmark::RegisterBenchmark(
              fmt::format("matmul/{}/{}/m:{}/k:{}", kernels->name, kernels::info(type).name, m, k)
                  .c_str(),
              [=](benchmark::State& state) { matmul(state, *kernels, type, m, 1024, k); });
        }
      }
    }
    for (const CacheTypeInfo& type : kCacheTypes) {
      for (const std::size_t dim : {64, 128}) {
        for (const std::size_t heads : {2, 4, 8}) {
          for (const std::size_t rows : {1, 16}) {
            for (const std::size_t context : {128, 1024, 4096}) {
              benchmark::RegisterBenchmark(
                  fmt::format("attention/{}/{}/rows:{}/heads:{}/dim:{}/context:{}", kernels->name,
                              type.name, rows, heads, dim, context)
                      .c_str(),
                  [=](benchmark::State& state) {
                    attention(state, *kernels, type.type, rows, heads, dim, context);
                  });
            }
          }
        }
      }
    }
    for (const std::size_t rows : {1, 16}) {
      for (const float softcap : {0.0F, 50.0F}) {
        benchmark::RegisterBenchmark(
            fmt::format("attention_{}/{}/f16/rows:{}/heads:8/dim:128/context:1024",
                        softcap == 0.0F ? "sinks" : "capped", kernels->name, rows)
                .c_str(),
            [=](benchmark::State& state) {
              attention(state, *kernels, CacheType::kF16, rows, 8, 128, 1024, softcap,
                        softcap == 0.0F);
            });
      }
    }
    constexpr std::pair<const char*, Activation> kActivations[] = {
        {"silu", Activation::kSilu},
        {"gelu_tanh", Activation::kGeluTanh},
        {"gelu", Activation::kGelu},
        {"relu2", Activation::kRelu2},
        {"clamped_swiglu", Activation::kClampedSwiglu}};
    for (const auto& [name, activation] : kActivations) {
      benchmark::RegisterBenchmark(
          fmt::format("{}/{}", name, kernels->name).c_str(),
          [=, of = activation](benchmark::State& state) { gate(state, *kernels, of); });
    }
    benchmark::RegisterBenchmark(
        fmt::format("layer_norm/{}/n:4096", kernels->name).c_str(),
        [=](benchmark::State& state) { layer_norm(state, *kernels, 4096); });
    constexpr DataType kPrepared[] = {DataType::kF32, DataType::kBF16, DataType::kQ8_0,
                                      DataType::kQ4_K, DataType::kQ6_K};
    for (const DataType type : kPrepared) {
      for (const bool norm : {false, true}) {
        benchmark::RegisterBenchmark(
            fmt::format("{}prepare/{}/{}/n:1024", norm ? "norm_" : "", kernels->name,
                        kernels::info(type).name)
                .c_str(),
            [=](benchmark::State& state) { prepare(state, *kernels, type, norm, 1024); });
      }
    }
    for (const std::size_t heads : {1, 4096}) {
      benchmark::RegisterBenchmark(
          fmt::format("delta_rule/{}/dim:128/heads:{}", kernels->name, heads).c_str(),
          [=](benchmark::State& state) { delta_rule(state, *kernels, 128, heads); });
      benchmark::RegisterBenchmark(
          fmt::format("state_space/{}/dims:128x64/heads:{}", kernels->name, heads).c_str(),
          [=](benchmark::State& state) { state_space(state, *kernels, 128, 64, heads); });
    }
    benchmark::RegisterBenchmark(
        fmt::format("short_conv/{}/width:4/channels:8192", kernels->name).c_str(),
        [=](benchmark::State& state) { short_conv(state, *kernels, 4, 8192); });
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
