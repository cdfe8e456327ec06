#include "model/cpu/rope.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>

#include "kernels/functions.h"

namespace dovetail::model {
namespace {

// Wavelengths far below the training context stay, those far above are stretched by `factor`, and
// between them the two are mixed.
float scale_llama3(float frequency, const load::RopeConfig& config) {
  const float context = static_cast<float>(config.original_context);
  const float wavelength = 2.0F * std::numbers::pi_v<float> / frequency;
  if (wavelength < context / config.high_freq_factor) return frequency;
  if (wavelength > context / config.low_freq_factor) return frequency / config.factor;
  const float smooth = (context / wavelength - config.low_freq_factor) /
                       (config.high_freq_factor - config.low_freq_factor);
  return (1.0F - smooth) * frequency / config.factor + smooth * frequency;
}

// The pair, as a real number, that turns `rotations` times over the training context.
double yarn_pair_of(double rotations, const load::RopeConfig& config, std::uint32_t dims) {
  return dims * kernels::log(config.original_context / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * kernels::log(config.theta));
}

}  // namespace

std::vector<float> rope_frequencies(const load::RopeConfig& config, std::uint32_t head_dim,
                                    std::uint32_t context) {
  const std::uint32_t dims = config.dims == 0 ? head_dim : config.dims;
  assert(dims % 2 == 0 && dims <= head_dim);
  const std::size_t pairs = dims / 2;
  std::vector<float> frequencies(pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    frequencies[i] = 1.0F / static_cast<float>(kernels::pow(static_cast<double>(config.theta),
                                                            2.0 * static_cast<double>(i) / dims));
  }
  const bool is_long = !config.long_divisors.empty() && context > config.original_context;
  const std::vector<float>& divisors = is_long ? config.long_divisors : config.frequency_divisors;
  if (!divisors.empty()) {
    assert(divisors.size() == pairs);
    for (std::size_t i = 0; i < pairs; ++i) frequencies[i] /= divisors[i];
    return frequencies;
  }
  switch (config.scaling) {
    case load::RopeScaling::kNone:
    case load::RopeScaling::kLongRope:
      break;
    case load::RopeScaling::kLinear:
      for (float& frequency : frequencies) frequency /= config.factor;
      break;
    case load::RopeScaling::kLlama3:
      for (float& frequency : frequencies) frequency = scale_llama3(frequency, config);
      break;
    case load::RopeScaling::kYarn: {
      double low = yarn_pair_of(config.beta_fast, config, dims);
      double high = yarn_pair_of(config.beta_slow, config, dims);
      if (config.truncate) {
        low = std::floor(low);
        high = std::ceil(high);
      }
      low = std::max(low, 0.0);
      high = std::min(high, static_cast<double>(dims - 1));
      if (high == low) high += 0.001;
      for (std::size_t i = 0; i < pairs; ++i) {
        const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
        const float interpolated = static_cast<float>(ramp);
        frequencies[i] =
            frequencies[i] / config.factor * interpolated + frequencies[i] * (1.0F - interpolated);
      }
      break;
    }
  }
  return frequencies;
}

RopeTable::RopeTable(const load::RopeConfig& config, std::uint32_t head_dim, std::uint32_t context)
    : frequencies_(rope_frequencies(config, head_dim, context)),
      magnitude_(config.attention_factor),
      interleaved_(config.interleaved) {}

void RopeTable::extend(std::size_t positions) {
  if (positions <= positions_) return;
  positions = std::max(positions, positions_ + positions_ / 2);
  cos_.resize(positions * frequencies_.size());
  sin_.resize(positions * frequencies_.size());
  for (std::size_t position = positions_; position < positions; ++position) {
    for (std::size_t i = 0; i < frequencies_.size(); ++i) {
      // The angle is rounded to float as the reference implementations do it.
      const double angle = static_cast<float>(position) * frequencies_[i];
      const kernels::SinCos at = kernels::sin_cos(angle);
      cos_[position * frequencies_.size() + i] = static_cast<float>(at.cos) * magnitude_;
      sin_[position * frequencies_.size() + i] = static_cast<float>(at.sin) * magnitude_;
    }
  }
  positions_ = positions;
}

float query_temperature(float temperature, std::uint32_t context, std::uint32_t position) {
  const std::uint32_t times = position / context;
  return 1.0F + temperature * static_cast<float>(kernels::log(1.0 + times));
}

}  // namespace dovetail::model
