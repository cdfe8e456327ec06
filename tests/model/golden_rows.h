#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

namespace dovetail::test {

// Expects the rows of logits of a golden file to within 1e-4 of each row's largest. `of_prompts`:
// the logits of all positions of each of its prompts.
inline void expect_golden_rows(const nlohmann::json& golden, std::size_t vocabulary,
                               const std::vector<std::vector<float>>& of_prompts) {
  for (const nlohmann::json& row : golden["logits"]) {
    const auto wanted = row["row"].get<std::vector<float>>();
    const std::vector<float>& all = of_prompts[row["prompt"].get<std::size_t>()];
    ASSERT_EQ(wanted.size(), vocabulary);
    const std::size_t first = row["position"].get<std::size_t>() * vocabulary;
    ASSERT_LE(first + vocabulary, all.size());
    float error = 0.0F, largest = 0.0F;
    for (std::size_t i = 0; i < vocabulary; ++i) {
      error = std::max(error, std::abs(all[first + i] - wanted[i]));
      largest = std::max(largest, std::abs(wanted[i]));
    }
    EXPECT_LT(error / largest, 1e-4F) << row["prompt"] << " at " << row["position"];
  }
}

}  // namespace dovetail::test
