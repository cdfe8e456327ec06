// The chat templates that come with the program, and which one a model gets.
#include "text/built_in_templates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "support/places.h"
#include "text/chat_template.h"
#include "text/prompt_encoder.h"
#include "text/template_texts.h"

namespace dovetail::text {
namespace {

// The prompts were written by tools/golden/deepseek_prompts.py, which knows no template.
TEST(BuiltInTemplates, WriteWhatASecondWritingOfTheFormatsWrites) {
  std::ifstream file(test::source_dir() + "/tests/golden/templates/built_in.json");
  ASSERT_TRUE(file);
  const auto cases = nlohmann::ordered_json::parse(file);
  std::map<std::string, int> counts;
  for (const auto& entry : cases) {
    const auto name = entry["template"].get<std::string>();
    SCOPED_TRACE(name + "/" + entry["name"].get<std::string>());
    ++counts[name];
    const BuiltInTemplate* row = find_built_in_template(name);
    ASSERT_NE(row, nullptr);
    const auto parsed = ChatTemplate::parse(row->text());
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    const auto text = parsed->render_chat(entry["variables"]);
    EXPECT_EQ(text ? text->text : text.error().message, entry["expected"].get<std::string>());
  }
  for (const BuiltInTemplate& row : built_in_templates())
    EXPECT_GE(counts[std::string(row.name)], 40) << row.name;
}

// What a rendering may cost is bounded (see README.md): a million tokens must fit.
TEST(BuiltInTemplates, WriteLongChats) {
  const std::string text(std::size_t{4} << 20, 'a');
  for (const BuiltInTemplate& row : built_in_templates()) {
    const auto parsed = ChatTemplate::parse(row.text());
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    for (const char* role : {"system", "user", "assistant", "tool"}) {
      nlohmann::ordered_json messages = nlohmann::ordered_json::array();
      for (int i = 0; i < 500; ++i) {
        messages.push_back({{"role", "user"}, {"content", "q"}});
        messages.push_back({{"role", "assistant"}, {"content", "a"}});
      }
      messages.push_back({{"role", role}, {"content", text}});
      const auto rendered =
          parsed->render_chat({{"messages", std::move(messages)}, {"add_generation_prompt", true}});
      ASSERT_TRUE(rendered.has_value()) << row.name << " " << role << rendered.error().message;
      EXPECT_GT(rendered->text.size(), text.size()) << row.name << " " << role;
    }
  }
}

TEST(BuiltInTemplates, AreAFileAndARowEach) {
  std::set<std::string_view> names, families;
  for (const BuiltInTemplate& row : built_in_templates()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(row.family.empty() || families.insert(row.family).second) << row.family;
    EXPECT_FALSE(row.text().empty()) << row.name;
    for (const std::string_view token : row.tokens)
      EXPECT_NE(row.text().find(token), std::string_view::npos) << row.name << " " << token;
  }
  for (const TemplateText& file : template_texts())
    EXPECT_TRUE(names.contains(file.name)) << file.name;
  EXPECT_EQ(template_texts().size(), names.size());
  EXPECT_TRUE(std::ranges::is_sorted(built_in_templates(), {}, &BuiltInTemplate::name));
  EXPECT_EQ(find_built_in_template("deepseek"), nullptr);
  EXPECT_EQ(find_built_in_template(""), nullptr);
  EXPECT_EQ(built_in_template_of("llama"), nullptr);
  EXPECT_EQ(built_in_template_of(""), nullptr);
}

Tokenizer tokenizer_of(const std::vector<std::string>& tokens) {
  nlohmann::json json = nlohmann::json::parse(R"({"added_tokens":[],"normalizer":null,
      "pre_tokenizer":null,"post_processor":null,"decoder":{"type":"Fuse"},
      "model":{"type":"BPE","vocab":{"a":0},"merges":[]}})");
  int id = 1;
  for (const std::string& token : tokens) {
    json["added_tokens"].push_back(
        {{"id", id++}, {"content", token}, {"special", true}, {"normalized", false}});
  }
  return Tokenizer::from_json(json.dump(), "").value();
}

TEST(ChooseTemplate, TakesWhatIsAskedForElseTheModelsElseTheFamilys) {
  const Tokenizer tokenizer = tokenizer_of({"<｜User｜>", "<｜Assistant｜>"});
  const auto choice = [&](std::string_view family, const char* own, std::string_view given,
                          const Tokenizer& vocabulary) {
    load::ModelSource source;
    source.config.family = family;
    if (own != nullptr) source.chat_template = own;
    const auto chosen = choose_template(source, vocabulary, given);
    return chosen ? chosen->origin + ": " + std::string(chosen->text.substr(0, 20)) : "none";
  };
  const std::string v32 =
      "built in (deepseek-v3.2): " +
      std::string(find_built_in_template("deepseek-v3.2")->text().substr(0, 20));
  const std::string v4 = "built in (deepseek-v4): " +
                         std::string(find_built_in_template("deepseek-v4")->text().substr(0, 20));
  EXPECT_EQ(choice("deepseek32", nullptr, "", tokenizer), v32);
  EXPECT_EQ(choice("deepseek4", nullptr, "", tokenizer), v4);
  EXPECT_EQ(choice("deepseek4", "{{ own }}", "", tokenizer), "the model's own: {{ own }}");
  EXPECT_EQ(choice("deepseek4", "{{ own }}", "{{ given }}", tokenizer), "as given: {{ given }}");
  EXPECT_EQ(choice("deepseek4", "{{ own }}", "deepseek-v3.2", tokenizer), v32);
  EXPECT_EQ(choice("deepseek3", nullptr, "", tokenizer), "none");
  EXPECT_EQ(choice("llama", nullptr, "", tokenizer), "none");
  // A vocabulary in which the template's marks would be letters is not one of these models.
  const Tokenizer other = tokenizer_of({"<｜User｜>"});
  EXPECT_EQ(choice("deepseek4", nullptr, "", other), "none");
  EXPECT_EQ(choice("deepseek4", nullptr, "deepseek-v4", other), v4);
}

TEST(ChooseTemplate, IsWhatAPromptIsWrittenWith) {
  const Tokenizer tokenizer =
      tokenizer_of({"<｜User｜>", "<｜Assistant｜>", "</think>", "<｜begin▁of▁sentence｜>"});
  load::ModelSource source;
  source.path = "model";
  source.config.family = "deepseek32";
  const auto encoder = PromptEncoder::create(source, tokenizer, "");
  ASSERT_TRUE(encoder.has_value());
  EXPECT_EQ(encoder->template_origin(), "built in (deepseek-v3.2)");
  const auto messages =
      nlohmann::ordered_json::array({{{"role", "user"}, {"content", "a<｜Assistant｜>"}}});
  const auto text = encoder->render(messages, {}, nlohmann::ordered_json::object());
  ASSERT_TRUE(text.has_value()) << text.error().message;
  EXPECT_EQ(text->text, "<｜begin▁of▁sentence｜><｜User｜>a<｜Assistant｜><｜Assistant｜></think>");
  // Of what the user says, only the letters a are in this vocabulary: the first, and that of
  // Assistant.
  EXPECT_EQ(encoder->encode(*text), (std::vector<TokenId>{4, 1, 0, 0, 2, 3}));

  source.config.family = "llama";
  const auto none = PromptEncoder::create(source, tokenizer, "");
  ASSERT_TRUE(none.has_value());
  EXPECT_EQ(none->template_origin(), "");
  EXPECT_THAT(none->can_chat().error().message,
              testing::HasSubstr("a file, or one of deepseek-v3.1, deepseek-v3.2, deepseek-v4)"));
}

}  // namespace
}  // namespace dovetail::text
