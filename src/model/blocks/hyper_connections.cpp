#include "model/blocks/hyper_connections.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "base/aligned_buffer.h"
#include "kernels/functions.h"
#include "load/limits.h"

namespace dovetail::model {
namespace {

constexpr std::size_t kMostStreams = load::kMostStreams;

// What a thread keeps between rows.
struct StreamScratch {
  std::vector<float> normed, weights, mixed;
  AlignedBuffer prepared;
};

StreamScratch& stream_scratch() {
  thread_local StreamScratch mine;
  return mine;
}

float stream_share(float logit) {
  return static_cast<float>(1.0 / (1.0 + kernels::exp(-static_cast<double>(logit))));
}

}  // namespace

StreamMix::StreamMix(const load::HyperConfig& config, const ModelWeights& weights,
                     const std::string& name, bool gives_back, Workspace& workspace)
    : config_(config),
      product_(weights.matrix(name + ".fn")),
      base_(weights.vector(name + ".base")),
      scale_(weights.vector(name + ".scale")) {
  assert(!product_.packed && config.streams <= kMostStreams);
  assert(base_.size() == (gives_back ? config.weights() : config.streams));
  const std::size_t streams = config.streams;
  if (gives_back) workspace.mixes.need(streams + streams * streams);
}

void StreamMix::take(const Workspace& work, const float* streams, float* row, float* back) const {
  const kernels::Kernels& kernels = work.kernels;
  const std::size_t n = config_.streams;
  const std::size_t width = work.residual_size();
  StreamScratch& mine = stream_scratch();
  mine.normed.resize(width);
  mine.weights.resize(base_.size());
  kernels.rms_norm(streams, nullptr, width, config_.norm_epsilon, mine.normed.data());
  mine.prepared.reserve(kernels.activation_bytes(product_.type, width));
  kernels.prepare(product_.type, mine.normed.data(), width, mine.prepared.data());
  kernels::MatmulArgs args;
  args.type = product_.type;
  args.weights = product_.data;
  args.activations = mine.prepared.data();
  args.activation_stride = kernels.activation_bytes(product_.type, width);
  args.output = mine.weights.data();
  args.output_stride = base_.size();
  args.m = 1;
  args.k = width;
  args.n_end = base_.size();
  kernels.matmul(args);
  const auto weight = [&](std::size_t at, std::size_t part) {
    return mine.weights[at] * scale_[part] + base_[at];
  };
  std::fill_n(row, work.hidden, 0.0F);
  for (std::size_t i = 0; i < n; ++i) {
    kernels.add_scaled(row, streams + i * work.hidden, stream_share(weight(i, 0)) + config_.epsilon,
                       work.hidden);
  }
  if (back == nullptr) return;
  for (std::size_t i = 0; i < n; ++i) back[i] = 2.0F * stream_share(weight(n + i, 1));
  for (std::size_t i = 0; i < n * n; ++i) back[n + i] = weight(2 * n + i, 2);
  make_stochastic({back + n, n * n}, n, config_.iterations, config_.epsilon);
}

void give_back(const Workspace& work, float* streams, const float* given, const float* back) {
  const kernels::Kernels& kernels = work.kernels;
  const std::size_t n = work.streams;
  const std::size_t hidden = work.hidden;
  std::vector<float>& mixed = stream_scratch().mixed;
  mixed.assign(n * hidden, 0.0F);
  for (std::size_t k = 0; k < n; ++k) {
    float* to = mixed.data() + k * hidden;
    kernels.add_scaled(to, given, back[k], hidden);
    for (std::size_t j = 0; j < n; ++j)
      kernels.add_scaled(to, streams + j * hidden, back[n + j * n + k], hidden);
  }
  std::copy(mixed.begin(), mixed.end(), streams);
}

void make_stochastic(std::span<float> matrix, std::size_t n, std::uint32_t iterations,
                     float epsilon) {
  for (std::size_t row = 0; row < n; ++row) {
    const std::span<float> mine = matrix.subspan(row * n, n);
    const float largest = *std::max_element(mine.begin(), mine.end());
    float sum = 0.0F;
    for (float& value : mine) {
      value = static_cast<float>(kernels::exp(static_cast<double>(value - largest)));
      sum += value;
    }
    for (float& value : mine) value = value / sum + epsilon;
  }
  balance(matrix, n, iterations, epsilon);
}

void balance(std::span<float> matrix, std::size_t n, std::uint32_t iterations, float epsilon) {
  const auto divide = [&](std::size_t first, std::size_t step) {
    float sum = 0.0F;
    for (std::size_t i = 0; i < n; ++i) sum += matrix[first + i * step];
    for (std::size_t i = 0; i < n; ++i) matrix[first + i * step] /= sum + epsilon;
  };
  for (std::uint32_t turn = 0; turn < iterations; ++turn) {
    for (std::size_t row = 0; turn > 0 && row < n; ++row) divide(row * n, 1);
    for (std::size_t column = 0; column < n; ++column) divide(column, n);
  }
}

}  // namespace dovetail::model
