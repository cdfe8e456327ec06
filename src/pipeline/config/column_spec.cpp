#include "pipeline/config/column_spec.h"

#include <array>

namespace dovetail::pipeline {

std::string_view ColumnDescription::type() const {
  // In the order of `what`.
  constexpr std::array<std::string_view, std::variant_size_v<decltype(what)>> kNames = {
      "seed",     "sampler",        "expression", "llm-text",
      "llm-code", "llm-structured", "llm-judge",  "validation"};
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
  const auto* validation = std::get_if<ValidationColumn>(&what);
  return validation != nullptr && std::holds_alternative<CommandCheck>(validation->check);
}

}  // namespace dovetail::pipeline
