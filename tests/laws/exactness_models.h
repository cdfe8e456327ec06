#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"
#include "support/random_model.h"

namespace dovetail::laws {

// A random model whose answers no schedule may change.
struct ModelCase {
  std::string name;
  test::RandomModelOptions options;
};

inline void PrintTo(const ModelCase& model, std::ostream* out) { *out << model.name; }

// Models of `family`; of `window` positions where that is not 0.
test::RandomModelOptions of(std::string_view family,
                            kernels::DataType type = kernels::DataType::kF32,
                            std::uint32_t window = 0);

// Experts of enough work that several lanes share one where few rows choose them.
test::RandomModelOptions with_experts(std::string_view family, kernels::DataType type,
                                      std::uint32_t experts, std::uint32_t used);

// Every weight type, family and part that has arithmetic of its own.
std::vector<ModelCase> model_cases();

}  // namespace dovetail::laws
