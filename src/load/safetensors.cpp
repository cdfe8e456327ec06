#include "load/safetensors.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "load/byte_reader.h"
#include "load/json_fields.h"
#include "load/quote.h"

namespace dovetail::load {
namespace {

using nlohmann::json;

constexpr std::size_t kMostShape = 8;

struct SafetensorsType {
  std::string_view name;
  std::uint64_t bytes;
  std::optional<kernels::DataType> type;
};

constexpr auto kSafetensorsTypes = std::to_array<SafetensorsType>({
    {"F32", 4, kernels::DataType::kF32},
    {"F16", 2, kernels::DataType::kF16},
    {"BF16", 2, kernels::DataType::kBF16},
    {"F64", 8, {}},
    {"I64", 8, {}},
    {"U64", 8, {}},
    {"I32", 4, {}},
    {"U32", 4, {}},
    {"I16", 2, {}},
    {"U16", 2, {}},
    {"I8", 1, {}},
    {"U8", 1, {}},
    {"BOOL", 1, {}},
    {"F8_E4M3", 1, {}},
    {"F8_E5M2", 1, {}},
    {"F8_E8M0", 1, {}},
});

std::string safetensors_type_names() {
  std::string names;
  for (const SafetensorsType& type : kSafetensorsTypes) {
    if (!names.empty()) names += ", ";
    names += type.name;
  }
  return names;
}

class SafetensorsParser {
 public:
  SafetensorsParser(std::span<const std::byte> data, std::string_view file)
      : data_(data), file_(file) {}

  Result<std::vector<SafetensorsTensor>> parse(const json& header) {
    std::vector<SafetensorsTensor> tensors;
    for (const auto& [name, description] : header.items()) {
      if (name == "__metadata__") {
        if (!description.is_object()) {
          return fail(ErrorKind::kInvalid, "{}: __metadata__: {}; valid: an object", file_,
                      text_of(description));
        }
        continue;
      }
      auto tensor = parse_tensor(name, description);
      if (!tensor) return fail(tensor.error());
      tensors.push_back(*std::move(tensor));
    }
    if (auto status = check_layout(tensors); !status) return fail(status.error());
    return tensors;
  }

 private:
  Result<SafetensorsTensor> parse_tensor(const std::string& name, const json& description) {
    if (!description.is_object()) return reject(name, text_of(description), "an object");
    SafetensorsTensor out;
    out.name = name;
    const auto dtype = description.find("dtype");
    const SafetensorsType* stored = kSafetensorsTypes.end();
    if (dtype != description.end() && dtype->is_string()) {
      stored = std::find_if(kSafetensorsTypes.begin(), kSafetensorsTypes.end(),
                            [&](const SafetensorsType& known) { return *dtype == known.name; });
    }
    if (stored == kSafetensorsTypes.end()) {
      return reject(name, "dtype " + (dtype == description.end() ? "missing" : text_of(*dtype)),
                    safetensors_type_names(), ErrorKind::kUnsupported);
    }
    out.stored_type = stored->name;
    out.type = stored->type;

    const auto shape = description.find("shape");
    const bool is_list =
        shape != description.end() && shape->is_array() && shape->size() <= kMostShape &&
        std::all_of(shape->begin(), shape->end(),
                    [](const json& dimension) { return dimension.is_number_unsigned(); });
    if (!is_list) {
      return reject(name, "shape " + (shape == description.end() ? "missing" : text_of(*shape)),
                    fmt::format("a list of at most {} sizes", kMostShape));
    }
    std::uint64_t elements = 1;
    bool empty = false;
    for (const json& dimension : *shape) {
      out.shape.push_back(dimension.get<std::uint64_t>());
      empty = empty || out.shape.back() == 0;
    }
    for (const std::uint64_t dimension : out.shape) {
      if (empty) break;
      // No more elements than the file has bytes, so that no product can overflow.
      if (dimension > data_.size() / elements) {
        return reject(name, "shape " + shape_text(out.shape),
                      fmt::format("what fits into the {} bytes of data", data_.size()));
      }
      elements *= dimension;
    }
    const std::uint64_t size = empty ? 0 : elements * stored->bytes;

    const auto offsets = description.find("data_offsets");
    const bool is_pair = offsets != description.end() && offsets->is_array() &&
                         offsets->size() == 2 && (*offsets)[0].is_number_unsigned() &&
                         (*offsets)[1].is_number_unsigned();
    if (!is_pair) {
      return reject(
          name, "data_offsets " + (offsets == description.end() ? "missing" : text_of(*offsets)),
          "[begin, end]");
    }
    const auto begin = (*offsets)[0].get<std::uint64_t>();
    const auto end = (*offsets)[1].get<std::uint64_t>();
    if (begin > end || end > data_.size()) {
      return reject(name, fmt::format("data_offsets [{}, {}]", begin, end),
                    fmt::format("within the {} bytes of data that the file has (cut short, or a "
                                "wrong offset)",
                                data_.size()));
    }
    if (end - begin != size) {
      return reject(name, fmt::format("data_offsets [{}, {}], {} bytes", begin, end, end - begin),
                    fmt::format("{} bytes for shape {} of dtype {}", size, shape_text(out.shape),
                                stored->name));
    }
    out.data = data_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size));
    return out;
  }

  Status check_layout(const std::vector<SafetensorsTensor>& tensors) const {
    std::vector<const SafetensorsTensor*> order;
    for (const SafetensorsTensor& tensor : tensors) {
      if (!tensor.data.empty()) order.push_back(&tensor);
    }
    std::sort(order.begin(), order.end(),
              [](const auto* a, const auto* b) { return a->data.data() < b->data.data(); });
    const std::byte* end = data_.data();
    const SafetensorsTensor* before = nullptr;
    for (const SafetensorsTensor* tensor : order) {
      if (tensor->data.data() < end) {
        return fail(ErrorKind::kInvalid,
                    "{}: tensor {}: begins at offset {}, within tensor {}; valid: tensors that do "
                    "not overlap",
                    file_, quote(tensor->name), tensor->data.data() - data_.data(),
                    quote(before->name));
      }
      before = tensor;
      end = tensor->data.data() + tensor->data.size();
    }
    const auto left = static_cast<std::size_t>(data_.data() + data_.size() - end);
    if (left != 0) {
      return fail(ErrorKind::kInvalid,
                  "{}: {} bytes after the last tensor; valid: a file that ends with its last "
                  "tensor",
                  file_, left);
    }
    return {};
  }

  tl::unexpected<Error> reject(std::string_view name, std::string_view value,
                               std::string_view valid, ErrorKind kind = ErrorKind::kInvalid) const {
    return fail(kind, "{}: tensor {}: {}; valid: {}", file_, quote(name), value, valid);
  }

  std::span<const std::byte> data_;
  std::string_view file_;
};

}  // namespace

Result<std::vector<SafetensorsTensor>> parse_safetensors(std::span<const std::byte> bytes,
                                                         std::string_view file) {
  ByteReader reader(bytes, file);
  const auto length = reader.number<std::uint64_t>("header length");
  if (reader.ok() && length > kLargestSafetensorsHeader) {
    return fail(ErrorKind::kInvalid, "{}: header length: {}; valid: at most {}, and the file's {}",
                file, length, kLargestSafetensorsHeader, bytes.size());
  }
  const auto text = reader.take(length, "header");
  if (!reader.ok()) return fail(reader.error());
  const auto header = parse_json_object({reinterpret_cast<const char*>(text.data()), text.size()},
                                        file, kLargestSafetensorsHeader);
  if (!header) return fail(header.error());
  return SafetensorsParser(bytes.subspan(reader.offset()), file).parse(*header);
}

}  // namespace dovetail::load
