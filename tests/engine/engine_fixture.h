#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dovetail/engine.h"
#include "support/byte_tokenizer.h"
#include "support/random_model.h"
#include "support/sanitized.h"

namespace dovetail::test {

// What came of one choice.
struct Answer {
  std::vector<TokenId> tokens;
  std::string text;
  FinishReason finish = FinishReason::kError;
  Error error;
  std::string stop_string;
  Usage usage;
  int last_events = 0;
};

// Collects the events of any number of requests, and waits for their ends.
class Collector {
 public:
  EventSink sink(int key) {
    return [this, key](const OutputEvent& event) {
      const std::lock_guard lock(mutex_);
      Answer& answer = answers_[{key, event.choice}];
      for (const OutputToken& token : event.tokens) answer.tokens.push_back(token.id);
      answer.text += event.text;
      answer.usage = event.usage;
      if (!event.finish) return;
      answer.finish = *event.finish;
      answer.error = event.error;
      answer.stop_string = event.stop_string;
      ++answer.last_events;
      ++ended_;
      changed_.notify_all();
    };
  }

  void await(int choices) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(60), [&] { return ended_ >= choices; }))
        << ended_ << " of " << choices << " ended";
  }

  Answer answer(int key, int choice = 0) {
    const std::lock_guard lock(mutex_);
    return answers_[{key, choice}];
  }

  int ended() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, int>, Answer> answers_;
  int ended_ = 0;
};

class EngineTest : public testing::Test {
 protected:
  EngineTest() {
    RandomModelOptions model;
    model.vocab_size = 259;
    auto source = random_model(model);
    source->tokenizer = byte_tokenizer();
    source_ = std::move(source);
    options_.max_num_seqs = 4;
    options_.threads = 2;
    options_.poison_freed_blocks = true;
  }

  std::unique_ptr<Engine> start() const {
    auto engine = Engine::create(source_, options_);
    EXPECT_TRUE(engine.has_value());
    return *std::move(engine);
  }

  static Request request(int seed, int max_tokens = 20) {
    Request request;
    for (int i = 0; i < 5 + seed % 40; ++i) request.prompt.push_back((seed * 31 + i * 7) % 256);
    request.max_tokens = max_tokens;
    request.ignore_eos = true;
    request.sampling.seed = static_cast<std::uint64_t>(seed);
    return request;
  }

  Answer alone(const Request& request) const {
    const auto engine = start();
    Collector collector;
    EXPECT_TRUE(engine->submit(request, collector.sink(0)).has_value());
    collector.await(1);
    return collector.answer(0);
  }

  std::shared_ptr<const load::ModelSource> source_;
  EngineOptions options_;
};

}  // namespace dovetail::test
