#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cli/app.h"

int main(int argc, char** argv) {
  try {
    return dovetail::cli::run_app(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& exception) {
    // Nothing below should throw; what does all the same (memory) ends with one line.
    std::fprintf(stderr, "dovetail: %s\n", exception.what());
    return 1;
  }
}
