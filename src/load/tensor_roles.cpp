#include "load/tensor_roles.h"

#include <algorithm>
#include <iterator>

namespace dovetail::load {

bool is_embedding(std::string_view name) {
  return name.ends_with("_embd.weight") || name == "token_types.weight";
}

bool is_read_by_rows(std::string_view name) {
  constexpr std::string_view kOfHeads[] = {".attn_kv_b.weight",
                                           ".attn_k_b.weight",
                                           ".attn_v_b.weight",
                                           ".attn_output_a.weight",
                                           ".ffn_token_experts.weight",
                                           ".fn",
                                           "_ape.weight"};
  return is_embedding(name) ||
         std::any_of(std::begin(kOfHeads), std::end(kOfHeads),
                     [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace dovetail::load
