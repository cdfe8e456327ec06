#pragma once

#include <algorithm>
#include <optional>

#include "cores/dispatcher.h"

namespace dovetail::cores {

// Whether threads stay on cores of their own: while these cores are uncontested, and after a
// contention again after a pause. The pause grows while contention returns soon. A pinned thread
// cannot get out of the way of another thread, and threads of the same program or of another one
// may have chosen the same cores. Pure: no clock, no thread.
class PinRule {
 public:
  // Of the time for which a thread wants a core, the share for which it waits for one: from
  // kContested on the cores are contested, below kCalm they are not.
  static constexpr double kContested = 0.10, kCalm = 0.05;
  // Nanoseconds from a contention to the next try: at first, and at most; and how long the cores
  // have to be uncontested for the pause to start from kFirstPause again.
  static constexpr Ticks kFirstPause = 1'000'000'000;
  static constexpr Ticks kLongestPause = 64 * kFirstPause;
  static constexpr Ticks kTrusted = 10 * kFirstPause;

  // Whether they stay from now on. `waited`: that share since the last call, the largest of all
  // threads; nothing where they had too little to do to tell, or the system does not say.
  bool look(Ticks now, std::optional<double> waited) {
    if (!waited) return stays_;
    if (stays_ && *waited >= kContested) {
      stays_ = false;
      if (now - since_ >= kTrusted) pause_ = kFirstPause;
      next_try_ = now + pause_;
      pause_ = std::min(2 * pause_, kLongestPause);
    } else if (!stays_ && *waited < kCalm && now >= next_try_) {
      stays_ = true;
      since_ = now;
    }
    return stays_;
  }

 private:
  bool stays_ = false;
  Ticks since_ = 0;
  Ticks next_try_ = 0;
  Ticks pause_ = kFirstPause;
};

}  // namespace dovetail::cores
