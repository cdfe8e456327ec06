#include "load/safetensors.h"

#include <functional>

#include "load/expect_error.h"
#include "load/safetensors_builder.h"

namespace dovetail::load {
namespace {

using nlohmann::json;

SafetensorsBuilder two_tensors() {
  SafetensorsBuilder out;
  out.add("a", {2, 3});
  out.add("b", {4});
  return out;
}

struct BadHeader {
  std::string name;
  std::function<void(json&)> change;
  std::string message;
};

class SafetensorsHeader : public testing::TestWithParam<BadHeader> {};

TEST_P(SafetensorsHeader, IsRefusedByName) {
  const SafetensorsBuilder builder = two_tensors();
  json header = builder.header();
  GetParam().change(header);
  const Bytes bytes = builder.bytes(header);
  expect_error(parse_safetensors(bytes, "m.safetensors"), "m.safetensors: ", GetParam().message);
}

const BadHeader kBadHeaders[] = {
    {"NotAnObject", [](json& h) { h = json::array({1}); }, "an array of 1; valid: a JSON object"},
    {"Metadata", [](json& h) { h["__metadata__"] = 7; }, "__metadata__: 7; valid: an object"},
    {"TensorIsANumber", [](json& h) { h["a"] = 7; }, "tensor 'a': 7; valid: an object"},
    {"NoType", [](json& h) { h["a"].erase("dtype"); }, "tensor 'a': dtype missing; valid: F32"},
    {"UnknownType", [](json& h) { h["a"]["dtype"] = "F31"; },
     "tensor 'a': dtype 'F31'; valid: F32, F16, BF16"},
    {"TypeIsANumber", [](json& h) { h["a"]["dtype"] = 32; }, "tensor 'a': dtype 32; valid: F32"},
    {"NoShape", [](json& h) { h["a"].erase("shape"); }, "tensor 'a': shape missing; valid: a list"},
    {"ShapeOfText",
     [](json& h) {
       h["a"]["shape"] = {"2", "3"};
     },
     "tensor 'a': shape an array"},
    {"NegativeShape",
     [](json& h) {
       h["a"]["shape"] = {-2, -3};
     },
     "tensor 'a': shape an array"},
    {"FractionalShape",
     [](json& h) {
       h["a"]["shape"] = {2.0, 3.0};
     },
     "shape an array of 2; valid"},
    {"NineDimensions", [](json& h) { h["a"]["shape"] = json(9, 1); },
     "valid: a list of at most 8 sizes"},
    {"ShapeTooLarge",
     [](json& h) {
       h["a"]["shape"] = {1U << 31U, 1U << 31U};
     },
     "shape [2147483648, 2147483648]; valid: what fits into the 40 bytes of data"},
    {"ShapeThatWraps",
     [](json& h) {
       h["a"]["shape"] = {std::uint64_t{1} << 32U, std::uint64_t{1} << 32U, 6};
     },
     "valid: what fits into the 40 bytes of data"},
    {"ShapeOfMoreBytes",
     [](json& h) {
       h["a"]["shape"] = {2, 4};
     },
     "data_offsets [0, 24], 24 bytes; valid: 32 bytes for shape [2, 4] of dtype F32"},
    {"EmptyShapeWithData",
     [](json& h) {
       h["a"]["shape"] = {0, 3};
     },
     "valid: 0 bytes for shape"},
    {"NoOffsets", [](json& h) { h["a"].erase("data_offsets"); },
     "data_offsets missing; valid: [begin, end]"},
    {"OneOffset", [](json& h) { h["a"]["data_offsets"] = {0}; }, "data_offsets an array of 1"},
    {"NegativeOffset",
     [](json& h) {
       h["a"]["data_offsets"] = {-24, 0};
     },
     "data_offsets an array of 2; valid: [begin, end]"},
    {"OffsetsTurned",
     [](json& h) {
       h["a"]["data_offsets"] = {24, 0};
     },
     "data_offsets [24, 0]; valid: within the 40 bytes"},
    {"OffsetBeyondTheFile",
     [](json& h) {
       h["b"]["data_offsets"] = {28, 44};
     },
     "data_offsets [28, 44]; valid: within the 40 bytes"},
    {"OffsetHuge",
     [](json& h) {
       h["b"]["data_offsets"] = {~std::uint64_t{0} - 15, ~std::uint64_t{0}};
     },
     "valid: within the 40 bytes"},
    {"Overlap",
     [](json& h) {
       h["b"]["data_offsets"] = {20, 36};
     },
     "tensor 'b': begins at offset 20, within tensor 'a'; valid: tensors that do not overlap"},
    {"BytesLeft", [](json& h) { h.erase("b"); }, "16 bytes after the last tensor; valid: a file"},
};

INSTANTIATE_TEST_SUITE_P(Bad, SafetensorsHeader, testing::ValuesIn(kBadHeaders),
                         [](const auto& run) { return run.param.name; });

TEST(Safetensors, EveryShorterFileIsRefused) {
  const Bytes bytes = two_tensors().bytes();
  ASSERT_TRUE(parse_safetensors(bytes, "m"));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_FALSE(parse_safetensors(std::span(bytes).first(size), "m")) << size;
  }
}

TEST(Safetensors, HeaderLengthIsHeldAgainstTheFile) {
  Bytes bytes = two_tensors().bytes();
  for (const std::uint64_t length :
       {std::uint64_t{0}, std::uint64_t{1}, bytes.size() - 7, std::uint64_t{99} << 20U,
        std::uint64_t{1} << 31U, std::uint64_t{1} << 32U, std::uint64_t{1} << 63U,
        ~std::uint64_t{0}}) {
    std::memcpy(bytes.data(), &length, sizeof(length));
    expect_error(parse_safetensors(bytes, "m.safetensors"), "m.safetensors: ", "; valid: ");
  }
}

TEST(Safetensors, TensorGivenTwiceIsRefused) {
  const SafetensorsBuilder builder = two_tensors();
  std::string header = builder.header().dump();
  header.insert(1, R"("b":{"dtype":"F32","shape":[4],"data_offsets":[24,40]},)");
  const Bytes bytes = builder.bytes(header);
  expect_error(parse_safetensors(bytes, "m"), "m: ", "'b': given twice; valid: once");
}

TEST(Safetensors, DeepJsonIsRefusedBeforeItIsBuilt) {
  const SafetensorsBuilder builder = two_tensors();
  for (const char bracket : {'[', '{'}) {
    const Bytes bytes = builder.bytes(std::string(1000000, bracket));
    expect_error(parse_safetensors(bytes, "m"), "m: ", "JSON nested more than 64 deep");
  }
}

TEST(Safetensors, TakesPaddingHolesScalarsAndForeignTypes) {
  SafetensorsBuilder builder = two_tensors();
  builder.tensors.push_back({"scalar", "F32", {}, Bytes(4)});
  builder.tensors.push_back({"hole", "U8", {5}, Bytes(5)});
  builder.tensors.push_back({"steps", "I64", {2}, Bytes(16)});
  builder.tensors.push_back({"empty", "F16", {0, 7}, {}});
  json header = builder.header();
  header.erase("hole");
  const Bytes bytes = builder.bytes(header.dump() + "    ");
  const auto tensors = parse_safetensors(bytes, "m");
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 5U);
  for (const SafetensorsTensor& tensor : *tensors) {
    EXPECT_EQ(tensor.type.has_value(), tensor.name != "steps") << tensor.name;
    EXPECT_EQ(tensor.data.size(), builder.tensor(tensor.name).data.size()) << tensor.name;
  }
}

}  // namespace
}  // namespace dovetail::load
