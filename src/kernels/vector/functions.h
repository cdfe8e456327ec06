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

// 1 / (1 + e^-x), with a relative error under 4e-7 where the result is a normal number.
inline Vec::F vec_sigmoid(Vec::F x) {
  const Vec::F one = Vec::set1(1.0F);
  return Vec::div(one, Vec::add(one, vec_exp(Vec::sub(Vec::zero(), x))));
}

// With a relative error under 2e-7. Near zero, where 1 - 2 / (e^2x + 1) would cancel, an odd
// polynomial (Cephes').
inline Vec::F vec_tanh(Vec::F x) {
  const Vec::F one = Vec::set1(1.0F);
  const Vec::F size = Vec::abs(x);
  const Vec::F e = vec_exp(Vec::add(size, size));
  const Vec::F far = Vec::sub(one, Vec::div(Vec::set1(2.0F), Vec::add(e, one)));
  const Vec::F z = Vec::mul(x, x);
  Vec::F p = Vec::set1(-5.70498872745e-3F);
  p = Vec::fma(p, z, Vec::set1(2.06390887954e-2F));
  p = Vec::fma(p, z, Vec::set1(-5.37397155531e-2F));
  p = Vec::fma(p, z, Vec::set1(1.33314422036e-1F));
  p = Vec::fma(p, z, Vec::set1(-3.33332819422e-1F));
  const Vec::F near = Vec::fma(Vec::mul(p, z), x, x);
  return Vec::less(size, Vec::set1(0.625F), near, Vec::copy_sign(far, x));
}

// The error function, with a relative error under 2e-7: an odd polynomial near zero, else
// 1 - e^p(|x|) (coefficients of Norbert Juffa's erff).
inline Vec::F vec_erf(Vec::F x) {
  const Vec::F s = Vec::mul(x, x);
  Vec::F near = Vec::set1(-0x1.38e000p-11F);
  near = Vec::fma(near, s, Vec::set1(0x1.471a58p-8F));
  near = Vec::fma(near, s, Vec::set1(-0x1.b691b2p-6F));
  near = Vec::fma(near, s, Vec::set1(0x1.ce1c44p-4F));
  near = Vec::fma(near, s, Vec::set1(-0x1.812700p-2F));
  near = Vec::fma(near, s, Vec::set1(0x1.06eba8p-3F));
  near = Vec::fma(near, x, x);
  // From 4 on the result is 1; the polynomial holds a while longer.
  const Vec::F t = Vec::min(Vec::set1(8.0F), Vec::abs(x));
  const Vec::F square = Vec::mul(t, t);
  Vec::F p = Vec::fma(Vec::set1(-0x1.220000p-16F), t, Vec::set1(0x1.91cfb2p-12F));
  p = Vec::fma(p, square, Vec::fma(Vec::set1(-0x1.fd1438p-9F), t, Vec::set1(0x1.8d6342p-6F)));
  p = Vec::fma(p, t, Vec::set1(-0x1.b55cb8p-4F));
  p = Vec::fma(p, t, Vec::set1(-0x1.450aa0p-1F));
  p = Vec::fma(p, t, Vec::set1(-0x1.079d0cp-3F));
  p = Vec::fma(p, t, Vec::sub(Vec::zero(), t));
  const Vec::F far = Vec::sub(Vec::set1(1.0F), vec_exp(p));
  return Vec::less(Vec::set1(0.927734375F), t, Vec::copy_sign(far, x), near);
}

// log(1 + e^x), with a relative error under 4e-7 where the result is a normal number: the larger of
// x and 0, and the logarithm of 1 + y for y = e^-|x| as the series 2 s + 2 s^3 / 3 + ... of
// s = y / (2 + y), up to 1/3.
inline Vec::F vec_softplus(Vec::F x) {
  const Vec::F y = vec_exp(Vec::sub(Vec::zero(), Vec::abs(x)));
  const Vec::F s = Vec::div(y, Vec::add(Vec::set1(2.0F), y));
  const Vec::F z = Vec::mul(s, s);
  Vec::F p = Vec::set1(2.0F / 15);
  p = Vec::fma(p, z, Vec::set1(2.0F / 13));
  p = Vec::fma(p, z, Vec::set1(2.0F / 11));
  p = Vec::fma(p, z, Vec::set1(2.0F / 9));
  p = Vec::fma(p, z, Vec::set1(2.0F / 7));
  p = Vec::fma(p, z, Vec::set1(2.0F / 5));
  p = Vec::fma(p, z, Vec::set1(2.0F / 3));
  const Vec::F log = Vec::fma(Vec::mul(p, z), s, Vec::add(s, s));
  return Vec::add(Vec::max(Vec::zero(), x), log);
}

}  // namespace
}  // namespace dovetail::kernels
