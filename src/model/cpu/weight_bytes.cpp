#include "model/cpu/weight_bytes.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>

#include "load/tensor_roles.h"
#include "model/cpu/weights.h"

namespace dovetail::model {
namespace {

using kernels::kPanelRows;

constexpr std::size_t kAlignment = 64;  // of matrices in one memory

// Rows of a matrix that are multiplied together (HeadMatrix), and how many times.
struct HeadPart {
  std::size_t heads = 0, rows = 0;
};

// What blocks make of the tensors of their layers, by name.
struct OfHeads {
  std::map<std::string, std::vector<HeadPart>> panels;  // that begin anew with each head
  std::map<std::string, std::size_t> turned;            // elements that are held once more
};

void add_heads(const load::LayerConfig& layer, const std::string& prefix, OfHeads& out) {
  if (const load::LatentConfig* latent = layer.latent()) {
    const std::size_t heads = latent->heads;
    const std::string keys = prefix + (latent->split ? "attn_k_b.weight" : "attn_kv_b.weight");
    out.turned[keys] = heads * latent->latent_dim * latent->key_dim;
    if (latent->split) {
      out.panels[keys] = {{heads, latent->latent_dim}};
      out.panels[prefix + "attn_v_b.weight"] = {{heads, latent->value_dim}};
    } else {
      out.panels[keys] = {{heads, latent->key_dim}, {heads, latent->value_dim}};
    }
  } else if (const load::CompressedConfig* compressed = layer.compressed()) {
    out.panels[prefix + "attn_output_a.weight"] = {{compressed->groups, compressed->group_rank}};
  }
}

OfHeads of_heads(const load::ModelConfig& config, bool drafts) {
  OfHeads out;
  for (std::size_t i = 0; i < config.layers.size(); ++i)
    add_heads(config.layers[i], "blk." + std::to_string(i) + ".", out);
  if (drafts && config.draft_layer) add_heads(*config.draft_layer, config.draft_prefix(), out);
  return out;
}

// How a tensor is read.
enum class Reader : std::uint8_t {
  kProducts,  // whole matrices
  kHeads,     // matrices of heads, of panels of their own
  kRowByRow,  // rows from any on, all of them
  kLookUp,    // a row of a token
};

class Count {
 public:
  explicit Count(const kernels::Kernels& kernels) : kernels_(kernels) {}

  void add(const load::TensorView& view, Reader reader, std::uint64_t packed) {
    const std::uint64_t made =
        view.parts != nullptr ? made_bytes(view.type, view.rows, view.columns) : 0;
    const std::uint64_t mapped = view.parts != nullptr ? 0 : view.bytes();
    if (reader == Reader::kLookUp && mapped > 0) {
      out_.looked_up += mapped;
    } else if (packed == 0) {
      out_.own += made;
      out_.mapped += mapped;
    } else {
      TypeBytes& type = types_[static_cast<std::size_t>(view.type)];
      type.packed += packed;
      type.mapped += mapped;
      // Panels of heads are copies beside the rows that were made.
      (reader == Reader::kHeads ? out_.own : type.made) += made;
    }
  }

  void add_own(std::uint64_t bytes) { out_.own += bytes; }

  std::uint64_t packed(const load::TensorView& view, std::span<const HeadPart> parts) const {
    std::uint64_t bytes = 0;
    for (const HeadPart& part : parts)
      bytes += part.heads * packed_bytes(kernels_, view.type, part.rows, view.columns);
    return bytes;
  }
  std::uint64_t packed(const load::TensorView& view) const {
    return packed_bytes(kernels_, view.type, view.rows, view.columns);
  }

  WeightBytes take() {
    for (std::size_t i = 0; i < types_.size(); ++i) {
      if (types_[i].packed == 0) continue;
      types_[i].type = static_cast<kernels::DataType>(i);
      out_.types.push_back(types_[i]);
    }
    return std::move(out_);
  }

 private:
  const kernels::Kernels& kernels_;
  std::array<TypeBytes, kernels::kDataTypes> types_;
  WeightBytes out_;
};

constexpr std::string_view kEmbedding = "token_embd.weight";

}  // namespace

std::size_t packed_bytes(const kernels::Kernels& kernels, kernels::DataType type, std::size_t rows,
                         std::size_t columns) {
  return (rows + kPanelRows - 1) / kPanelRows * kernels.panel_bytes(type, columns);
}

std::size_t made_bytes(kernels::DataType type, std::size_t rows, std::size_t columns) {
  const std::size_t bytes = rows * kernels::row_bytes(type, columns);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

WeightBytes weight_bytes(const load::ModelSource& source, const kernels::Kernels& kernels,
                         bool drafts) {
  const load::ModelConfig& config = source.config;
  const std::string of_drafts = config.draft_layer && !drafts ? config.draft_prefix() : "";
  const OfHeads heads = of_heads(config, drafts);
  Count count(kernels);
  for (const auto& [name, view] : source.tensors) {
    if (!of_drafts.empty() && name.starts_with(of_drafts)) continue;
    if (const auto turned = heads.turned.find(name); turned != heads.turned.end()) {
      const kernels::DataType type =
          kernels::is_plain(view.type) ? view.type : kernels::DataType::kF32;
      count.add_own(turned->second * kernels::row_bytes(type, 1));
    }
    if (const auto panels = heads.panels.find(name); panels != heads.panels.end()) {
      count.add(view, Reader::kHeads, count.packed(view, panels->second));
      continue;
    }
    if (load::is_embedding(name)) {
      const bool is_output = config.tied_embeddings && name == kEmbedding;
      if (is_output) count.add(view, Reader::kProducts, count.packed(view));
      // As the output it has been counted; rows made of parts are made for each of the two.
      if (!is_output || view.parts != nullptr) count.add(view, Reader::kLookUp, 0);
      continue;
    }
    const bool by_rows = load::is_read_by_rows(name);
    count.add(view, by_rows ? Reader::kRowByRow : Reader::kProducts,
              by_rows ? 0 : count.packed(view));
  }
  return count.take();
}

HeldBytes held_bytes(const WeightBytes& bytes, const TypeSet& packed) {
  HeldBytes held{bytes.own, bytes.mapped};
  for (const TypeBytes& type : bytes.types) {
    if (packed.has(type.type)) {
      held.own += type.packed;
    } else {
      held.own += type.made;
      held.mapped += type.mapped;
    }
  }
  return held;
}

TypeSet choose_packed(const WeightBytes& bytes, std::optional<std::uint64_t> memory) {
  TypeSet packed = TypeSet::all();
  const auto fits = [&] { return !memory || held_bytes(bytes, packed).all() <= *memory; };
  if (fits()) return packed;
  const auto growth = [](const TypeBytes& type) {
    return static_cast<double>(type.packed) / static_cast<double>(type.rows());
  };
  std::vector<TypeBytes> growing;
  std::copy_if(bytes.types.begin(), bytes.types.end(), std::back_inserter(growing),
               [](const TypeBytes& type) { return type.packed > type.rows(); });
  std::stable_sort(
      growing.begin(), growing.end(),
      [&](const TypeBytes& left, const TypeBytes& right) { return growth(left) > growth(right); });
  for (const TypeBytes& type : growing) {
    packed.remove(type.type);
    if (fits()) return packed;
  }
  return {};
}

}  // namespace dovetail::model
