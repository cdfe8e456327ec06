#pragma once

// What signals do to the program.
namespace dovetail::cli {

// From now on, writing to a pipe that has lost its reader is an error of that write instead of the
// end of the process (SIGPIPE). Call before threads start.
void survive_closed_pipes();

// From now on, touching a page of a mapped file that is gone (SIGBUS: the file was shortened, or
// its disk failed) writes one line that names the file and ends the process with kExitFailed. A bus
// error anywhere else ends it as usual.
void report_bus_errors();

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
