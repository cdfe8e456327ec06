#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/kernels.h"
#include "load/model_source.h"
#include "model/cpu/type_set.h"

namespace dovetail::model {

// Of the panels of so many rows; 0 for types that stay as they are.
std::size_t packed_bytes(const kernels::Kernels& kernels, kernels::DataType type, std::size_t rows,
                         std::size_t columns);
// Of rows that pack_weights() makes of parts.
std::size_t made_bytes(kernels::DataType type, std::size_t rows, std::size_t columns);

// The matrices of one type that products may have in panels, in bytes: where they are packed and
// where they are not.
struct TypeBytes {
  kernels::DataType type = kernels::DataType::kF32;
  std::uint64_t packed = 0;
  std::uint64_t mapped = 0;  // rows in the files
  std::uint64_t made = 0;    // rows of what the files have in parts, which take memory of their own

  std::uint64_t rows() const { return mapped + made; }
};

// What the weights of a model take, in bytes.
struct WeightBytes {
  std::vector<TypeBytes> types;  // one for each that the model has, in the order of DataType
  // Packed or not: memory of their own (rows made of parts, matrices that latent attention turns),
  // and what products read in the mapped files.
  std::uint64_t own = 0;
  std::uint64_t mapped = 0;
  // In the mapped files, of which a token reads a row: embeddings, unless they are the output, too.
  std::uint64_t looked_up = 0;
};

// Of bind_weights(source, kernels, drafts), pack_weights() and the blocks' own panels together.
WeightBytes weight_bytes(const load::ModelSource& source, const kernels::Kernels& kernels,
                         bool drafts);

// What is held where matrices of the types `packed` are packed, in bytes.
struct HeldBytes {
  std::uint64_t own = 0;     // memory of its own, which the system cannot take back
  std::uint64_t mapped = 0;  // pages of files that products read; the system may take them back

  std::uint64_t all() const { return own + mapped; }
};
HeldBytes held_bytes(const WeightBytes& bytes, const TypeSet& packed);

// The types whose matrices are to be packed so that all that products read fits `memory` bytes:
// all; or without those whose panels are larger than their rows, as few of these as do, the ones
// that grow most first; or none, where that does not fit either. Nothing known of the memory: all.
TypeSet choose_packed(const WeightBytes& bytes, std::optional<std::uint64_t> memory);

}  // namespace dovetail::model
