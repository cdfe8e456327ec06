#include "serve/api_request.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/sampling_table.h"
#include "grammar/matcher.h"
#include "serve/api_request_fixture.h"
#include "serve/text_routes.h"
#include "support/sampling_samples.h"

namespace dovetail::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(ApiRequest, NullIsNotGivenWithinStreamOptionsToo) {
  const auto result =
      completion(R"({"prompt":"a","stream":true,)"
                 R"("stream_options":{"include_usage":null,"include_obfuscation":null}})");
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_FALSE(result->include_usage);
}

TEST_F(ApiRequest, ACompletionTakesOpenAisDefaults) {
  const auto result = completion(R"({"model":"fake","prompt":"ab"})");
  ASSERT_TRUE(result.has_value()) << result.error().message;
  ASSERT_EQ(result->requests.size(), 1U);
  const Request& request = result->requests[0];
  EXPECT_THAT(request.prompt, ElementsAre(1, 'a', 'b'));
  EXPECT_EQ(request.max_tokens, 16);
  EXPECT_EQ(request.n, 1);
  EXPECT_EQ(request.logprobs, -1);
  EXPECT_EQ(request.sampling.temperature, 1.0F);
  EXPECT_FALSE(request.sampling.seed.has_value());
  EXPECT_THAT(request.stop, IsEmpty());
  EXPECT_FALSE(result->stream);
}

TEST_F(ApiRequest, TheModelsDefaultsGoBeforeOpenAis) {
  backend_.model.sampling.temperature = 0.6F;
  backend_.model.sampling.top_k = 20;
  const auto result = completion(R"({"prompt":"ab","top_k":5,"temperature":null})");
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->requests[0].sampling.temperature, 0.6F);
  EXPECT_EQ(result->requests[0].sampling.top_k, 5);
}

TEST_F(ApiRequest, EveryFieldArrives) {
  const auto result = completion(R"({"model":"fake","prompt":"a","stream":true,
      "stream_options":{"include_usage":true,"include_obfuscation":false},
      "temperature":0.5,"top_p":0.25,"min_p":0.125,"top_k":7,"repetition_penalty":1.5,
      "presence_penalty":-0.5,"frequency_penalty":2,"logit_bias":{"7":-100,"8":1.5},"seed":-1,
      "n":3,"max_tokens":9,"min_tokens":2,"ignore_eos":true,"stop":["x","yz"],
      "stop_token_ids":[3,4],"logprobs":2,"user":"me","best_of":1,"echo":false,"suffix":null})");
  ASSERT_TRUE(result.has_value()) << result.error().message;
  const Request& request = result->requests[0];
  EXPECT_TRUE(result->stream);
  EXPECT_TRUE(result->include_usage);
  EXPECT_EQ(request.sampling.temperature, 0.5F);
  EXPECT_EQ(request.sampling.top_p, 0.25F);
  EXPECT_EQ(request.sampling.min_p, 0.125F);
  EXPECT_EQ(request.sampling.top_k, 7);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(request.sampling.presence_penalty, -0.5F);
  EXPECT_EQ(request.sampling.frequency_penalty, 2.0F);
  EXPECT_THAT(request.sampling.logit_bias, ElementsAre(std::pair(7, -100.0F), std::pair(8, 1.5F)));
  EXPECT_EQ(request.sampling.seed, ~std::uint64_t{0});
  EXPECT_EQ(request.n, 3);
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_EQ(request.min_tokens, 2);
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_THAT(request.stop, ElementsAre("x", "yz"));
  EXPECT_THAT(request.stop_ids, ElementsAre(3, 4));
  EXPECT_EQ(request.logprobs, 2);
}

TEST_F(ApiRequest, WhoSharesTheServerArrives) {
  for (const Endpoint endpoint : {Endpoint::kCompletion, Endpoint::kChat}) {
    const std::string prompt = endpoint == Endpoint::kChat ? HELLO : R"("prompt":["a","b"])";
    const auto plain = read(endpoint, "{" + prompt + "}");
    ASSERT_TRUE(plain.has_value()) << plain.error().message;
    EXPECT_EQ(plain->requests[0].tenant, "");
    EXPECT_EQ(plain->requests[0].cache_salt, "");
    EXPECT_EQ(plain->requests[0].priority, 0);
    EXPECT_FALSE(plain->requests[0].timeout.has_value());
    const auto result = read(
        endpoint, "{" + prompt + R"(,"user":"me","cache_salt":"s","priority":-3,"timeout":2.5})");
    ASSERT_TRUE(result.has_value()) << result.error().message;
    for (const Request& request : result->requests) {
      EXPECT_EQ(request.tenant, "me");
      EXPECT_EQ(request.cache_salt, "s");
      EXPECT_EQ(request.priority, -3);
      EXPECT_EQ(request.timeout, std::chrono::milliseconds(2500));
    }
  }
  EXPECT_EQ(completion(R"({"prompt":"a","timeout":1e-9})")->requests[0].timeout,
            std::chrono::milliseconds(1));
  const auto longest =
      completion(fmt::format(R"({{"prompt":"a","user":"{}"}})", std::string(512, 'x')));
  EXPECT_TRUE(longest.has_value());
  const auto longer =
      completion(fmt::format(R"({{"prompt":"a","user":"{}"}})", std::string(513, 'x')));
  ASSERT_FALSE(longer.has_value());
  EXPECT_EQ(longer.error().param, "user");
  EXPECT_THAT(longer.error().message, HasSubstr("513 bytes are too long; expected at most 512"));
}

TEST_F(ApiRequest, LargeSeedsKeepTheirBits) {
  const auto result = completion(R"({"prompt":"a","seed":18446744073709551615})");
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->requests[0].sampling.seed, ~std::uint64_t{0});
}

TEST_F(ApiRequest, TopKMinusOneMeansAll) {
  const auto result = completion(R"({"prompt":"a","top_k":-1})");
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->requests[0].sampling.top_k, 0);
}

TEST_F(ApiRequest, PromptsComeInFourForms) {
  const auto texts = completion(R"({"prompt":["a","bc"],"n":2})");
  ASSERT_TRUE(texts.has_value());
  ASSERT_EQ(texts->requests.size(), 2U);
  EXPECT_THAT(texts->requests[1].prompt, ElementsAre(1, 'b', 'c'));
  EXPECT_EQ(texts->requests[1].n, 2);
  const auto ids = completion(R"({"prompt":[5,6]})");
  ASSERT_TRUE(ids.has_value());
  EXPECT_THAT(ids->requests[0].prompt, ElementsAre(5, 6));
  const auto lists = completion(R"({"prompt":[[5,6],[7]]})");
  ASSERT_TRUE(lists.has_value());
  EXPECT_THAT(lists->requests[1].prompt, ElementsAre(7));
}

TEST_F(ApiRequest, ChatLogprobsAreASwitchAndANumber) {
  const auto on = chat("{" HELLO R"(,"logprobs":true})");
  ASSERT_TRUE(on.has_value());
  EXPECT_EQ(on->requests[0].logprobs, 0);
  const auto top = chat("{" HELLO R"(,"logprobs":true,"top_logprobs":4})");
  ASSERT_TRUE(top.has_value());
  EXPECT_EQ(top->requests[0].logprobs, 4);
  const auto off = chat("{" HELLO R"(,"logprobs":false})");
  ASSERT_TRUE(off.has_value());
  EXPECT_EQ(off->requests[0].logprobs, -1);
}

TEST_F(ApiRequest, AFormatIsAGrammarOfEachPrompt) {
  const auto starts = [](const Request& request, std::string_view text) {
    return request.grammar && grammar::Matcher(request.grammar).accept_bytes(text);
  };
  const auto schema = chat("{" HELLO R"(,"response_format":{"type":"json_schema","json_schema":
      {"name":"n","description":null,"strict":true,"schema":{"const":"x"}}}})");
  ASSERT_TRUE(schema.has_value()) << schema.error().message;
  EXPECT_TRUE(starts(schema->requests[0], "\"x\""));
  EXPECT_FALSE(starts(schema->requests[0], "\"y"));
  const auto object = chat("{" HELLO R"(,"response_format":{"type":"json_object"}})");
  ASSERT_TRUE(object.has_value()) << object.error().message;
  EXPECT_TRUE(starts(object->requests[0], "{\"a\":[1"));
  EXPECT_FALSE(starts(object->requests[0], "["));
  const auto regex = completion(R"({"prompt":["a","b"],"guided_regex":"[ab]+"})");
  ASSERT_TRUE(regex.has_value()) << regex.error().message;
  ASSERT_EQ(regex->requests.size(), 2U);
  for (const Request& request : regex->requests) {
    EXPECT_TRUE(starts(request, "ab"));
    EXPECT_FALSE(starts(request, "c"));
  }
  // The same text twice is compiled once, in both spellings.
  const auto again = completion(R"({"prompt":"a","guided_json":{"const":"x"}})");
  const auto text = completion(R"({"prompt":"a","guided_json":"{\"const\":\"x\"}"})");
  ASSERT_TRUE(again.has_value() && text.has_value());
  EXPECT_EQ(again->requests[0].grammar, schema->requests[0].grammar);
  EXPECT_EQ(text->requests[0].grammar, schema->requests[0].grammar);
  // Choices are texts, whatever they would mean in an expression.
  for (const char* body :
       {R"j({"prompt":"a","guided_choice":["a.b","(c|d","\\d+\n^$/"]})j",
        R"j({"prompt":"a","structured_outputs":{"choice":["a.b","(c|d","\\d+\n^$/"],)j"
        R"j("json":null,"json_object":false,"disable_any_whitespace":false}})j"}) {
    const auto choice = completion(body);
    ASSERT_TRUE(choice.has_value()) << choice.error().message;
    for (const char* text : {"a.b", "(c|d", "\\d+\n^$/"}) {
      grammar::Matcher matcher(choice->requests[0].grammar);
      EXPECT_TRUE(matcher.accept_bytes(text) && matcher.must_end()) << text;
    }
    for (const char* text : {"axb", "c", "d", "1"}) EXPECT_FALSE(starts(choice->requests[0], text));
  }
  const auto structured =
      completion(R"({"prompt":"a","structured_outputs":{"json":{"const":"x"}}})");
  ASSERT_TRUE(structured.has_value()) << structured.error().message;
  EXPECT_EQ(structured->requests[0].grammar, schema->requests[0].grammar);
  const auto nothing = completion(R"({"prompt":"a","structured_outputs":{"json_object":false}})");
  ASSERT_TRUE(nothing.has_value());
  EXPECT_EQ(nothing->requests[0].grammar, nullptr);
  const auto none = chat("{" HELLO R"(,"response_format":{"type":"text"},"guided_regex":null})");
  ASSERT_TRUE(none.has_value());
  EXPECT_EQ(none->requests[0].grammar, nullptr);
}

TEST_F(ApiRequest, FieldsThatAreNotKnownAreNamed) {
  const auto result = completion(
      R"({"prompt":"a","foo":1,"messages":[],"top_logprobs":1,"b\u00e4r\r\n":null,"n":1.0})");
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->ignored.text(), "foo, messages, top_logprobs, b??r??");
  EXPECT_EQ(result->requests[0].n, 1);
  const auto inside = chat(R"({"messages":[{"role":"user","content":[{"type":"text","text":"x",)"
                           R"("y":1}],"z":2}]})");
  ASSERT_TRUE(inside.has_value()) << inside.error().message;
  EXPECT_EQ(inside->ignored.text(), "messages[0].content[0].y, messages[0].z");
  EXPECT_EQ(completion(R"({"prompt":"a"})")->ignored.text(), "");
  std::string many = R"({"prompt":"a")";
  for (int i = 0; i < 40; ++i) many += fmt::format(",\"x{}{}\":1", i, std::string(200, 'y'));
  EXPECT_LT(completion(many + "}")->ignored.text().size(), 16 * 130U);
}

TEST_F(ApiRequest, StrictFieldsRefuseWhatIsNotKnown) {
  RequestContext context{backend_, "fake", 8};
  context.strict_fields = true;
  const auto refused =
      read_generation(Endpoint::kCompletion, R"({"prompt":"a","max_token":3})", context);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().param, "max_token");
  EXPECT_THAT(refused.error().message, HasSubstr("did you mean max_tokens"));
  EXPECT_TRUE(read_generation(Endpoint::kCompletion, R"({"prompt":"a","store":true})", context));
  EXPECT_FALSE(tokenize(R"({"content":"a","text":"a"})", context));
}

TEST_F(ApiRequest, HintsAreAcceptedAtAnyValue) {
  const auto result = chat("{" HELLO R"(,"store":true,"metadata":{"a":"b"},"service_tier":"flex",
      "prompt_cache_key":"k","safety_identifier":"s","parallel_tool_calls":true,"stream":true,
      "stream_options":{"include_usage":true,"continuous_usage_stats":true}})");
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->ignored.text(), "");
  EXPECT_TRUE(result->include_usage);
  EXPECT_TRUE(chat("{" HELLO R"(,"stream_options":{"include_usage":true}})").has_value());
}

TEST_F(ApiRequest, MinusOneAndNullAreNoLimit) {
  const auto most = [](const Outcome<Generation>& result) {
    return result ? result->requests[0].max_tokens : -1;
  };
  EXPECT_EQ(most(completion(R"({"prompt":"a"})")), 16);
  EXPECT_EQ(most(completion(R"({"prompt":"a","max_tokens":null})")), 4094);
  EXPECT_EQ(most(completion(R"({"prompt":"a","max_tokens":-1})")), 4094);
  EXPECT_EQ(most(completion(R"({"prompt":"a","max_tokens":4.0})")), 4);
  EXPECT_EQ(most(chat("{" HELLO R"(,"max_tokens":null,"max_completion_tokens":5})")), 5);
  EXPECT_EQ(most(chat("{" HELLO R"(,"max_tokens":6,"max_completion_tokens":-1})")), 6);
  // As llama.cpp names it.
  EXPECT_EQ(most(chat("{" HELLO R"(,"n_predict":7})")), 7);
  EXPECT_EQ(most(completion(R"({"prompt":"a","n_predict":8})")), 8);
  EXPECT_EQ(most(completion(R"({"prompt":"a","n_predict":-1})")), 4094);
}

TEST_F(ApiRequest, NeutralValuesAreAccepted) {
  const auto result = chat("{" HELLO R"(,"tools":[],"tool_choice":"none","store":false,
      "metadata":null,"parallel_tool_calls":null,"response_format":{"type":"text"},"audio":null,
      "modalities":["text"],"service_tier":"auto","add_generation_prompt":false,
      "continue_final_message":false,"max_completion_tokens":5})");
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->requests[0].max_tokens, 5);
  EXPECT_EQ(prompt_text(result->requests[0]), "[user]hi");
}

TEST_F(ApiRequest, TokenizeAndDetokenize) {
  const RequestContext context{backend_, "fake", 8};
  const auto body = [](const Outcome<HttpResponse>& outcome) {
    return outcome ? outcome->body : outcome.error().message;
  };
  // What llama.cpp's clients mean, and vLLM's.
  const std::string alone = R"({"tokens":[97,98],"count":2,"max_model_len":4096})";
  const std::string begun = R"({"tokens":[1,97,98],"count":3,"max_model_len":4096})";
  EXPECT_EQ(body(tokenize(R"({"content":"ab"})", context)), alone);
  EXPECT_EQ(body(tokenize(R"({"content":"ab","add_special":true})", context)), begun);
  EXPECT_EQ(body(tokenize(R"({"prompt":"ab"})", context)), begun);
  EXPECT_EQ(body(tokenize(R"({"prompt":"ab","add_special_tokens":false})", context)), alone);
  EXPECT_EQ(body(tokenize(R"({"prompt":"ab","add_special":false,"model":"fake"})", context)),
            R"({"tokens":[97,98],"count":2,"max_model_len":4096})");
  EXPECT_EQ(
      body(tokenize(R"({"content":"\u00e9a","add_special":false,"with_pieces":true})", context)),
      R"({"tokens":[{"id":195,"piece":[195]},{"id":169,"piece":[169]},{"id":97,"piece":"a"}],)"
      R"("count":3,"max_model_len":4096})");
  EXPECT_EQ(tokenize(R"({"content":"a","with_pieces":1})", context).error().param, "with_pieces");
  EXPECT_EQ(body(tokenize("{" HELLO R"(,"add_generation_prompt":false})", context)),
            R"({"tokens":[91,117,115,101,114,93,104,105],"count":8,"max_model_len":4096})");
  EXPECT_EQ(body(detokenize(R"({"tokens":[97,98]})", context)),
            R"({"content":"ab","prompt":"ab"})");
  EXPECT_EQ(body(apply_template("{" HELLO R"(,"add_generation_prompt":false})", context)),
            R"({"prompt":"[user]hi"})");
  EXPECT_EQ(body(apply_template("{" HELLO R"(,"continue_final_message":true})", context)),
            R"({"prompt":"[user]hi"})");
  EXPECT_EQ(apply_template("{" HELLO R"(,"add_generation_prompt":3})", context).error().param,
            "add_generation_prompt");
  EXPECT_EQ(apply_template("{}", context).error().param, "messages");
  EXPECT_TRUE(tokenize(R"({"content":"a","prompt":null,"add_special":null})", context));
  EXPECT_EQ(tokenize(R"({"content":null})", context).error().param, "content");
  EXPECT_THAT(detokenize(R"({"tokens":null})", context).error().message, HasSubstr("is missing"));
  EXPECT_EQ(tokenize(R"({"content":"a","prompt":"b"})", context).error().param, "content");
  EXPECT_EQ(tokenize(R"({"text":"a"})", context).error().param, "content");
  const auto ignored = tokenize(R"({"content":"a","text":"a"})", context);
  ASSERT_TRUE(ignored.has_value());
  EXPECT_EQ(ignored->headers.front().second, "text");
  EXPECT_EQ(tokenize(R"({"content":1})", context).error().param, "content");
  EXPECT_EQ(tokenize(R"({"content":"a","model":"b"})", context).error().status, 404);
  EXPECT_EQ(detokenize(R"({})", context).error().param, "tokens");
  EXPECT_EQ(detokenize(R"({"tokens":[256]})", context).error().param, "tokens[0]");
}

TEST_F(ApiRequest, ACompletionMayHaveNoTokens) {
  const auto result = completion(R"({"prompt":"ab","max_tokens":0})");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->requests[0].no_output);
  EXPECT_EQ(result->requests[0].prompt_logprobs, -1);
  EXPECT_THAT(result->echo, IsEmpty());
  EXPECT_FALSE(completion(R"({"prompt":"ab"})")->requests[0].no_output);
  EXPECT_FALSE(completion(R"({"prompt":"ab","max_tokens":null})")->requests[0].no_output);
  EXPECT_TRUE(completion(R"({"prompt":"ab","max_tokens":0.0})")->requests[0].no_output);
  EXPECT_EQ(chat("{" HELLO R"(,"max_tokens":0})").error().param, "max_tokens");
}

TEST_F(ApiRequest, EchoAsksForWhatIsSaidOfThePrompt) {
  struct Case {
    const char* body;
    std::int32_t of_prompt, shown;
  };
  for (const Case& one :
       {Case{R"({"prompt":["ab","c"],"echo":true})", -1, -1},
        Case{R"({"prompt":["ab","c"],"echo":true,"logprobs":2})", 2, -1},
        Case{R"({"prompt":["ab","c"],"echo":true,"logprobs":2,"prompt_logprobs":5})", 5, 5},
        Case{R"({"prompt":["ab","c"],"echo":false,"logprobs":2,"prompt_logprobs":0})", 0, 0}}) {
    const auto result = completion(one.body);
    ASSERT_TRUE(result) << result.error().message;
    for (const Request& request : result->requests)
      EXPECT_EQ(request.prompt_logprobs, one.of_prompt) << one.body;
    EXPECT_EQ(result->prompt_logprobs, one.shown) << one.body;
  }
  // Texts as they came, ids as text; BOS is no part of a text.
  EXPECT_THAT(completion(R"({"prompt":["ab","c"],"echo":true})")->echo, ElementsAre("ab", "c"));
  EXPECT_THAT(completion(R"({"prompt":[[97,98],[99]],"echo":true})")->echo, ElementsAre("ab", "c"));
  const auto asked = chat("{" HELLO R"(,"prompt_logprobs":3})");
  ASSERT_TRUE(asked) << asked.error().message;
  EXPECT_EQ(asked->requests[0].prompt_logprobs, 3);
  EXPECT_EQ(asked->prompt_logprobs, 3);
}

TEST_F(ApiRequest, ASuffixMakesAPromptForTheMiddle) {
  backend_.fill_in_middle = [](std::span<const TokenId> before, std::span<const TokenId> after) {
    std::vector<TokenId> ids = {'<'};
    ids.insert(ids.end(), before.begin(), before.end());
    ids.push_back('|');
    ids.insert(ids.end(), after.begin(), after.end());
    ids.push_back('>');
    return ids;
  };
  const auto result = completion(R"({"prompt":["ab","c"],"suffix":"xy"})");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(prompt_text(result->requests[0]), "\x01<ab|xy>");
  EXPECT_EQ(prompt_text(result->requests[1]), "\x01<c|xy>");
  // Ids are the whole prefix, BOS and all.
  EXPECT_EQ(prompt_text(completion(R"({"prompt":[97],"suffix":"xy"})")->requests[0]), "<a|xy>");
  for (const char* none : {R"({"prompt":"ab","suffix":""})", R"({"prompt":"ab","suffix":null})"})
    EXPECT_EQ(prompt_text(completion(none)->requests[0]),
              "\x01"
              "ab");
  const auto both = completion(R"({"prompt":"ab","suffix":"x","echo":true})");
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().param, "echo");
}

TEST_F(ApiRequest, ReadsTheTableOfSamplingParameters) {
  for (const SamplingRow& row : kSamplingRows) {
    const auto number = [&](double value) {
      return row.whole() ? Json(static_cast<std::int64_t>(value)) : Json(value);
    };
    for (const std::string_view name : {row.name, row.http_alias}) {
      if (name.empty()) continue;
      Json body = {{"prompt", "a"}, {std::string(name), number(test::sample_of(row))}};
      const auto result = completion(body.dump());
      ASSERT_TRUE(result.has_value()) << result.error().message;
      EXPECT_EQ(sampling_value(result->requests[0].sampling, row), test::sample_of(row)) << name;
      for (const double value : {test::too_little(row), test::too_much(row)}) {
        body[std::string(name)] = number(value);
        const auto refused = completion(body.dump());
        ASSERT_FALSE(refused.has_value()) << body;
        EXPECT_EQ(refused.error().param, name);
        EXPECT_THAT(refused.error().message, HasSubstr(number(value).dump() + " is out of range"));
      }
    }
  }
}

}  // namespace
}  // namespace dovetail::serve
