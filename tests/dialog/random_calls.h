#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "dialog/answer.h"
#include "support/random_choices.h"

namespace dovetail::dialog::test {

using dovetail::test::Random;

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
