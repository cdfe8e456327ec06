#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"
#include "load/model_config.h"
#include "load/model_source.h"
#include "load/stored_tensor.h"

namespace dovetail::load {

// Before the names of tensors that change nothing.
inline constexpr std::string_view kSparePrefix = "spare/";

// Picks the tensors that the configuration calls for and checks type and shape of each; a tensor
// of all experts of a layer is cut into one view for each. A tensor that is left over is an error
// if leaving it out would change what the model computes. `source` names the model in errors about
// a tensor that is missing.
Result<std::unordered_map<std::string, TensorView>> bind_tensors(const ModelConfig& config,
                                                                 const StoredTensors& stored,
                                                                 std::string_view source);

// The tensors that the configuration calls for where none are there: their shapes, and the types
// that `type_of` says by name, rows and columns. They have no data, and those of all experts of a
// layer are one (NAME_exps).
using TypeOfTensor = std::function<kernels::DataType(const std::string&, std::size_t, std::size_t)>;
Result<std::unordered_map<std::string, TensorView>> describe_tensors(const ModelConfig& config,
                                                                     const TypeOfTensor& type_of);

// Whether the numbers of a configuration are within what the loader takes at all, and agree with
// each other. `source` names the model in errors.
Status check_config(const ModelConfig& config, std::string_view source);

}  // namespace dovetail::load
