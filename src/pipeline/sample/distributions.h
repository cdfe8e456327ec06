#pragma once

#include <cstdint>
#include <optional>

#include "pipeline/sample/stream.h"

namespace dovetail::pipeline {

// Functions whose results have the same bits on every machine: they use nothing but the operations
// that IEEE 754 defines exactly (the C library's versions differ in the last bit between releases
// and processors). Within 4 units in the last place of the true value in the ranges named.

// Natural logarithm of a positive finite normal number.
double portable_log(double x);
// e^x; 0 below -708, the largest finite number above 709.
double portable_exp(double x);
// log(k!) for k >= 0, a whole number (Stirling's series from 16 on); relative error below 1e-14.
double log_factorial(double k);

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
