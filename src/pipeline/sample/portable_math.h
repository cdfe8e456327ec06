#pragma once

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

}  // namespace dovetail::pipeline
