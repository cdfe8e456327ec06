#pragma once

#include "pipeline/remote/micros.h"

namespace dovetail::pipeline {

struct RateOptions {
  double requests_per_minute = 0;  // 0: no limit
  double tokens_per_minute = 0;
  // How much of a budget that was not used may be spent at once. Over any span T at most
  // rate * (T + burst) is sent, plus the one request that is let through a full bucket.
  Micros burst = kOneSecond;
};

// Requests and tokens per minute of one endpoint as two token buckets. A request takes its
// estimated tokens when it is sent; finished() corrects them by what it really used, which may
// leave the bucket in debt: then nothing is sent until it is paid off. An estimate larger than the
// bucket waits for a full one instead of for ever.
//
// Every function takes the moment `now`, which never runs backwards. Single thread.
class RateBudget {
 public:
  explicit RateBudget(RateOptions options);

  bool may_send(double tokens, Micros now) const { return next_time(tokens, now) <= now; }

  // Precondition: may_send(tokens, now).
  void sent(double tokens, Micros now);

  // `reserved` is what was passed to sent(), `used` what the request really cost: 0 where it was
  // refused before any work.
  void finished(double reserved, double used, Micros now);

  // How many requests of so many tokens it would let through at this moment, at most `most`.
  int room(double tokens, int most, Micros now) const;

  // When may_send() turns true if nothing else happens; `now` where it is already.
  Micros next_time(double tokens, Micros now) const;

 private:
  struct Bucket {
    double rate = 0;  // per microsecond; 0: no limit
    double capacity = 0;
    double level = 0;
    Micros at = 0;

    double level_at(Micros now) const;
    Micros time_of(double amount, Micros now) const;
    int room(double amount, int most, Micros now) const;
    void take(double amount, Micros now);
  };

  static Bucket bucket(double per_minute, Micros burst, double least);

  Bucket requests_;
  Bucket tokens_;
};

}  // namespace dovetail::pipeline
