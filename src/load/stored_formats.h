#pragma once

#include "load/parts_reader.h"

namespace dovetail::load {

// How each format stores a weight: what is needed to make rows of it. Each reads the parts of the
// weight that `reader` is at, whose codes are given, and leaves an error with it where they do not
// fit each other. What the formats are called, and which tensors they have: README.md.

// Of bytes (byte_formats.cpp).

// compressed-tensors' int-quantized and float-quantized, FP8: a byte each.
StoredParts byte_codes(PartsReader& reader, const Found& codes);

// FP8 of several matrices, outermost first. Scales and those of activations have the name of the
// codes and an ending.
StoredParts expert_codes(PartsReader& reader, const Found& codes);

// compressed-tensors' nvfp4-pack-quantized, and what ModelOpt stores: scales of 16 columns, and
// one of all, by which these are divided or, of ModelOpt, multiplied.
StoredParts nvfp4_codes(PartsReader& reader, const Found& codes);

// compressed-tensors' pairs of FP4, of either format, and DeepSeek-V4's experts.
StoredParts packed_floats(PartsReader& reader, const Found& codes);

// As gpt-oss stores it: rows of blocks of 16 bytes, of any number of matrices.
StoredParts mxfp4_blocks(PartsReader& reader, const Found& codes);

// Of words of 32 bits (word_formats.cpp).

// compressed-tensors' pack-quantized: four or eight bits of a row in words.
StoredParts packed_codes(PartsReader& reader, const Found& codes);

// [columns][rows / 8] words of codes, [groups][rows / 8] of zero points, [groups][rows] scales.
StoredParts awq_codes(PartsReader& reader, const Found& codes);

// Words of 8 or 4 columns of a row, [columns / 8][rows] of them, zero points and scales as AWQ has
// them, and the group of each column.
StoredParts gptq_codes(PartsReader& reader, const Found& codes);

}  // namespace dovetail::load
