#include "pipeline/config/column_spec.h"

namespace dovetail::pipeline {

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
