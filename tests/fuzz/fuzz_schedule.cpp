// The scheduler: bytes are options and a history, played with a fake model under the law checker.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "laws/checker/history.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const dovetail::laws::History history = dovetail::laws::read_history(data, size);
  if (!dovetail::laws::play(history).faults.empty()) {
    dovetail::laws::describe(history, std::cerr);
    std::abort();
  }
  return 0;
}
