#include "pipeline/remote/rate_budget.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace dovetail::pipeline {

namespace {

// Sums of many small shares come out a little below the whole.
constexpr double kRounding = 1e-6;

}  // namespace

RateBudget::RateBudget(RateOptions options)
    : requests_(bucket(options.requests_per_minute, options.burst, 1)),
      tokens_(bucket(options.tokens_per_minute, options.burst, 1)) {}

RateBudget::Bucket RateBudget::bucket(double per_minute, Micros burst, double least) {
  Bucket made;
  if (per_minute <= 0) return made;
  made.rate = per_minute / static_cast<double>(60 * kOneSecond);
  made.capacity = std::max(least, made.rate * static_cast<double>(burst));
  made.level = made.capacity;
  return made;
}

double RateBudget::Bucket::level_at(Micros now) const {
  return std::min(capacity, level + rate * static_cast<double>(std::max<Micros>(0, now - at)));
}

Micros RateBudget::Bucket::time_of(double amount, Micros now) const {
  if (rate <= 0) return now;
  const double missing = std::min(amount, capacity) - level_at(now);
  if (missing <= kRounding) return now;
  return now + std::max<Micros>(1, static_cast<Micros>(std::ceil(missing / rate)));
}

int RateBudget::Bucket::room(double amount, int most, Micros now) const {
  if (rate <= 0 || amount <= 0) return most;
  if (time_of(amount, now) > now) return 0;
  const double times = std::floor((level_at(now) + kRounding) / amount);
  return std::max(1, static_cast<int>(std::min(times, static_cast<double>(most))));
}

void RateBudget::Bucket::take(double amount, Micros now) {
  if (rate <= 0) return;
  level = std::min(capacity, level_at(now) - amount);
  at = std::max(at, now);
}

void RateBudget::sent(double tokens, Micros now) {
  assert(may_send(tokens, now));
  requests_.take(1, now);
  tokens_.take(std::max(0.0, tokens), now);
}

void RateBudget::finished(double reserved, double used, Micros now) {
  tokens_.take(std::max(0.0, used) - std::max(0.0, reserved), now);
}

int RateBudget::room(double tokens, int most, Micros now) const {
  if (!may_send(tokens, now)) return 0;
  return std::min(requests_.room(1, most, now), tokens_.room(tokens, most, now));
}

Micros RateBudget::next_time(double tokens, Micros now) const {
  return std::max(requests_.time_of(1, now), tokens_.time_of(std::max(0.0, tokens), now));
}

}  // namespace dovetail::pipeline
