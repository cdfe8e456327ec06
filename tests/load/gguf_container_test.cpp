#include <functional>
#include <limits>

#include "load/expect_error.h"
#include "load/gguf.h"
#include "load/gguf_builder.h"

namespace dovetail::load {
namespace {

constexpr std::uint64_t kHuge = std::uint64_t{1} << 63U;

struct BadContainer {
  std::string name;
  std::function<void(GgufBuilder&)> change;
  std::string message;
};

class GgufContainer : public testing::TestWithParam<BadContainer> {};

TEST_P(GgufContainer, IsRefusedByName) {
  GgufBuilder builder = tiny_gguf();
  GetParam().change(builder);
  const Bytes bytes = builder.bytes();
  expect_error(parse_gguf(bytes, "m.gguf"), "m.gguf: ", GetParam().message);
}

const BadContainer kBad[] = {
    {"Magic", [](GgufBuilder& b) { b.magic = "GGML"; }, "magic: 'GGML'; valid: 'GGUF'"},
    {"MagicOfControlBytes", [](GgufBuilder& b) { b.magic = "\n\x01\xff!"; },
     "magic: '\\x0a\\x01\\xff!'"},
    {"Version1", [](GgufBuilder& b) { b.version = 1; }, "version: 1; valid: 2 or 3"},
    {"Version4", [](GgufBuilder& b) { b.version = 4; }, "version: 4; valid: 2 or 3"},
    {"BigEndian", [](GgufBuilder& b) { b.version = 0x03000000; }, "big-endian"},
    {"TooManyTensors", [](GgufBuilder& b) { b.tensor_count = kHuge; },
     "'tensor_count' at byte 24: needs 9223372036854775808 x"},
    {"TooManyPairs", [](GgufBuilder& b) { b.pair_count = ~std::uint64_t{0}; },
     "'metadata_kv_count' at byte 24: needs 18446744073709551615 x"},
    {"OneTensorMore", [](GgufBuilder& b) { b.tensor_count = b.tensors.size() + 1; }, "valid: "},
    {"EmptyKey", [](GgufBuilder& b) { b.pairs[3].key = ""; },
     "metadata key 3: 0 bytes long; valid: 1 to 65535"},
    {"LongKey", [](GgufBuilder& b) { b.pairs[3].key = std::string(65536, 'k'); },
     "metadata key 3: 65536 bytes long"},
    {"SameKeyTwice", [](GgufBuilder& b) { b.pairs[3].key = b.pairs[2].key; },
     "metadata 'llama.block_count': given twice; valid: once"},
    {"ValueType", [](GgufBuilder& b) { b.pairs[3].type = 13; },
     "metadata 'llama.context_length': value type 13; valid: 0 to 12"},
    {"StringLength",
     [](GgufBuilder& b) {
       Bytes raw;
       append_number<std::uint64_t>(raw, std::numeric_limits<std::uint64_t>::max());
       b.set_raw("x.text", GgufType::kString, raw);
     },
     "'x.text' at byte"},
    {"ArrayOfNumbersLength",
     [](GgufBuilder& b) {
       b.set_raw("x.list", GgufType::kArray,
                 GgufBuilder::array_header(GgufType::kUint32, std::uint64_t{1} << 62U));
     },
     "'x.list' at byte"},
    {"ArrayOfStringsLength",
     [](GgufBuilder& b) {
       b.set_raw("x.list", GgufType::kArray,
                 GgufBuilder::array_header(GgufType::kString, std::uint64_t{1} << 32U));
     },
     "needs 4294967296 x 8 bytes"},
    {"ArrayElementType",
     [](GgufBuilder& b) {
       b.set_raw("x.list", GgufType::kArray, GgufBuilder::array_header(GgufType{99}, 1));
     },
     "metadata 'x.list': value type 99; valid: 0 to 12"},
    {"DeepArray",
     [](GgufBuilder& b) {
       Bytes raw;
       for (int i = 0; i < 100000; ++i) {
         const Bytes level = GgufBuilder::array_header(GgufType::kArray, 1);
         raw.insert(raw.end(), level.begin(), level.end());
       }
       b.set_raw("x.list", GgufType::kArray, raw);
     },
     "metadata 'x.list': arrays nested 9 deep; valid: at most 8"},
    {"AlignmentType", [](GgufBuilder& b) { b.set_string("general.alignment", "32"); },
     "'general.alignment': a string; valid: a uint32"},
    {"AlignmentZero", [](GgufBuilder& b) { b.set_u32("general.alignment", 0); },
     "'general.alignment': 0; valid: a power of two from 8"},
    {"AlignmentOdd", [](GgufBuilder& b) { b.set_u32("general.alignment", 48); },
     "'general.alignment': 48; valid: a power of two from 8"},
    {"AlignmentHuge", [](GgufBuilder& b) { b.set_u32("general.alignment", 0x80000000U); },
     "'general.alignment': 2147483648; valid: a power of two from 8"},
    {"AlignmentBeyondTheFile",
     [](GgufBuilder& b) { b.set_u32("general.alignment", std::uint32_t{1} << 30U); }, "tensor '"},
    {"TensorNameEmpty", [](GgufBuilder& b) { b.tensors[1].name = ""; },
     "tensor 1: a name of 0 bytes; valid: 1 to 64"},
    {"TensorNameLong", [](GgufBuilder& b) { b.tensors[1].name = std::string(65, 't'); },
     "tensor 1: a name of 65 bytes; valid: 1 to 64"},
    {"TensorTwice", [](GgufBuilder& b) { b.tensors[1].name = b.tensors[0].name; },
     "tensor 'token_embd.weight': given twice; valid: once"},
    {"NoDimensions", [](GgufBuilder& b) { b.tensors[0].dimensions.clear(); },
     "tensor 'token_embd.weight': 0 dimensions; valid: 1 to 4"},
    {"FiveDimensions", [](GgufBuilder& b) { b.tensors[0].dimensions.assign(5, 1); },
     "tensor 'token_embd.weight': 5 dimensions; valid: 1 to 4"},
    {"DimensionZero",
     [](GgufBuilder& b) {
       b.tensors[0].dimensions = {32, 0};
     },
     "shape [0, 32]; valid: dimensions of 1 or more"},
    {"RowOfZero",
     [](GgufBuilder& b) {
       b.tensors[0].dimensions = {0, 16};
     },
     "shape [16, 0]; valid: dimensions of 1 or more"},
    {"DimensionHuge",
     [](GgufBuilder& b) {
       b.tensors[0].dimensions = {32, kHuge};
     },
     "shape [9223372036854775808, 32] of type F32; valid: what fits"},
    {"ProductOverflows",
     [](GgufBuilder& b) {
       b.tensors[0].dimensions = {std::uint64_t{1} << 32U, std::uint64_t{1} << 32U};
     },
     "shape [4294967296, 4294967296] of type F32; valid: what fits"},
    {"UnknownType", [](GgufBuilder& b) { b.tensors[0].type = 4711; },
     "type 4711 (unknown); valid: F32, F16, BF16, "},
    {"TypeKnownByNameOnly", [](GgufBuilder& b) { b.tensors[0].type = 9; }, "type 9 (Q8_1)"},
    {"RowsNotOfBlocks",
     [](GgufBuilder& b) {
       b.tensors[0].type = 8;
       b.tensors[0].dimensions = {48, 2};
     },
     "rows of 48 elements of type Q8_0; valid: a multiple of 32"},
    {"OffsetUnaligned", [](GgufBuilder& b) { b.tensors[1].offset = 2049; },
     "tensor 'blk.0.attn_norm.weight': offset 2049; valid: a multiple of 32"},
    {"OffsetBeyondTheFile", [](GgufBuilder& b) { b.tensors[1].offset = kHuge; },
     "offset 9223372036854775808, 128 bytes; valid: within the"},
    {"OffsetThatWraps",
     [](GgufBuilder& b) { b.tensors[1].offset = std::numeric_limits<std::uint64_t>::max() - 31; },
     "valid: within the"},
    {"Overlap", [](GgufBuilder& b) { b.tensors[1].offset = 32; },
     "tensor 'blk.0.attn_norm.weight': offset 32 lies within tensor 'token_embd.weight'"},
    {"SameOffset", [](GgufBuilder& b) { b.tensors[1].offset = 0; }, "lies within tensor"},
};

INSTANTIATE_TEST_SUITE_P(Bad, GgufContainer, testing::ValuesIn(kBad),
                         [](const auto& run) { return run.param.name; });

TEST(Gguf, EveryShorterFileIsRefused) {
  const Bytes bytes = tiny_gguf().bytes();
  ASSERT_TRUE(parse_gguf(bytes, "m.gguf"));
  // The last tensor ends 0 bytes before the padding, so that each cut takes something away.
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto parsed = parse_gguf(std::span(bytes).first(size), "m.gguf");
    ASSERT_FALSE(parsed) << size;
    ASSERT_NE(parsed.error().message.find("m.gguf: "), std::string::npos);
  }
}

// Numbers, names and sizes as ggml has them.
constexpr struct {
  std::uint32_t number;
  std::string_view name;
  std::size_t elements, bytes;  // of a block
} kTypes[] = {{0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},
              {3, "Q4_1", 32, 20},      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
              {8, "Q8_0", 32, 34},      {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},
              {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},   {14, "Q6_K", 256, 210},
              {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98},
              {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},
              {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {29, "IQ1_M", 256, 56},
              {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},
              {39, "MXFP4", 32, 17},    {40, "NVFP4", 64, 36},    {26, "I32", 1, 4}};

TEST(Gguf, PlacesTensorsOfEveryType) {
#define DOVETAIL_ONE(name) +1
  // Those of weights, and whole numbers.
  EXPECT_EQ(std::size(kTypes), 1 DOVETAIL_GGUF_TYPES(DOVETAIL_ONE));
#undef DOVETAIL_ONE
  for (const auto& type : kTypes) {
    SCOPED_TRACE(type.name);
    GgufBuilder builder = tiny_gguf();
    GgufBuilder::Tensor& tensor = builder.tensors[0];
    tensor.type = type.number;
    tensor.dimensions = {2 * type.elements, 3};
    tensor.data.assign(6 * type.bytes, std::byte{7});
    const Bytes bytes = builder.bytes();
    const auto parsed = parse_gguf(bytes, "m.gguf");
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->tensors[0].stored_type, type.name);
    EXPECT_EQ(parsed->tensors[0].data.size(), 6 * type.bytes);
  }
}

TEST(Gguf, ReadsVersion2) {
  GgufBuilder builder = tiny_gguf();
  builder.version = 2;
  const Bytes bytes = builder.bytes();
  const auto parsed = parse_gguf(bytes, "m.gguf");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->version, 2U);
}

TEST(Gguf, PlacesTensorsByTheAlignmentGiven) {
  GgufBuilder builder = tiny_gguf();
  builder.alignment = 4096;
  builder.set_u32("general.alignment", 4096);
  const Bytes bytes = builder.bytes();
  const auto parsed = parse_gguf(bytes, "m.gguf");
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->tensors.size(), builder.tensors.size());
  for (std::size_t i = 0; i < builder.tensors.size(); ++i) {
    const auto data = parsed->tensors[i].data;
    EXPECT_TRUE(std::equal(data.begin(), data.end(), builder.tensors[i].data.begin(),
                           builder.tensors[i].data.end()));
    EXPECT_EQ((data.data() - bytes.data()) % 4096, 0);
  }
}

TEST(Gguf, ReadsNestedArrays) {
  GgufBuilder builder = tiny_gguf();
  Bytes raw = GgufBuilder::array_header(GgufType::kArray, 2);
  for (int i = 0; i < 2; ++i) {
    const Bytes inner = GgufBuilder::array_header(GgufType::kUint8, 3);
    raw.insert(raw.end(), inner.begin(), inner.end());
    raw.resize(raw.size() + 3);
  }
  builder.set_raw("x.nested", GgufType::kArray, raw);
  const Bytes bytes = builder.bytes();
  const auto parsed = parse_gguf(bytes, "m.gguf");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const GgufValue& value = parsed->metadata.at("x.nested");
  EXPECT_EQ(value.element_type, GgufType::kArray);
  EXPECT_EQ(value.count, 2U);
  EXPECT_EQ(value.bytes.size(), 2U * (12 + 3));
}

}  // namespace
}  // namespace dovetail::load
