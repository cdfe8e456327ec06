#include "families/turned_experts.h"

#include <fmt/core.h>

#include <memory>
#include <utility>

#include "load/quote.h"
#include "load/stored_parts.h"

namespace dovetail::families {

Status turn(load::StoredTensor& tensor) {
  const auto reject = [&](const std::string& value, std::string_view valid) {
    return fail(ErrorKind::kUnsupported, "{}: tensor {}: {}; valid: {}", tensor.file,
                load::quote(tensor.stored_name), value, valid);
  };
  if (tensor.parts || !tensor.type || !kernels::is_plain(*tensor.type)) {
    return reject(fmt::format("type {}", load::quote(tensor.stored_type)), "F32, F16 or BF16");
  }
  if (tensor.shape.size() != 3) {
    return reject("shape " + load::shape_text(tensor.shape),
                  "three dimensions, of which experts are one");
  }
  std::swap(tensor.shape[1], tensor.shape[2]);
  load::StoredParts parts;
  parts.type = *tensor.type;
  parts.rows = tensor.shape[0] * tensor.shape[1];
  parts.columns = tensor.shape[2];
  parts.codes = load::StoredParts::Codes::kColumns;
  parts.bytes = tensor.data;
  parts.column_rows = tensor.shape[1];
  tensor.parts = std::make_shared<const load::StoredParts>(parts);
  tensor.data = {};
  return {};
}

}  // namespace dovetail::families
