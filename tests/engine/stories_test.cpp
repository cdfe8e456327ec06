// A model that was trained elsewhere, against the greedy continuations and log-probabilities that
// llama.cpp gave for it.

#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dovetail/engine.h"
#include "families/open_model.h"
#include "load/model_source.h"
#include "support/places.h"
#include "text/tokenizer.h"

namespace dovetail {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(test::shared_dir()) / "models/stories260K";

struct Story {
  const char* name;   // of the golden
  const char* model;  // in the folder
  double tolerance;   // of a log-probability: how far the golden itself is from a float64 forward
                      // pass, and 1e-3 for F32
};

void PrintTo(const Story& story, std::ostream* out) { *out << story.model; }

class Stories : public testing::TestWithParam<Story> {
 protected:
  void SetUp() override {
    if (!fs::exists(kFolder))
      GTEST_SKIP() << "no " << kFolder
                   << ": the model and its goldens are not part of this repository";
  }
};

TEST_P(Stories, ContinueAsElsewhere) {
  nlohmann::json golden;
  std::ifstream(kFolder / (std::string("stories260K-golden-") + GetParam().name + ".json")) >>
      golden;
  const auto source = families::open_model(kFolder / GetParam().model);
  ASSERT_TRUE(source.has_value()) << source.error().message;
  EngineOptions options;
  options.max_num_seqs = 3;
  const auto engine = Engine::create(*source, options);
  ASSERT_TRUE(engine.has_value()) << engine.error().message;

  std::mutex mutex;
  std::condition_variable ended;
  std::size_t left = golden.size();
  std::map<RequestId, std::vector<OutputToken>> tokens;
  std::map<RequestId, std::string> texts;
  std::vector<RequestId> ids;
  ASSERT_FALSE(golden.empty());
  for (const nlohmann::json& story : golden) {
    Request request;
    request.prompt = (*engine)->tokenizer().encode(story["prompt"].get<std::string>());
    EXPECT_EQ(request.prompt, story["prompt_ids"].get<std::vector<TokenId>>()) << story["prompt"];
    request.max_tokens = static_cast<std::int32_t>(story["ids"].size());
    request.sampling.temperature = 0.0F;
    request.logprobs = 8;
    request.ignore_eos = true;
    const auto id = (*engine)->submit(request, [&](const OutputEvent& event) {
      const std::lock_guard lock(mutex);
      auto& collected = tokens[event.request];
      collected.insert(collected.end(), event.tokens.begin(), event.tokens.end());
      texts[event.request] += event.text;
      if (event.finish && --left == 0) ended.notify_all();
    });
    ASSERT_TRUE(id.has_value()) << id.error().message;
    ids.push_back(*id);
  }
  std::unique_lock lock(mutex);
  ended.wait(lock, [&] { return left == 0; });

  for (std::size_t i = 0; i < ids.size(); ++i) {
    const nlohmann::json& story = golden[i];
    EXPECT_EQ(texts[ids[i]], story["text"].get<std::string>());
    const std::vector<OutputToken>& got = tokens[ids[i]];
    ASSERT_EQ(got.size(), story["ids"].size());
    for (std::size_t t = 0; t < got.size(); ++t) {
      ASSERT_EQ(got[t].id, story["ids"][t].get<TokenId>()) << "story " << i << ", token " << t;
      EXPECT_NEAR(got[t].logprob, story["logprobs"][t]["lp"].get<double>(), GetParam().tolerance);
      for (std::size_t k = 0; k < got[t].top.size(); ++k) {
        EXPECT_NEAR(got[t].top[k].logprob, story["logprobs"][t]["top"][k][1].get<double>(),
                    GetParam().tolerance)
            << "story " << i << ", token " << t << ", rank " << k;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Stories,
                         testing::Values(Story{"F32", "stories260K-F32.gguf", 1e-3},
                                         Story{"F16", "stories260K-F16.gguf", 2.4e-2},
                                         Story{"BF16", "stories260K-BF16.gguf", 1.5e-1},
                                         Story{"F32", "hf", 1e-3}));

}  // namespace
}  // namespace dovetail
