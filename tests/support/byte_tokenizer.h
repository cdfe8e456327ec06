#pragma once

#include "load/model_source.h"

namespace dovetail::test {

// The data of a byte-level tokenizer without merges: id b is byte b, 256 is <s>, 257 is </s>, 258
// is unused. Adds no BOS.
load::GgufTokenizer byte_tokenizer();

}  // namespace dovetail::test
