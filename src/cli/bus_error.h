#pragma once

namespace dovetail::cli {

// From now on, touching a page of a mapped file that is gone (SIGBUS: the file was shortened, or
// its disk failed) writes one line that names the file and ends the process with kExitFailed. A bus
// error anywhere else ends it as usual.
void report_bus_errors();

}  // namespace dovetail::cli
