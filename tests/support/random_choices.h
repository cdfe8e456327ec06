#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace dovetail::test {

// The same choices for the same seed, on every machine.
class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  std::size_t below(std::size_t limit) { return engine_() % limit; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <class T>
  const T& of(const std::vector<T>& choices) {
    return choices[below(choices.size())];
  }

 private:
  std::mt19937 engine_;
};

}  // namespace dovetail::test
