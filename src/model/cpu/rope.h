#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "load/model_config.h"

namespace dovetail::model {

// Angle per position of each pair of a head that turns, half as many as elements turn, with the
// model's scaling applied: linear (https://arxiv.org/abs/2306.15595), llama3 (Llama 3.1's by-parts
// scaling), YaRN (https://arxiv.org/abs/2309.00071) or LongRoPE
// (https://arxiv.org/abs/2402.13753), whose factors `context` chooses: the positions that a
// sequence may have.
std::vector<float> rope_frequencies(const load::RopeConfig& config, std::uint32_t head_dim,
                                    std::uint32_t context);

// Cosines and sines of the positions that were asked for so far.
class RopeTable {
 public:
  RopeTable(const load::RopeConfig& config, std::uint32_t head_dim, std::uint32_t context);

  // Makes the positions [0, positions) available. Not to be called while others read.
  void extend(std::size_t positions);

  // Elements of a head that turn, from the first on, and how they form pairs.
  std::size_t dims() const { return 2 * frequencies_.size(); }
  bool interleaved() const { return interleaved_; }

  // dims()/2 values each, multiplied by the model's attention factor.
  std::span<const float> cos(std::size_t position) const { return row(cos_, position); }
  std::span<const float> sin(std::size_t position) const { return row(sin_, position); }

 private:
  std::span<const float> row(const std::vector<float>& table, std::size_t position) const {
    return std::span(table).subspan(position * frequencies_.size(), frequencies_.size());
  }

  std::vector<float> frequencies_;
  float magnitude_ = 1.0F;
  bool interleaved_ = false;
  std::size_t positions_ = 0;
  std::vector<float> cos_, sin_;
};

// What queries of a position are multiplied with (AttentionConfig::temperature).
float query_temperature(float temperature, std::uint32_t context, std::uint32_t position);

}  // namespace dovetail::model
