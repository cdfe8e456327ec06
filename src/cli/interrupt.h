#pragma once

namespace dovetail::cli {

// While one lives, SIGINT and SIGTERM are noted instead of ending the process, and blocking reads
// return early (EINTR). A second signal before clear() ends the process. At most one at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // The number of the signal that came; 0: none since the last clear(). Any thread.
  static int signal();
  static void clear();
};

}  // namespace dovetail::cli
