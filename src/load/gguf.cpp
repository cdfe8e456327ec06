#include "load/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_set>

#include "load/byte_reader.h"

namespace dovetail::load {
namespace {

constexpr std::uint32_t kDefaultAlignment = 32;
constexpr std::uint32_t kLargestAlignment = 1U << 30U;
constexpr std::size_t kLongestKey = 65535;
constexpr std::size_t kLongestTensorName = 64;
constexpr std::uint32_t kMostDimensions = 4;
constexpr int kDeepestArray = 8;
// The least that an entry can take: length, a character, type and value; length, a character, rank,
// one dimension, type and offset.
constexpr std::size_t kSmallestPair = 8 + 1 + 4 + 1;
constexpr std::size_t kSmallestTensorInfo = 8 + 1 + 4 + 8 + 4 + 8;

struct GgufTensorType {
  std::uint32_t number;
  std::string_view name;
};

// Whole numbers, which tables have.
constexpr GgufTensorType kWholeNumbers = {26, "I32"};

// The numbers of ggml's tensor types that no tensor may have here.
constexpr auto kRefusedTypes = std::to_array<GgufTensorType>({
    {9, "Q8_1"},
    {15, "Q8_K"},
    {24, "I8"},
    {25, "I16"},
    {27, "I64"},
    {28, "F64"},
    {41, "Q1_0"},
});

// Walks one value without keeping anything of its inside.
void skip_elements(ByteReader& reader, GgufType type, std::uint64_t count, int depth,
                   std::string_view key, std::optional<Error>& error, std::string_view file);

bool is_known(std::uint32_t type) { return type <= static_cast<std::uint32_t>(GgufType::kFloat64); }

Error unknown_value_type(std::string_view file, std::string_view key, std::uint32_t type) {
  return {ErrorKind::kInvalid,
          fmt::format("{}: metadata {}: value type {}; valid: 0 to 12", file, quote(key), type)};
}

void skip_array(ByteReader& reader, int depth, std::string_view key, std::optional<Error>& error,
                std::string_view file, GgufValue* out) {
  const auto element = reader.number<std::uint32_t>(key);
  const auto count = reader.number<std::uint64_t>(key);
  if (!reader.ok()) return;
  if (!is_known(element)) {
    error = unknown_value_type(file, key, element);
    return;
  }
  if (depth >= kDeepestArray) {
    error = Error{ErrorKind::kInvalid,
                  fmt::format("{}: metadata {}: arrays nested {} deep; valid: at most {}", file,
                              quote(key), depth + 1, kDeepestArray)};
    return;
  }
  const auto type = static_cast<GgufType>(element);
  if (out != nullptr) {
    out->element_type = type;
    out->count = count;
  }
  skip_elements(reader, type, count, depth, key, error, file);
}

void skip_elements(ByteReader& reader, GgufType type, std::uint64_t count, int depth,
                   std::string_view key, std::optional<Error>& error, std::string_view file) {
  if (const std::size_t size = size_of(type); size != 0) {
    if (reader.can_hold(count, size, key)) reader.take(count * size, key);
    return;
  }
  const std::size_t smallest = type == GgufType::kString ? 8 : 12;
  if (!reader.can_hold(count, smallest, key)) return;
  for (std::uint64_t i = 0; i < count && reader.ok() && !error; ++i) {
    if (type == GgufType::kString) {
      reader.string(key);
    } else {
      skip_array(reader, depth + 1, key, error, file, nullptr);
    }
  }
}

class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, std::string_view file)
      : bytes_(bytes), file_(file), reader_(bytes, file) {}

  Result<GgufFile> parse() {
    GgufFile out;
    if (auto status = read_header(out); !status) return fail(status.error());
    if (auto status = read_metadata(out); !status) return fail(status.error());
    if (auto status = read_tensors(out); !status) return fail(status.error());
    return out;
  }

 private:
  Status read_header(GgufFile& out) {
    const auto magic = reader_.take(4, "magic");
    out.version = reader_.number<std::uint32_t>("version");
    tensor_count_ = reader_.number<std::uint64_t>("tensor_count");
    pair_count_ = reader_.number<std::uint64_t>("metadata_kv_count");
    const std::string_view text(reinterpret_cast<const char*>(magic.data()), magic.size());
    if (magic.size() == 4 && text != "GGUF") {
      return fail(ErrorKind::kInvalid, "{}: magic: {}; valid: 'GGUF'", file_, quote(text));
    }
    if (out.version == 0x02000000 || out.version == 0x03000000) {
      return fail(ErrorKind::kUnsupported,
                  "{}: version: {}, a big-endian file; valid: 2 or 3, little-endian", file_,
                  out.version);
    }
    if (reader_.ok() && out.version != 2 && out.version != 3) {
      return fail(ErrorKind::kUnsupported, "{}: version: {}; valid: 2 or 3", file_, out.version);
    }
    reader_.can_hold(pair_count_, kSmallestPair, "metadata_kv_count");
    reader_.can_hold(tensor_count_, kSmallestTensorInfo, "tensor_count");
    return reader_status();
  }

  Status read_metadata(GgufFile& out) {
    for (std::uint64_t i = 0; i < pair_count_; ++i) {
      const std::string_view key = reader_.string("metadata key");
      if (!reader_.ok()) return reader_status();
      if (key.empty() || key.size() > kLongestKey) {
        return fail(ErrorKind::kInvalid, "{}: metadata key {}: {} bytes long; valid: 1 to {}",
                    file_, i, key.size(), kLongestKey);
      }
      auto value = read_value(key);
      if (!value) return fail(value.error());
      if (!out.metadata.emplace(key, *value).second) {
        return fail(ErrorKind::kInvalid, "{}: metadata {}: given twice; valid: once", file_,
                    quote(key));
      }
    }
    const auto found = out.metadata.find("general.alignment");
    if (found == out.metadata.end()) return {};
    const GgufValue& value = found->second;
    if (value.type != GgufType::kUint32) {
      return fail(ErrorKind::kInvalid, "{}: metadata 'general.alignment': a {}; valid: a uint32",
                  file_, name_of(value.type));
    }
    std::memcpy(&alignment_, value.bytes.data(), sizeof(alignment_));
    if (!std::has_single_bit(alignment_) || alignment_ < 8 || alignment_ > kLargestAlignment) {
      return fail(ErrorKind::kInvalid,
                  "{}: metadata 'general.alignment': {}; valid: a power of two from 8 to {}", file_,
                  alignment_, kLargestAlignment);
    }
    return {};
  }

  Result<GgufValue> read_value(std::string_view key) {
    GgufValue value;
    const auto type = reader_.number<std::uint32_t>(key);
    if (!is_known(type)) return fail(unknown_value_type(file_, key, type));
    value.type = static_cast<GgufType>(type);
    if (const std::size_t size = size_of(value.type); size != 0) {
      value.bytes = reader_.take(size, key);
    } else if (value.type == GgufType::kString) {
      value.bytes = std::as_bytes(std::span(reader_.string(key)));
    } else {
      const std::size_t header = 4 + 8;
      const std::size_t begin = reader_.offset() + header;
      std::optional<Error> error;
      skip_array(reader_, 0, key, error, file_, &value);
      if (error) return fail(*std::move(error));
      if (reader_.ok()) value.bytes = bytes_.subspan(begin, reader_.offset() - begin);
    }
    if (!reader_.ok()) return fail(reader_.error());
    return value;
  }

  Status read_tensors(GgufFile& out) {
    if (!reader_.can_hold(tensor_count_, kSmallestTensorInfo, "tensor_count")) {
      return reader_status();
    }
    out.tensors.reserve(static_cast<std::size_t>(tensor_count_));
    std::unordered_set<std::string_view> names;
    std::vector<std::uint64_t> offsets;
    offsets.reserve(static_cast<std::size_t>(tensor_count_));
    std::vector<std::uint64_t> sizes;
    sizes.reserve(static_cast<std::size_t>(tensor_count_));
    for (std::uint64_t i = 0; i < tensor_count_; ++i) {
      GgufTensor tensor;
      tensor.name = reader_.string("tensor name");
      if (!reader_.ok()) return reader_status();
      if (tensor.name.empty() || tensor.name.size() > kLongestTensorName) {
        return fail(ErrorKind::kInvalid, "{}: tensor {}: a name of {} bytes; valid: 1 to {}", file_,
                    i, tensor.name.size(), kLongestTensorName);
      }
      if (!names.insert(tensor.name).second) {
        return fail(ErrorKind::kInvalid, "{}: tensor {}: given twice; valid: once", file_,
                    quote(tensor.name));
      }
      auto size = read_shape_and_type(tensor);
      if (!size) return fail(size.error());
      sizes.push_back(*size);
      const auto offset = reader_.number<std::uint64_t>(tensor.name);
      if (!reader_.ok()) return reader_status();
      if (offset % alignment_ != 0) {
        return fail(ErrorKind::kInvalid, "{}: tensor {}: offset {}; valid: a multiple of {}", file_,
                    quote(tensor.name), offset, alignment_);
      }
      offsets.push_back(offset);
      out.tensors.push_back(std::move(tensor));
    }
    return place(out, offsets, sizes);
  }

  // Returns the bytes that the tensor's data take.
  Result<std::uint64_t> read_shape_and_type(GgufTensor& tensor) {
    const auto rank = reader_.number<std::uint32_t>(tensor.name);
    if (!reader_.ok()) return fail(reader_.error());
    if (rank < 1 || rank > kMostDimensions) {
      return fail(ErrorKind::kInvalid, "{}: tensor {}: {} dimensions; valid: 1 to {}", file_,
                  quote(tensor.name), rank, kMostDimensions);
    }
    tensor.shape.resize(rank);
    for (auto it = tensor.shape.rbegin(); it != tensor.shape.rend(); ++it) {
      *it = reader_.number<std::uint64_t>(tensor.name);
    }
    const auto number = reader_.number<std::uint32_t>(tensor.name);
    if (!reader_.ok()) return fail(reader_.error());
    tensor.type = kernels::gguf_type(number);
    kernels::DataTypeInfo layout = {};
    if (tensor.type) {
      layout = info(*tensor.type);
    } else if (number == kWholeNumbers.number) {
      layout.name = kWholeNumbers.name;
      layout.elements_per_block = 1;
      layout.bytes_per_block = sizeof(std::int32_t);
    } else {
      const auto* known = std::find_if(
          kRefusedTypes.begin(), kRefusedTypes.end(),
          [number](const GgufTensorType& refused) { return refused.number == number; });
      return fail(ErrorKind::kUnsupported, "{}: tensor {}: type {} ({}); valid: {}", file_,
                  quote(tensor.name), number,
                  known == kRefusedTypes.end() ? "unknown" : known->name,
                  kernels::gguf_type_names());
    }
    tensor.stored_type = layout.name;
    const std::uint64_t columns = tensor.shape.back();
    if (columns % layout.elements_per_block != 0) {
      return fail(ErrorKind::kInvalid,
                  "{}: tensor {}: rows of {} elements of type {}; valid: a multiple of {}", file_,
                  quote(tensor.name), columns, layout.name, layout.elements_per_block);
    }
    std::uint64_t blocks = 1;
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      const bool innermost = i + 1 == tensor.shape.size();
      const std::uint64_t factor =
          innermost ? columns / layout.elements_per_block : tensor.shape[i];
      if (factor == 0) {
        return fail(ErrorKind::kInvalid, "{}: tensor {}: shape {}; valid: dimensions of 1 or more",
                    file_, quote(tensor.name), shape_text(tensor.shape));
      }
      // No more blocks than the file has bytes, so that no product below can overflow.
      if (factor > bytes_.size() / blocks) {
        return fail(ErrorKind::kInvalid,
                    "{}: tensor {}: shape {} of type {}; valid: what fits into the file's {} bytes",
                    file_, quote(tensor.name), shape_text(tensor.shape), layout.name,
                    bytes_.size());
      }
      blocks *= factor;
    }
    return blocks * layout.bytes_per_block;
  }

  Status place(GgufFile& out, std::span<const std::uint64_t> offsets,
               std::span<const std::uint64_t> sizes) {
    const std::size_t padding = (alignment_ - reader_.offset() % alignment_) % alignment_;
    const std::size_t available =
        padding <= reader_.remaining() ? reader_.remaining() - padding : 0;
    const auto data = bytes_.last(available);
    for (std::size_t i = 0; i < out.tensors.size(); ++i) {
      if (offsets[i] > available || sizes[i] > available - offsets[i]) {
        return fail(ErrorKind::kInvalid,
                    "{}: tensor {}: offset {}, {} bytes; valid: within the {} bytes of data that "
                    "the file has (cut short, or a wrong offset)",
                    file_, quote(out.tensors[i].name), offsets[i], sizes[i], available);
      }
      out.tensors[i].data =
          data.subspan(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(sizes[i]));
    }
    std::vector<std::size_t> order(out.tensors.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return offsets[a] < offsets[b]; });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const std::size_t before = order[i - 1];
      const std::size_t after = order[i];
      if (offsets[before] + sizes[before] > offsets[after]) {
        return fail(ErrorKind::kInvalid,
                    "{}: tensor {}: offset {} lies within tensor {} (offset {}, {} bytes); valid: "
                    "tensors that do not overlap",
                    file_, quote(out.tensors[after].name), offsets[after],
                    quote(out.tensors[before].name), offsets[before], sizes[before]);
      }
    }
    return {};
  }

  Status reader_status() const {
    if (reader_.ok()) return {};
    return fail(reader_.error());
  }

  std::span<const std::byte> bytes_;
  std::string_view file_;
  ByteReader reader_;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t pair_count_ = 0;
  std::uint32_t alignment_ = kDefaultAlignment;
};

}  // namespace

std::string_view name_of(GgufType type) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array",
       "uint64", "int64", "float64"});
  return kNames[static_cast<std::size_t>(type)];
}

std::size_t size_of(GgufType type) {
  constexpr auto kSizes = std::to_array<std::size_t>({1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8});
  return kSizes[static_cast<std::size_t>(type)];
}

Result<GgufFile> parse_gguf(std::span<const std::byte> bytes, std::string_view file) {
  return GgufParser(bytes, file).parse();
}

}  // namespace dovetail::load
