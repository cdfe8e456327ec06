#include "engine/packing.h"

#include <fmt/core.h>

#include <algorithm>

namespace dovetail::engine {
namespace {

// Of what is free, a share for all else: rows of a step, the tokenizer, other processes.
constexpr std::uint64_t kSpareShare = 16;

std::string names_of(const std::vector<kernels::DataType>& types) {
  std::string names;
  for (const kernels::DataType& type : types) {
    if (!names.empty()) names += &type == &types.back() ? " and " : ", ";
    names += kernels::info(type).name;
  }
  return names;
}

// Of an automatic cache, the share that weights are packed beside.
constexpr std::uint64_t kAutomaticShare = 4;

// What would have all of it packed, where `room` bytes can be used and `wanted` are.
std::string remedy(std::uint64_t room, std::uint64_t wanted) {
  if (wanted < room) {
    return fmt::format("a cache of at most {} (--kv-memory) or --always-pack packs them",
                       binary_bytes(room - wanted));
  }
  return fmt::format("{} more memory or --always-pack packs them", binary_bytes(wanted - room));
}

}  // namespace

std::uint64_t expected_cache(const ResolvedOptions& resolved) {
  const EngineOptions& options = resolved.options;
  const std::uint64_t state = resolved.cache_shape.state_floats() * sizeof(float);
  const std::uint64_t grows =
      options.kv_blocks * std::uint64_t{resolved.cache_shape.block_bytes()} +
      options.saved_states * state;
  return options.max_num_seqs * state +
         (resolved.automatic_cache ? grows / kAutomaticShare : grows);
}

Packing plan_packing(const load::ModelSource& source, const ResolvedOptions& resolved,
                     std::uint64_t cache, std::optional<std::uint64_t> available) {
  const EngineOptions& options = resolved.options;
  Packing packing;
  packing.bytes = model::weight_bytes(source, *resolved.kernels, resolved.draft_tokens > 0);
  if (!options.pack_weights) return packing;
  packing.types = model::TypeSet::all();
  if (options.always_pack || !available) return packing;
  const std::uint64_t room = *available - *available / kSpareShare;
  const std::uint64_t memory = room - std::min(room, cache);
  const model::HeldBytes wanted = model::held_bytes(packing.bytes, packing.types);
  packing.types = model::choose_packed(packing.bytes, memory);
  for (const model::TypeBytes& type : packing.bytes.types) {
    if (!packing.types.has(type.type)) packing.left.push_back(type.type);
  }
  if (packing.left.empty()) return packing;
  const model::HeldBytes held = model::held_bytes(packing.bytes, packing.types);
  packing.notice = fmt::format(
      "weights: packed they take {}, and of {} that are free {} are left beside the cache ({}); {} "
      "{} in the mapped file, so that weights take {} of their own and {} there: slower, the same "
      "answers; {}",
      binary_bytes(wanted.all()), binary_bytes(*available), binary_bytes(memory),
      binary_bytes(cache), names_of(packing.left), packing.left.size() == 1 ? "stays" : "stay",
      binary_bytes(held.own), binary_bytes(held.mapped), remedy(room, wanted.all()));
  return packing;
}

}  // namespace dovetail::engine
