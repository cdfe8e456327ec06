#pragma once

#include <cstdint>
#include <optional>

#include "pipeline/sample/stream.h"

namespace dovetail::pipeline {

// Draws from distributions. They are written here rather than taken from <random>, whose results
// differ between libraries, and use exact arithmetic only (portable_math.h), so that a stream gives
// the same numbers everywhere.

// Mean 0, deviation 1 (Marsaglia's polar method; the second number of each pair is not kept).
double draw_normal(Stream& stream);

// The standard normal distribution within [low, high], either of which may be infinite; low < high.
// Robert, "Simulation of truncated normal variables", 1995: at least a quarter of the candidates
// are taken, however far out the interval lies.
double draw_truncated_normal(Stream& stream, double low, double high);

double draw_exponential(Stream& stream, double mean);
// shape > 0, scale > 0; Marsaglia and Tsang, "A simple method for generating gamma variables",
// 2000.
double draw_gamma(Stream& stream, double shape, double scale);

// mean in [0, 1e9]. Inversion below 10, from there PTRS (Hörmann, "The transformed rejection method
// for generating Poisson random variables", 1993).
std::int64_t draw_poisson(Stream& stream, double mean);
// n in [0, 1e9], p in [0, 1]. Inversion while n * min(p, 1 - p) < 10, from there BTRS (Hörmann,
// "The generation of binomial random variates", 1993).
std::int64_t draw_binomial(Stream& stream, std::int64_t n, double p);

}  // namespace dovetail::pipeline
