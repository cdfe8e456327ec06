#pragma once

namespace dovetail::kernels {

// Functions for what is computed outside the kernels and still decides tokens and
// log-probabilities: sampling, the choice of experts, the rotations of positions. They use nothing
// but the operations that IEEE 754 defines exactly, so a result has the same bits on every machine;
// the C library's differ with its version and with the CPU.

// e^x, within one unit in the last place; denormals included.
double exp(double x);

// The natural logarithm, within one unit in the last place. NaN for a negative number.
double log(double x);

// base^exponent for a positive base, as exp(exponent * log(base)): the relative error is under
// (2 + |exponent * log(base)|) * 2^-52.
double pow(double base, double exponent);

struct SinCos {
  double sin, cos;
};
// Absolute error under 2^-52 for |x| up to a million, and under |x| * 2^-52 from there to 2^30.
// NaN for what is not finite.
SinCos sin_cos(double x);

}  // namespace dovetail::kernels
