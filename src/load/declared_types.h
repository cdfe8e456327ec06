#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "kernels/data_type.h"
#include "load/quantization.h"

namespace dovetail::load {

// Which types the tensors of a folder will have, by its configuration, where the tensors themselves
// are not there: near enough to say what a model takes. Quantisers leave more or fewer of the small
// matrices as they are than is said here.
class DeclaredTypes {
 public:
  // `text`: what of a config.json describes the model's text; `whole`: all of it.
  DeclaredTypes(const nlohmann::json& text, const nlohmann::json& whole,
                const Quantization& quantization);

  // Of a tensor by the name that describe_tensors() gives it.
  kernels::DataType of(std::string_view name, std::size_t rows, std::size_t columns) const;

 private:
  kernels::DataType plain_ = kernels::DataType::kBF16;
  kernels::DataType products_, experts_;  // of matrices that are quantised, if any are
};

}  // namespace dovetail::load
