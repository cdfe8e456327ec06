#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/result.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

struct PackOptions {
  std::uint32_t threads = 1;
  TypeSet types =
      TypeSet::all();  // to be packed; matrices of others that have data stay as they are
  // Told from time to time how many bytes of all there are have been made, by one thread at a
  // time; may be empty.
  std::function<void(std::size_t done, std::size_t all)> progress;
};

// Packs every matrix of block types that products read, and makes rows of those that are stored in
// parts and not packed, on `threads` threads, into memory that the weights keep alive: pages of the
// mapped files are given back as their matrices are done, so that at most the panels, which
// weight_bytes() counts, one matrix per thread as the file has it and what is read ahead (64 MiB,
// or the next matrix whole where it lies in parts) are in memory. Embeddings, of which single rows
// are looked up, are never packed. An error says how much memory is wanted and, where that helps,
// that weights can stay in their files.
Status pack_weights(ModelWeights& weights, const kernels::Kernels& kernels,
                    const PackOptions& options);

}  // namespace dovetail::model
