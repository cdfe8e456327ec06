#include <sys/resource.h>

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/signals.h"

namespace {

// Each connection to an endpoint takes two descriptors while it is watched, and the usual limit of
// 1,024 is for programs that call select().
void allow_many_connections() {
  rlimit files = {};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);  // where it may not, fewer have to do
}

}  // namespace

int main(int argc, char** argv) {
  allow_many_connections();
  dovetail::cli::report_bus_errors();
  try {
    return dovetail::cli::run_app(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::bad_alloc&) {
    std::fputs("dovetail: there is not enough memory for this input and these options\n", stderr);
    return 1;
  } catch (const std::exception& exception) {
    // Nothing below should throw; what does all the same (memory) ends with one line.
    std::fprintf(stderr, "dovetail: %s\n", exception.what());
    return 1;
  }
}
