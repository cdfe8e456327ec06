#pragma once

// Included after an instruction set's vec.h, which defines Vec.
namespace dovetail::kernels {
namespace {

// e^x with a relative error under 2e-7: x = n ln 2 + r, a polynomial for e^r on |r| <= ln 2 / 2,
// and 2^n by the exponent's bits. ln 2 is split so that n * kHigh is exact. Overflows to infinity,
// underflows to zero, keeps NaN.
inline Vec::F vec_exp(Vec::F x) {
  constexpr float kHigh = 0x1.63p-1F;
  constexpr float kLow = -0x1.bd0106p-13F;
  x = Vec::max(Vec::set1(-110.0F), Vec::min(Vec::set1(90.0F), x));
  const Vec::F n = Vec::round(Vec::mul(x, Vec::set1(0x1.715476p+0F)));
  Vec::F r = Vec::fma(n, Vec::set1(-kHigh), x);
  r = Vec::fma(n, Vec::set1(-kLow), r);
  // Taylor's coefficients 1/7! ... 1/2!: on this range the next term is under 2^-25.
  Vec::F p = Vec::set1(1.0F / 5040);
  p = Vec::fma(p, r, Vec::set1(1.0F / 720));
  p = Vec::fma(p, r, Vec::set1(1.0F / 120));
  p = Vec::fma(p, r, Vec::set1(1.0F / 24));
  p = Vec::fma(p, r, Vec::set1(1.0F / 6));
  p = Vec::fma(p, r, Vec::set1(0.5F));
  p = Vec::fma(Vec::mul(p, r), r, r);
  return Vec::scale_by_power(Vec::add(p, Vec::set1(1.0F)), n);
}

}  // namespace
}  // namespace dovetail::kernels
