#pragma once

#include "families/common.h"

namespace dovetail::families {

// Cross-encoders: models of which a head makes a score of a query and a document.

// What a config.json says of the numbers that its class for sequences gives: one, which is the
// score as it is, or its sigmoid, as sentence-transformers has it where nothing is said.
load::Score read_score(Fields& fields);

// A head of two products, the first through a function: cls and cls.output, with biases.
void add_rank_head(ModelConfig& config, load::HeadFunction function);

// The head of a GGUF file, if it has one: cls, through tanh, as far as it is there, and cls.output.
// The score is the sigmoid; files say nothing of it.
void read_rank_head_of_gguf(Fields& fields, ModelConfig& config);

}  // namespace dovetail::families
