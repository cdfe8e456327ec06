#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "dialog/answer.h"

namespace dovetail::dialog::test {

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

// Tools with named parameters of many kinds, and arguments for them.
std::vector<Tool> random_tools(Random& random);
Json random_arguments(Random& random, const Tool& tool);

// What the events say: content, reasoning and calls.
struct Read {
  std::string content, reasoning;
  struct Call {
    std::string name, arguments, id;
    bool ended = false;
    bool operator==(const Call&) const = default;
  };
  std::vector<Call> calls;
  bool operator==(const Read&) const = default;
};

// Feeds a text in pieces of the given sizes, over and over.
Read read(const AnswerPlan& plan, std::string_view text, const std::vector<std::size_t>& sizes);

}  // namespace dovetail::dialog::test
