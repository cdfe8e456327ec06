#include "text/fill_in_middle.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/byte_tokenizer.h"

namespace dovetail::text {
namespace {

load::ModelSource with_tokens(const std::vector<std::string>& more) {
  load::GgufTokenizer data = test::byte_tokenizer();
  for (const std::string& token : more) {
    data.tokens.push_back(token);
    data.token_types.push_back(3);
  }
  load::ModelSource source;
  source.tokenizer = std::move(data);
  return source;
}

std::optional<FillInMiddle> found_in(const load::ModelSource& source) {
  const auto tokenizer = Tokenizer::create(source);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return find_fill_in_middle(*tokenizer, source);
}

const std::vector<TokenId> kBefore = {1, 2}, kAfter = {3};

TEST(FillInMiddle, IsFoundBySpellings) {
  struct Row {
    std::vector<std::string> tokens;  // from id 259 on
    std::vector<TokenId> prompt;
  };
  const std::vector<TokenId> prefix_first = {259, 1, 2, 260, 3, 261};
  for (const Row& row : {
           Row{{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}, prefix_first},
           Row{{"<fim_prefix>", "<fim_suffix>", "<fim_middle>"}, prefix_first},
           Row{{"<fim-prefix>", "<fim-suffix>", "<fim-middle>"}, prefix_first},
           Row{{"\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>"}, prefix_first},
           Row{{"<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581hole\uff5c>",
                "<\uff5cfim\u2581end\uff5c>"},
               prefix_first},
           Row{{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"}, prefix_first},
           Row{{"[PREFIX]", "[SUFFIX]"}, {260, 3, 259, 1, 2}},
       }) {
    const auto found = found_in(with_tokens(row.tokens));
    ASSERT_TRUE(found) << row.tokens[0];
    EXPECT_EQ(found->prompt(kBefore, kAfter), row.prompt) << row.tokens[0];
  }
}

TEST(FillInMiddle, KnowsWhatStandsBeforeNamesOfFiles) {
  for (const char* spelling : {"<|repo_name|>", "<repo_name>", "<reponame>"}) {
    const auto found =
        found_in(with_tokens({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", spelling}));
    EXPECT_EQ(found->repository, 262) << spelling;
    EXPECT_FALSE(found->file);
  }
  for (const char* spelling : {"<|file_sep|>", "<file_sep>", "<filename>"}) {
    const auto found =
        found_in(with_tokens({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", spelling}));
    EXPECT_EQ(found->file, 262) << spelling;
    EXPECT_FALSE(found->repository);
  }
}

TEST(FillInMiddle, IsNothingWhereATokenIsMissing) {
  EXPECT_FALSE(found_in(with_tokens({})));
  EXPECT_FALSE(found_in(with_tokens({"<|fim_prefix|>", "<|fim_suffix|>", "<fim_middle>"})));
}

TEST(FillInMiddle, IsWhatTheFileNames) {
  load::ModelSource source =
      with_tokens({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "A", "B", "C"});
  auto& data = std::get<load::GgufTokenizer>(source.tokenizer);
  data.fim_prefix = 262;
  data.fim_suffix = 263;
  data.fim_middle = 264;
  EXPECT_EQ(found_in(source)->prompt(kBefore, kAfter),
            (std::vector<TokenId>{262, 1, 2, 263, 3, 264}));
  EXPECT_FALSE(found_in(source)->file);
  data.fim_repository = 259;
  data.fim_file = 261;
  EXPECT_EQ(found_in(source)->repository, 259);
  EXPECT_EQ(found_in(source)->file, 261);
  data.fim_middle.reset();
  EXPECT_EQ(found_in(source)->prompt(kBefore, kAfter).front(), 259);
}

}  // namespace
}  // namespace dovetail::text
