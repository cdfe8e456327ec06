#include "load/gguf_fields.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>

#include "load/byte_reader.h"
#include "load/quote.h"

namespace dovetail::load {
namespace {

template <class T>
T number_at(std::span<const std::byte> bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

struct Integer {
  bool negative = false;
  std::uint64_t magnitude = 0;  // the value's bits where negative
};

template <class T>
Integer integer_at(std::span<const std::byte> bytes) {
  const T value = number_at<T>(bytes);
  return {value < T{0}, static_cast<std::uint64_t>(value)};
}

std::optional<Integer> integer_of(GgufType type, std::span<const std::byte> bytes) {
  switch (type) {
    case GgufType::kUint8:
      return integer_at<std::uint8_t>(bytes);
    case GgufType::kInt8:
      return integer_at<std::int8_t>(bytes);
    case GgufType::kUint16:
      return integer_at<std::uint16_t>(bytes);
    case GgufType::kInt16:
      return integer_at<std::int16_t>(bytes);
    case GgufType::kUint32:
      return integer_at<std::uint32_t>(bytes);
    case GgufType::kInt32:
      return integer_at<std::int32_t>(bytes);
    case GgufType::kUint64:
      return integer_at<std::uint64_t>(bytes);
    case GgufType::kInt64:
      return integer_at<std::int64_t>(bytes);
    default:
      return std::nullopt;
  }
}

std::string digits_of(const Integer& value) {
  return value.negative ? fmt::format("{}", static_cast<std::int64_t>(value.magnitude))
                        : fmt::format("{}", value.magnitude);
}

std::string a(GgufType type) {
  const std::string_view name = name_of(type);
  const bool vowel = name.front() == 'a' || name.front() == 'i';
  return fmt::format("{} {}", vowel ? "an" : "a", name);
}

}  // namespace

void GgufFields::reject(std::string_view key, std::string_view value, std::string_view valid,
                        ErrorKind kind) {
  if (error_) return;
  error_ =
      Error{kind, fmt::format("{}: metadata {}: {}; valid: {}", file_, quote(key), value, valid)};
}

Status GgufFields::status() const {
  if (error_) return fail(*error_);
  return {};
}

const GgufValue* GgufFields::find(std::string_view key) const {
  if (error_) return nullptr;
  const auto found = gguf_.metadata.find(key);
  return found == gguf_.metadata.end() ? nullptr : &found->second;
}

std::optional<std::uint32_t> GgufFields::count_of(std::string_view key, GgufType type,
                                                  std::span<const std::byte> bytes,
                                                  std::uint32_t low, std::uint32_t high) {
  const auto integer = integer_of(type, bytes);
  const auto valid = [&] { return fmt::format("an integer from {} to {}", low, high); };
  if (!integer) {
    reject(key, a(type), valid());
    return std::nullopt;
  }
  if (integer->negative || integer->magnitude < low || integer->magnitude > high) {
    reject(key, digits_of(*integer), valid());
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(integer->magnitude);
}

std::uint32_t GgufFields::required_count(std::string_view key, std::uint32_t low,
                                         std::uint32_t high) {
  const auto value = optional_count(key, low, high);
  if (!value) reject(key, "missing", fmt::format("an integer from {} to {}", low, high));
  return value.value_or(0);
}

std::optional<std::uint32_t> GgufFields::optional_count(std::string_view key, std::uint32_t low,
                                                        std::uint32_t high) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  return count_of(key, value->type, value->bytes, low, high);
}

std::optional<std::int32_t> GgufFields::optional_int(std::string_view key, std::int32_t low,
                                                     std::int32_t high) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::string valid = fmt::format("an integer from {} to {}", low, high);
  const auto integer = integer_of(value->type, value->bytes);
  if (!integer) {
    reject(key, a(value->type), valid);
    return std::nullopt;
  }
  const auto number = static_cast<std::int64_t>(integer->magnitude);
  if ((number < 0) != integer->negative || number < low || number > high) {
    reject(key, digits_of(*integer), valid);
    return std::nullopt;
  }
  return static_cast<std::int32_t>(number);
}

std::optional<std::uint32_t> GgufFields::optional_uniform_count(std::string_view key,
                                                                std::uint32_t low,
                                                                std::uint32_t high) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::kArray) return optional_count(key, low, high);
  const std::size_t size = size_of(value->element_type);
  if (size == 0 || value->count == 0) {
    reject(key,
           fmt::format("an array of {} elements of type {}", value->count,
                       name_of(value->element_type)),
           "an integer, or the same integer for every layer");
    return std::nullopt;
  }
  const auto first = count_of(key, value->element_type, value->bytes.first(size), low, high);
  for (std::size_t at = 0; first && at < value->bytes.size(); at += size) {
    const auto other =
        count_of(key, value->element_type, value->bytes.subspan(at, size), low, high);
    if (!other) return std::nullopt;
    if (*other != *first) {
      reject(key, fmt::format("{} in one layer, {} in another", *first, *other),
             "the same for every layer", ErrorKind::kUnsupported);
      return std::nullopt;
    }
  }
  return first;
}

std::optional<float> GgufFields::optional_float(std::string_view key, float low, float high) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::string valid = fmt::format("a float from {} to {}", low, high);
  float number = 0;
  if (value->type == GgufType::kFloat32) {
    number = number_at<float>(value->bytes);
  } else if (value->type == GgufType::kFloat64) {
    number = static_cast<float>(number_at<double>(value->bytes));
  } else {
    reject(key, a(value->type), valid);
    return std::nullopt;
  }
  if (!std::isfinite(number) || number < low || number > high) {
    reject(key, fmt::format("{}", number), valid);
    return std::nullopt;
  }
  return number;
}

std::optional<bool> GgufFields::optional_bool(std::string_view key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::kBool) {
    reject(key, a(value->type), "a bool");
    return std::nullopt;
  }
  const auto byte = std::to_integer<unsigned>(value->bytes.front());
  if (byte > 1) {
    reject(key, fmt::format("a bool stored as {}", byte), "0 or 1");
    return std::nullopt;
  }
  return byte == 1;
}

std::optional<std::string_view> GgufFields::optional_string(std::string_view key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::kString) {
    reject(key, a(value->type), "a string");
    return std::nullopt;
  }
  return std::string_view(reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size());
}

const GgufValue* GgufFields::find_array(std::string_view key, GgufType element,
                                        std::string_view valid) {
  const GgufValue* value = find(key);
  if (value == nullptr) return nullptr;
  if (value->type != GgufType::kArray) {
    reject(key, a(value->type), valid);
    return nullptr;
  }
  if (value->element_type != element) {
    reject(key, fmt::format("an array of type {}", name_of(value->element_type)), valid);
    return nullptr;
  }
  return value;
}

std::vector<std::string> GgufFields::strings(std::string_view key) {
  std::vector<std::string> out;
  const GgufValue* value = find_array(key, GgufType::kString, "an array of strings");
  if (value == nullptr) return out;
  // The parser found room for `count` strings, each with its length, in the file.
  out.reserve(static_cast<std::size_t>(value->count));
  ByteReader reader(value->bytes, file_);
  for (std::uint64_t i = 0; i < value->count; ++i) out.emplace_back(reader.string(key));
  return out;
}

std::vector<float> GgufFields::floats(std::string_view key) {
  std::vector<float> out;
  const GgufValue* value = find_array(key, GgufType::kFloat32, "an array of float32");
  if (value == nullptr || value->count == 0) return out;
  out.resize(static_cast<std::size_t>(value->count));
  std::memcpy(out.data(), value->bytes.data(), value->bytes.size());
  return out;
}

std::string GgufFields::bytes(std::string_view key) {
  const GgufValue* any = find(key);
  const bool is_signed = any != nullptr && any->element_type == GgufType::kInt8;
  const GgufValue* value =
      find_array(key, is_signed ? GgufType::kInt8 : GgufType::kUint8, "an array of int8 or uint8");
  if (value == nullptr) return {};
  return {reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size()};
}

std::vector<std::int32_t> GgufFields::int32s(std::string_view key) {
  std::vector<std::int32_t> out;
  const GgufValue* value = find_array(key, GgufType::kInt32, "an array of int32");
  if (value == nullptr || value->count == 0) return out;
  out.resize(static_cast<std::size_t>(value->count));
  std::memcpy(out.data(), value->bytes.data(), value->bytes.size());
  return out;
}

std::vector<std::uint32_t> GgufFields::counts(std::string_view key, std::size_t most,
                                              std::uint32_t high) {
  std::vector<std::uint32_t> out;
  const GgufValue* value = find(key);
  if (value == nullptr) return out;
  const std::size_t size = size_of(value->element_type);
  if (value->type != GgufType::kArray || size == 0) {
    reject(key, a(value->type), "an array of integers");
    return out;
  }
  for (std::size_t at = 0; at < value->bytes.size() && out.size() < most; at += size) {
    const auto count = count_of(key, value->element_type, value->bytes.subspan(at, size), 0, high);
    if (!count) return {};
    out.push_back(*count);
  }
  return out;
}

std::vector<bool> GgufFields::bools(std::string_view key) {
  std::vector<bool> out;
  const GgufValue* value = find(key);
  if (value == nullptr) return out;
  const GgufType element = value->element_type;
  const std::size_t size = size_of(element);
  if (value->type != GgufType::kArray || size == 0) {
    reject(key, a(value->type), "an array of bools");
    return out;
  }
  for (std::size_t at = 0; at < value->bytes.size(); at += size) {
    const auto bytes = value->bytes.subspan(at, size);
    const auto flag = element == GgufType::kBool ? integer_of(GgufType::kUint8, bytes)
                                                 : integer_of(element, bytes);
    if (!flag || flag->negative || flag->magnitude > 1) {
      reject(key, flag ? digits_of(*flag) : fmt::format("an element of type {}", name_of(element)),
             "an array of bools");
      return {};
    }
    out.push_back(flag->magnitude == 1);
  }
  return out;
}

}  // namespace dovetail::load
