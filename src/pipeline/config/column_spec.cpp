#include "pipeline/config/column_spec.h"

#include <array>

namespace dovetail::pipeline {

std::string spelled(const Json& score) {
  return score.is_string() ? score.get<std::string>() : score.dump();
}

std::string_view ColumnDescription::type() const {
  // In the order of `what`.
  constexpr std::array<std::string_view, std::variant_size_v<decltype(what)> - 1> kNames = {
      "seed",     "sampler",        "expression", "llm-text",
      "llm-code", "llm-structured", "llm-judge",  "validation"};
  if (const auto* own = std::get_if<OwnColumn>(&what)) return own->type;
  return kNames[what.index()];
}

const ModelCall* ColumnDescription::call() const {
  return std::visit(
      [](const auto& column) -> const ModelCall* {
        if constexpr (requires { column.call; }) return &column.call;
        return nullptr;
      },
      what);
}

const std::string* ColumnDescription::model() const {
  const ModelCall* asked = call();
  return asked == nullptr ? nullptr : &asked->model;
}

bool ColumnDescription::blocks() const {
  if (const auto* own = std::get_if<OwnColumn>(&what)) return own->blocks;
  const auto* validation = std::get_if<ValidationColumn>(&what);
  return validation != nullptr && std::holds_alternative<CommandCheck>(validation->check);
}

std::string cut_mark(const ColumnDescription& column) {
  return std::holds_alternative<TextColumn>(column.what) ? column.name + "_cut" : "";
}

}  // namespace dovetail::pipeline
