#include "families/ranker.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "load/json_fields.h"
#include "load/quote.h"

namespace dovetail::families {
namespace {

constexpr std::string_view kIdentity = "torch.nn.modules.linear.Identity";
constexpr std::string_view kSigmoid = "torch.nn.modules.activation.Sigmoid";

load::HeadConfig part_of_gguf(Fields& fields, const std::string& name) {
  load::HeadConfig part;
  part.name = name;
  part.bias = fields.has_tensor(name + ".bias");
  if (const load::StoredTensor* weight = fields.tensor(name + ".weight")) {
    // A vector is a matrix of one row.
    const std::uint64_t rows = weight->shape.size() < 2 ? 1 : weight->shape.front();
    part.size =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(rows, load::kLargestHiddenSize + 1ULL));
  }
  return part;
}

}  // namespace

load::Score read_score(Fields& fields) {
  const nlohmann::json* labels = fields.member("id2label");
  const bool listed = labels != nullptr && labels->is_object();
  const std::size_t count =
      listed ? labels->size() : fields.count({"", "num_labels"}, 0, 1U << 20U).value_or(2);
  if (count != 1) {
    fields.reject({"", listed ? "id2label" : "num_labels"}, fmt::format("{} labels", count),
                  "one label, whose number is a document's score");
  }
  std::string function(kSigmoid);
  Key where = {"", "sbert_ce_default_activation_function"};
  if (const auto older = fields.text(where)) function = *older;
  const nlohmann::json* newer = fields.member("sentence_transformers");
  if (newer != nullptr && newer->is_object()) {
    const auto found = newer->find("activation_fn");
    if (found != newer->end() && found->is_string()) {
      where = {"", "sentence_transformers.activation_fn"};
      function = found->get<std::string>();
    }
  }
  if (function == kIdentity) return load::Score::kNumber;
  if (function != kSigmoid) {
    fields.reject(where, load::quote(function), fmt::format("{}, {}", kIdentity, kSigmoid));
  }
  return load::Score::kSigmoid;
}

void add_rank_head(ModelConfig& config, load::HeadFunction function) {
  load::HeadConfig first;
  first.name = "cls";
  first.size = config.hidden_size;
  first.bias = true;
  first.function = function;
  load::HeadConfig second;
  second.name = "cls.output";
  second.size = 1;
  second.bias = true;
  config.head = {first, second};
}

void read_rank_head_of_gguf(Fields& fields, ModelConfig& config) {
  if (fields.has_tensor("cls.weight")) {
    load::HeadConfig first = part_of_gguf(fields, "cls");
    first.function = load::HeadFunction::kTanh;
    config.head.push_back(first);
  }
  if (!fields.has_tensor("cls.output.weight")) return;
  config.head.push_back(part_of_gguf(fields, "cls.output"));
  config.score = load::Score::kSigmoid;
  config.pooling = load::Pooling::kFirst;
}

}  // namespace dovetail::families
