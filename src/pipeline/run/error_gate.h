#pragma once

#include <cstddef>
#include <vector>

namespace dovetail::pipeline {

// Tells when too many of the last cells have failed for good: then the rest would, too. Cells that
// failed since a server was busy or away are not told to it.
class ErrorGate {
 public:
  // Shuts when more than `share` of the last `window` cells failed; `window` of 0: never.
  ErrorGate(std::size_t window, double share) : last_(window, false), share_(share) {}

  void ended(bool failed) {
    if (last_.empty()) return;
    const std::size_t place = count_++ % last_.size();
    failures_ = failures_ + (failed ? 1 : 0) - (last_[place] ? 1 : 0);
    last_[place] = failed;
    if (count_ >= last_.size() &&
        static_cast<double>(failures_) > share_ * static_cast<double>(last_.size())) {
      shut_ = true;
    }
  }

  bool shut() const { return shut_; }
  std::size_t failures() const { return failures_; }
  std::size_t window() const { return last_.size(); }

 private:
  std::vector<bool> last_;
  double share_;
  std::size_t count_ = 0, failures_ = 0;
  bool shut_ = false;
};

}  // namespace dovetail::pipeline
