#include "pipeline/config/document.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

namespace dovetail::pipeline {
namespace {

TEST(Document, ReadsScalarsByTheCoreSchema) {
  const auto document = Document::parse(R"(
nulls: [~, null, '', ""]
flags: [true, False, "true", yes]
integers: [0, -7, +7, 0x1F, 0o17, 18446744073709551615, "7", 007]
reals: [1.5, -.5, 1e3, 2., 1_000, .inf, nan, 1e999]
)",
                                        "file.yaml");
  ASSERT_TRUE(document) << document.error().message;
  EXPECT_EQ(document->root()["nulls"].dump(), R"([null,null,"",""])");
  EXPECT_EQ(document->root()["flags"].dump(), R"([true,false,"true","yes"])");
  EXPECT_EQ(document->root()["integers"].dump(), R"([0,-7,7,31,15,18446744073709551615,"7",7])");
  EXPECT_EQ(document->root()["reals"].dump(),
            R"([1.5,-0.5,1000.0,2.0,"1_000",".inf","nan","1e999"])");
}

TEST(Document, KnowsWhereValuesStand) {
  const auto document = Document::parse("a: 1\nlist:\n  - x\n  - {deep/key: 2}\n", "f");
  ASSERT_TRUE(document) << document.error().message;
  EXPECT_EQ(document->where("/a"), "f:1:1: /a: ");
  EXPECT_EQ(document->where("/list/0"), "f:3:5: /list/0: ");
  EXPECT_EQ(document->where("/list/1/deep~1key"), "f:4:6: /list/1/deep~1key: ");
  EXPECT_EQ(document->where("/list/1/other"), "f:4:5: /list/1/other: ")
      << "the nearest that encloses it";
  EXPECT_EQ(document->where(""), "f:1:1: ");
}

TEST(Document, PlacesMessagesThatBeginWithAPointer) {
  const auto document = Document::parse("a: 1\nb:\n  'x: y': 2\n", "f");
  ASSERT_TRUE(document) << document.error().message;
  EXPECT_EQ(document->placed("/a: 1: wrong"), "f:1:1: /a: 1: wrong");
  EXPECT_EQ(document->placed("/b/x: y: wrong"), "f:3:3: /b/x: y: wrong") << "a key with ': '";
  EXPECT_EQ(document->placed("/b/z: missing"), "f:2:1: /b/z: missing") << "what encloses it";
  EXPECT_EQ(document->placed("wrong: all"), "f:1:1: wrong: all");
}

TEST(Document, SaysWhatIsWrong) {
  const std::pair<std::string, std::string> cases[] = {
      {"a: [1, 2", "f:"},
      {"a: 1\nb: 2\na: 3\n", "f:3:1: /a: the key stands here twice"},
      {"a: 1\n---\nb: 2\n", "f:2:1: a second document, expected one"},
      {",", "f:1:1: this is no YAML"},
      {"\n , a", "f:2:2: this is no YAML"},
      {"a: 1\n---\n,", "f:2:1: a second document, expected one"},
      {"a: ,", "f:"},
      {"[a]]", "f:"},
      {"- }", "f:"},
      {"? [1]\n: 2\n", "f:1:1: a key that is no scalar"},
      {"a: \"\xE9\"\n", "f:1:4: /a: the text is no UTF-8"},
      {"a: {\"\xE9\": 1}\n", "f:1:4: /a: a key that is no UTF-8"},
      {"a: !!binary aGk=\n", "the tag tag:yaml.org,2002:binary is not supported"},
      {std::string(80, '[') + std::string(80, ']'), "nested deeper than 64 levels"},
  };
  for (const auto& [yaml, message] : cases) {
    const auto document = Document::parse(yaml, "f");
    ASSERT_FALSE(document) << yaml;
    EXPECT_NE(document.error().message.find(message), std::string::npos)
        << document.error().message;
  }
}

// Nine lists of nine aliases each, nine levels deep: 400 million values from 300 bytes.
TEST(Document, BoundsWhatAliasesMultiply) {
  std::string yaml = "a0: &a0 x\n";
  for (int level = 1; level < 10; ++level) {
    yaml += fmt::format("a{0}: &a{0} [", level);
    for (int i = 0; i < 9; ++i) yaml += fmt::format("{}*a{}", i == 0 ? "" : ", ", level - 1);
    yaml += "]\n";
  }
  const auto document = Document::parse(yaml, "f");
  ASSERT_FALSE(document);
  EXPECT_NE(document.error().message.find("more than 1000000 values"), std::string::npos);
}

TEST(Document, TakesAnyBytes) {
  const std::string good =
      "models:\n  a: {path: x, n: 1.5}\ncolumns:\n  - &c {name: 'q', v: \"\\u00e9\"}\n  - *c\n";
  EXPECT_TRUE(rc::check([&] {
    std::string bad = good;
    const auto edits = *rc::gen::inRange(1, 6);
    for (int i = 0; i < edits; ++i) {
      bad[*rc::gen::inRange<std::size_t>(0, bad.size())] =
          static_cast<char>(*rc::gen::inRange(0, 256));
    }
    const auto document = Document::parse(bad, "f");
    if (!document) RC_ASSERT(document.error().message.starts_with("f"));
  }));
}

}  // namespace
}  // namespace dovetail::pipeline
