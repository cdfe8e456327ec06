// llama.cpp's own routes: what their fields ask for, and the prompts of /infill.
#include "serve/llama.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/api_request_fixture.h"

namespace dovetail::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Bias = std::vector<std::pair<TokenId, float>>;

class LlamaRequest : public ApiRequest {
 protected:
  // Of members behind a prompt.
  Outcome<Generation> asked(const std::string& members) {
    return read(Endpoint::kLlamaCompletion,
                R"({"prompt":"a")" + (members.empty() ? "" : "," + members) + "}");
  }

  void knows_the_middle() {
    backend_.fill_in_middle = [](std::span<const TokenId> before, std::span<const TokenId> after) {
      std::vector<TokenId> ids = {'<'};
      ids.insert(ids.end(), before.begin(), before.end());
      ids.push_back('|');
      ids.insert(ids.end(), after.begin(), after.end());
      ids.push_back('>');
      return ids;
    };
  }
  Outcome<Generation> infill(const std::string& body) { return read(Endpoint::kLlamaInfill, body); }
};

TEST_F(LlamaRequest, APromptHasItsForms) {
  struct Row {
    const char* prompt;
    std::vector<std::string> texts;  // 1 begins texts
  };
  for (const Row& row : {
           Row{R"("ab")", {"\1ab"}},
           Row{R"([97,98])", {"ab"}},
           Row{R"([97,"bc",100])", {"abcd"}},
           // One that begins with a text begins as texts do.
           Row{R"(["ab",99])", {"\1abc"}},
           Row{R"([97,"b","c"])", {"abc"}},
           Row{R"(["ab","c"])", {"\1ab", "\1c"}},
           Row{R"([[97,"b"],"c",[100]])", {"ab", "\1c", "d"}},
           Row{R"([["a",98]])", {"\1ab"}},
           Row{R"({"prompt_string":"ab"})", {"\1ab"}},
           Row{R"({"prompt_string":[97,"b"],"multimodal_data":[]})", {"ab"}},
           Row{R"([{"prompt_string":"ab","multimodal_data":null},"c"])", {"\1ab", "\1c"}},
       }) {
    const auto result =
        read(Endpoint::kLlamaCompletion, R"({"prompt":)" + std::string(row.prompt) + "}");
    ASSERT_TRUE(result) << row.prompt << ": " << result.error().message;
    std::vector<std::string> texts;
    for (const Request& request : result->requests) texts.push_back(prompt_text(request));
    EXPECT_EQ(texts, row.texts) << row.prompt;
    EXPECT_EQ(result->llama->prompts, row.texts) << row.prompt;
  }
}

TEST_F(LlamaRequest, FieldsMeanWhatTheyMeanThere) {
  backend_.model.sampling.temperature = 0.5F;
  backend_.model.sampling.top_k = 7;
  backend_.model.sampling.repetition_penalty = 1.5F;
  struct Row {
    const char* members;
    bool (*holds)(const Request& request);
    const char* ignored = "";
  };
  const Row rows[] = {
      {"", [](const Request& r) { return r.max_tokens == 4094 && !r.no_output; }},
      {R"("n_predict":-1)", [](const Request& r) { return r.max_tokens == 4094; }},
      {R"("n_predict":0)", [](const Request& r) { return r.no_output; }},
      {R"("n_predict":5,"max_tokens":7)", [](const Request& r) { return r.max_tokens == 5; }},
      {R"("max_tokens":7,"n_predict":5)", [](const Request& r) { return r.max_tokens == 5; }},
      {R"("max_tokens":7,"max_completion_tokens":6)",
       [](const Request& r) { return r.max_tokens == 6; }},
      {R"("max_tokens":7,"n_predict":null)", [](const Request& r) { return r.max_tokens == 7; }},
      {R"("max_tokens":null)", [](const Request& r) { return r.max_tokens == 4094; }},
      {R"("model":"")", [](const Request&) { return true; }},
      {R"("model":"fake")", [](const Request&) { return true; }},
      {R"("temperature":-1)", [](const Request& r) { return r.sampling.temperature == 0.0F; }},
      {R"("temperature":1.5)", [](const Request& r) { return r.sampling.temperature == 1.5F; }},
      {R"("top_k":-3)", [](const Request& r) { return r.sampling.top_k == 0; }},
      {R"("top_k":3.0)", [](const Request& r) { return r.sampling.top_k == 3; }},
      {R"("top_p":0,"top_k":9)", [](const Request& r) { return r.sampling.top_k == 1; }},
      {R"("top_p":1.5)", [](const Request& r) { return r.sampling.top_p == 1.0F; }},
      {R"("min_p":-0.5)", [](const Request& r) { return r.sampling.min_p == 0.0F; }},
      {R"("min_p":0.25)", [](const Request& r) { return r.sampling.min_p == 0.25F; }},
      {R"("repeat_penalty":1.25)",
       [](const Request& r) { return r.sampling.repetition_penalty == 1.25F; }},
      {R"("presence_penalty":0.5,"frequency_penalty":-0.5)",
       [](const Request& r) {
         return r.sampling.presence_penalty == 0.5F && r.sampling.frequency_penalty == -0.5F;
       }},
      {R"("seed":-1)", [](const Request& r) { return !r.sampling.seed; }},
      {R"("seed":4294967295)", [](const Request& r) { return !r.sampling.seed; }},
      {R"("seed":42)", [](const Request& r) { return r.sampling.seed == 42U; }},
      {R"("stop":["x",""])",
       [](const Request& r) { return r.stop == std::vector<std::string>{"x"}; }},
      {R"("stop":"x")", [](const Request& r) { return r.stop == std::vector<std::string>{"x"}; }},
      {R"("stop":[])", [](const Request& r) { return r.stop.empty(); }},
      {R"("logit_bias":[[97,1.5],["bc",-2],["d",false]])",
       [](const Request& r) {
         return r.sampling.logit_bias == Bias{{97, 1.5F}, {98, -2.0F}, {99, -2.0F}, {100, -100.0F}};
       }},
      {R"("logit_bias":{"97":1,"b":false})",
       [](const Request& r) {
         return r.sampling.logit_bias == Bias{{97, 1.0F}, {98, -100.0F}};
       }},
      {R"("logit_bias":[])", [](const Request& r) { return r.sampling.logit_bias.empty(); }},
      {R"("n_probs":3)", [](const Request& r) { return r.logprobs == 3; }},
      {R"("n_probs":0,"logprobs":2)", [](const Request& r) { return r.logprobs == -1; }},
      {R"("logprobs":2)", [](const Request& r) { return r.logprobs == 2; }},
      {R"("post_sampling_probs":true)", [](const Request& r) { return r.logprobs == -1; }},
      {R"("n_cmpl":2)", [](const Request& r) { return r.n == 2; }},
      {R"("n":2)", [](const Request& r) { return r.n == 2; }},
      {R"("ignore_eos":true)", [](const Request& r) { return r.ignore_eos; }},
      {R"("grammar":"root ::= \"x\"")", [](const Request& r) { return r.grammar != nullptr; }},
      {R"("grammar":"")", [](const Request& r) { return r.grammar == nullptr; }},
      {R"("json_schema":{"type":"null"})", [](const Request& r) { return r.grammar != nullptr; }},
      {R"("json_schema":{},"grammar":"")", [](const Request& r) { return r.grammar != nullptr; }},
      {R"("json_schema":{},"grammar":"root ::= \"x\"")",
       [](const Request& r) { return r.grammar != nullptr; }, "json_schema"},
      // The window of penalties: none, all, and one that is not kept.
      {R"("repeat_last_n":0,"presence_penalty":1)",
       [](const Request& r) {
         return r.sampling.repetition_penalty == 1.0F && r.sampling.presence_penalty == 0.0F;
       }},
      {R"("repeat_last_n":-1)",
       [](const Request& r) { return r.sampling.repetition_penalty == 1.5F; }},
      {R"("repeat_last_n":64)",
       [](const Request& r) { return r.sampling.repetition_penalty == 1.5F; }, "repeat_last_n"},
      {R"("repeat_last_n":64,"repeat_penalty":1)",
       [](const Request& r) { return r.sampling.repetition_penalty == 1.0F; }},
      // What is not named does not act.
      {R"("samplers":["top_k","temperature"])",
       [](const Request& r) {
         return r.sampling.top_k == 7 && r.sampling.temperature == 0.5F &&
                r.sampling.repetition_penalty == 1.0F;
       },
       "samplers (their order)"},
      {R"("samplers":["penalties","temp","top-k"])",
       [](const Request& r) {
         return r.sampling.top_k == 7 && r.sampling.repetition_penalty == 1.5F;
       }},
      {R"("samplers":["top_k","top_p","temperature"],"temperature":0)",
       [](const Request& r) { return r.sampling.temperature == 0.0F; }},
      {R"("samplers":["top_k","top_p","infill"],"top_p":0.5)",
       [](const Request& r) {
         return r.sampling.temperature == 1.0F && r.sampling.top_p == 0.5F &&
                r.sampling.min_p == 0.0F;
       },
       "samplers (infill)"},
      {R"("samplers":"etkxydz")",
       [](const Request& r) {
         return r.sampling.top_k == 7 && r.sampling.temperature == 0.5F &&
                r.sampling.repetition_penalty == 1.5F;
       },
       "samplers (z)"},
      {R"("samplers":[])",
       [](const Request& r) { return r.sampling.top_k == 0 && r.sampling.temperature == 1.0F; }},
      // Hints, and what is off.
      {R"("cache_prompt":false,"id_slot":3,"n_keep":-1,"n_discard":4,"n_cache_reuse":5,
          "t_max_prompt_ms":500,"sse_ping_interval":3,"backend_sampling":true,"verbose":true,
          "dynatemp_exponent":2,"xtc_threshold":0.2,"dry_base":2,"dry_allowed_length":3,
          "dry_penalty_last_n":64,"dry_sequence_breakers":["\n"],"mirostat_tau":4,
          "mirostat_eta":0.2,"adaptive_decay":0.5,"dynatemp_range":0.0,"xtc_probability":0.0,
          "dry_multiplier":0,"mirostat":0,"typical_p":1.0,"min_keep":0,
          "top_n_sigma":-1,"adaptive_target":-0.5,"lora":[],"image_data":[],"grammar_lazy":false,
          "grammar_triggers":[],"preserved_tokens":[],"return_progress":false,"n_indent":0,
          "t_max_predict_ms":0,"response_fields":[],"return_tokens":false)",
       [](const Request& r) { return r.sampling.top_k == 7; }},
      {R"("top_n_sigma":0.0)", [](const Request&) { return true; }},
      {R"("adaptive_target":0.5)", [](const Request&) { return true; }},
      {R"("adaptive_target":-1,"samplers":["adaptive_p"])", [](const Request&) { return true; }},
      // What llama.cpp's server knows nothing of is nothing here.
      {R"("skip_special_tokens":false,"top_a":0.5)", [](const Request&) { return true; },
       "skip_special_tokens, top_a"},
      {R"("return_progress":true,"smoothing_factor":0)", [](const Request&) { return true; },
       "return_progress, smoothing_factor"},
  };
  for (const Row& row : rows) {
    const auto result = asked(row.members);
    ASSERT_TRUE(result) << row.members << ": " << result.error().message;
    EXPECT_TRUE(row.holds(result->requests.front())) << row.members;
    EXPECT_EQ(result->ignored.text(), row.ignored) << row.members;
  }
}

TEST_F(LlamaRequest, WhatCannotBeDoneIsRefusedByName) {
  struct Row {
    const char* members;
    const char* param;
    const char* message;  // a part of it
  };
  for (const Row& row : {
           Row{R"("n_predict":-2)", "n_predict", "expected an integer from -1"},
           Row{R"("max_tokens":"7")", "max_tokens", "got \"7\""},
           Row{R"("mirostat":1)", "mirostat", "1 is not supported; expected null or 0"},
           Row{R"("typical_p":0.5)", "typical_p", "is not supported"},
           Row{R"("xtc_probability":0.5)", "xtc_probability", "is not supported"},
           Row{R"("dry_multiplier":1)", "dry_multiplier", "is not supported"},
           Row{R"("dynatemp_range":1)", "dynatemp_range", "is not supported"},
           Row{R"("top_n_sigma":1)", "top_n_sigma", "expected 0 or less"},
           Row{R"("adaptive_target":0,"samplers":["adaptive_p"])", "adaptive_target",
               "expected less than 0"},
           Row{R"("adaptive_target":"0")", "adaptive_target", "expected a number"},
           Row{R"("min_keep":2)", "min_keep", "is not supported"},
           Row{R"("lora":[{"id":0,"scale":1}])", "lora", "is not supported"},
           Row{R"("image_data":[{}])", "image_data", "is not supported"},
           Row{R"("repeat_penalty":0)", "repeat_penalty", "out of range"},
           Row{R"("temperature":101)", "temperature", "out of range"},
           Row{R"("temperature":"1")", "temperature", "got \"1\""},
           Row{R"("seed":0.5)", "seed", "an integer"},
           Row{R"("n_probs":21)", "n_probs", "from 0 to 20"},
           Row{R"("n_probs":1,"post_sampling_probs":true)", "post_sampling_probs",
               "before any sampler"},
           Row{R"("n_cmpl":9)", "n_cmpl", "from 1 to 8"},
           Row{R"("logit_bias":3)", "logit_bias", "expected an array of pairs"},
           Row{R"("logit_bias":[[97]])", "logit_bias[0]", "expected a pair"},
           Row{R"("logit_bias":[[97,1],[256,1]])", "logit_bias[1]", "from 0 to 255"},
           Row{R"("logit_bias":[[97,true]])", "logit_bias[0]", "a number or false"},
           Row{R"("logit_bias":[[97,101]])", "logit_bias[0]", "out of range"},
           Row{R"("logit_bias":[[null,1]])", "logit_bias[0]", "a token id or a text"},
           Row{R"("logit_bias":{"300":1})", R"(logit_bias["300"])", "from 0 to 255"},
           Row{R"("samplers":3)", "samplers", "an array of names"},
           Row{R"("samplers":[3])", "samplers[0]", "got 3"},
           Row{R"("repeat_last_n":-2)", "repeat_last_n", "from -1"},
           Row{R"("response_fields":"content")", "response_fields", "an array"},
           Row{R"("response_fields":[1])", "response_fields[0]", "got 1"},
           Row{R"("n_indent":-1)", "n_indent", "from 0"},
           Row{R"("t_max_predict_ms":1.5)", "t_max_predict_ms", "got 1.5"},
           Row{R"("grammar":7)", "grammar", "got 7"},
           Row{R"("grammar":"root ::= \"x\"","guided_regex":"a")", "grammar",
               "contradicts guided_regex"},
           Row{R"("n_predict":0,"grammar":"root ::= \"x\"")", "max_tokens", "leaves no text"},
           Row{R"("model":"other")", "model", "not served"},
       }) {
    const auto result = asked(row.members);
    ASSERT_FALSE(result) << row.members;
    EXPECT_EQ(result.error().param, row.param) << row.members;
    EXPECT_THAT(result.error().message, HasSubstr(row.message)) << row.members;
  }
  struct Prompt {
    const char* prompt;
    const char* param;
  };
  for (const Prompt& row : {
           Prompt{"7", "prompt"},
           Prompt{"[]", "prompt"},
           Prompt{"[97,true]", "prompt[1]"},
           Prompt{"[97,256]", "prompt[1]"},
           Prompt{"[97,[98]]", "prompt[1]"},
           Prompt{R"(["a",null])", "prompt[1]"},
           Prompt{R"(["a","b","c","d","e","f","g","h","i"])", "prompt"},
           Prompt{"{}", "prompt.prompt_string"},
           Prompt{R"({"prompt_string":{"prompt_string":"a"}})", "prompt.prompt_string"},
           Prompt{R"({"prompt_string":"a","multimodal_data":["x"]})", "prompt.multimodal_data"},
           Prompt{R"(["a",{"prompt_string":7}])", "prompt[1].prompt_string"},
       }) {
    const auto result =
        read(Endpoint::kLlamaCompletion, R"({"prompt":)" + std::string(row.prompt) + "}");
    ASSERT_FALSE(result) << row.prompt;
    EXPECT_EQ(result.error().param, row.param) << row.prompt;
  }
  EXPECT_EQ(read(Endpoint::kLlamaCompletion, "{}").error().param, "prompt");
}

TEST_F(LlamaRequest, SettingsAreThoseThatHold) {
  const auto result = asked(
      R"("n_predict":5,"seed":7,"top_k":3,"repeat_penalty":1.25,"stop":["x"],"n_probs":2,
         "logit_bias":[[97,0.5]],"grammar":"root ::= \"x\"","stream":true,"n_indent":4)");
  ASSERT_TRUE(result) << result.error().message;
  const Json& settings = result->llama->settings;
  EXPECT_EQ(settings["n_predict"], 5);
  EXPECT_EQ(settings["max_tokens"], 5);
  EXPECT_EQ(settings["seed"], 7);
  EXPECT_EQ(settings["top_k"], 3);
  EXPECT_EQ(settings["repeat_penalty"], 1.25);
  EXPECT_EQ(settings["stop"], Json::array({"x"}));
  EXPECT_EQ(settings["n_probs"], 2);
  EXPECT_EQ(settings["logit_bias"], Json::parse(R"([{"bias":0.5,"token":97}])"));
  EXPECT_EQ(settings["grammar"], R"(root ::= "x")");
  EXPECT_EQ(settings["stream"], true);
  EXPECT_EQ(settings["n_indent"], 4);
  EXPECT_EQ(settings["mirostat"], 0);
  EXPECT_EQ(asked("")->llama->settings["n_predict"], -1);
  EXPECT_EQ(asked("")->llama->settings["seed"], 4294967295U);
  EXPECT_EQ(asked(R"("n_predict":0)")->llama->settings["n_predict"], 0);
}

TEST_F(LlamaRequest, AnInfillStandsBetweenItsSides) {
  knows_the_middle();
  const auto text = [this](const std::string& body) {
    const auto result = infill(body);
    EXPECT_TRUE(result) << body << ": " << result.error().message;
    return result ? prompt_text(result->requests.front()) : std::string();
  };
  EXPECT_EQ(text(R"({"input_prefix":"ab","input_suffix":"cd"})"), "\1<ab|cd>");
  EXPECT_EQ(text(R"({"input_prefix":"ab","input_suffix":"","prompt":"x"})"), "\1<abx|>");
  EXPECT_EQ(text(R"({"input_prefix":[97,"b"],"input_suffix":["c",100]})"), "\1<ab|cd>");
  // What an editor sends ahead of time, for the cache.
  const auto warm = infill(R"({"input_prefix":"","input_suffix":"","input_extra":[],"prompt":"",
      "n_predict":0,"temperature":0.0,"stream":false,"samplers":[],"cache_prompt":true,
      "t_max_prompt_ms":1,"t_max_predict_ms":1,"response_fields":[""]})");
  ASSERT_TRUE(warm) << warm.error().message;
  EXPECT_TRUE(warm->requests.front().no_output);
  EXPECT_EQ(prompt_text(warm->requests.front()), "\1<|>");
  // Other files stand ahead: as text where the model has no token for them.
  const std::string files =
      R"({"input_prefix":"ab","input_suffix":"cd","input_extra":[
          {"filename":"f.c","text":"F;","time":[1,2]},{"text":"G;","filename":null}]})";
  EXPECT_EQ(text(files), "\1\n\nf.c:\nF;\n\nfile:\nG;\n\n<ab|cd>");
  backend_.file_token = '#';
  EXPECT_EQ(text(files), "\1#f.c\nF;#file\nG;#current\n<ab|cd>");
  backend_.repository_token = '%';
  EXPECT_EQ(text(files), "\1%repository\n#f.c\nF;#file\nG;#current\n<ab|cd>");
  EXPECT_EQ(text(R"({"input_prefix":"ab","input_suffix":"cd","input_extra":[]})"), "\1<ab|cd>");
}

TEST_F(LlamaRequest, AnInfillIsCutToTheContext) {
  knows_the_middle();
  backend_.file_token = '#';
  backend_.model.max_context = 40;
  const auto cut = [this](const std::string& members, const char* text, const char* ignored) {
    const auto result = infill("{" + members + "}");
    ASSERT_TRUE(result) << members << ": " << result.error().message;
    EXPECT_EQ(prompt_text(result->requests.front()), text) << members;
    EXPECT_EQ(result->ignored.text(), ignored) << members;
  };
  // Ten of forty are left for the answer where it has no limit, else what is asked for.
  const std::string files = R"("input_extra":[{"filename":"f","text":"0123456789"}])";
  cut(R"("input_prefix":"ab","input_suffix":"cd",)" + files, "\1#f\n0123456789#current\n<ab|cd>",
      "");
  cut(R"("input_prefix":"abcdefgh","input_suffix":"cd","n_predict":18,)" + files,
      "\1"
      "current\n<abcdefgh|cd>",
      "input_extra (14 tokens of 22 left out: longer than the context)");
  // Of a long side goes what is far; at most half of the context is for the answer.
  cut(R"("input_prefix":"0123456789abcdefghij","input_suffix":"ABCDEFGHIJ","prompt":"x",
         "n_predict":30)",
      "\1<89abcdefghijx|ABC>",
      "input_prefix, input_suffix (15 tokens of 30 left out: longer than the context)");
  cut(R"("input_prefix":"a","input_suffix":"0123456789abcdefghij","n_predict":20)",
      "\1<a|0123456789abcde>",
      "input_prefix, input_suffix (5 tokens of 21 left out: longer than the context)");
  const auto full = infill(R"({"input_prefix":"","input_suffix":"",
      "prompt":"0123456789012345678901234567890123456789"})");
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, "context_length_exceeded");
}

TEST_F(LlamaRequest, AnInfillThatCannotBeIsRefused) {
  const auto unknown = infill(R"({"input_prefix":"a","input_suffix":"b"})");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("no tokens for filling in the middle"));
  knows_the_middle();
  struct Row {
    const char* body;
    const char* param;
  };
  for (const Row& row : {
           Row{R"({"input_suffix":"b"})", "input_prefix"},
           Row{R"({"input_prefix":"a","input_suffix":null})", "input_suffix"},
           Row{R"({"input_prefix":7,"input_suffix":"b"})", "input_prefix"},
           Row{R"({"input_prefix":"a","input_suffix":"b","prompt":["a"]})", "prompt"},
           Row{R"({"input_prefix":"a","input_suffix":"b","input_extra":{}})", "input_extra"},
           Row{R"({"input_prefix":"a","input_suffix":"b","input_extra":[7]})", "input_extra[0]"},
           Row{R"({"input_prefix":"a","input_suffix":"b","input_extra":[{"filename":"f"}]})",
               "input_extra[0].text"},
           Row{R"({"input_prefix":"a","input_suffix":"b","input_extra":[{"text":7}]})",
               "input_extra[0].text"},
           Row{R"({"input_prefix":"a","input_suffix":"b",
                   "input_extra":[{"text":"t","filename":7}]})",
               "input_extra[0].filename"},
       }) {
    const auto result = infill(row.body);
    ASSERT_FALSE(result) << row.body;
    EXPECT_EQ(result.error().param, row.param) << row.body;
  }
}

}  // namespace
}  // namespace dovetail::serve
