#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "load/container.h"
#include "load/model_config.h"

namespace dovetail::load {

// What stands behind the transformer in a folder of sentence-transformers
// (https://www.sbert.net/docs/sentence_transformer/usage/custom_models.html): the folders within it
// that have the configuration of the pooling, empty where there is none, and of each dense layer.
struct ModulePlaces {
  std::string pooling;
  std::vector<std::string> dense;
};

// Reads modules.json. An error names the module: its kind, its place in the order.
Result<ModulePlaces> read_module_places(const NamedText& modules);

// How a pooling's config.json makes one row of an embedder's hidden rows.
Result<Pooling> read_pooling(const NamedText& config);

// The layer of a dense module's config.json, whose tensors are NAME.weight and NAME.bias.
Result<HeadConfig> read_dense(const NamedText& config, std::string name);

}  // namespace dovetail::load
