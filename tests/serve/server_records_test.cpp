// What a server says of itself and of the requests that it had: ids, records, metrics, health.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/metrics.h"
#include "serve/running_server.h"

namespace dovetail::serve {
namespace {

using ::testing::HasSubstr;

// Options whose requests are recorded there; to be read when the server has ended.
ServerOptions recording(std::vector<RequestRecord>& records) {
  ServerOptions options;
  options.on_request = [&records,
                        mutex = std::make_shared<std::mutex>()](const RequestRecord& one) {
    const std::lock_guard lock(*mutex);
    records.push_back(one);
  };
  return options;
}

TEST(Server, ResponsesHaveTheRequestsId) {
  RunningServer running;
  Client client(running.port);
  EXPECT_EQ(client.post(kChat, kHello, "X-Request-Id: a-1\r\n")->headers.at("x-request-id"), "a-1");
  EXPECT_EQ(client.post(kChat, kStreamed, "x-request-ID: b\r\n")->headers.at("x-request-id"), "b");
  EXPECT_EQ(client.post(kChat, "{", "X-Request-Id: c\r\n")->headers.at("x-request-id"), "c");
  EXPECT_EQ(client.get("/nothing", "X-Request-Id: d\r\n")->headers.at("x-request-id"), "d");
  const std::string first = client.get("/health")->headers.at("x-request-id");
  EXPECT_THAT(first, ::testing::StartsWith("req-"));
  EXPECT_NE(client.get("/health")->headers.at("x-request-id"), first);
  const std::string odd = "X-Request-Id: " + std::string(200, 'x') + "\r\n";
  EXPECT_THAT(client.get("/health", odd)->headers.at("x-request-id"),
              ::testing::StartsWith("req-"));
}

TEST(Server, SaysWhatItDidWithEachRequest) {
  std::vector<RequestRecord> records;
  ServerOptions options = recording(records);
  options.named_keys = {{"alice", "a-key"}, {"bob", "b-key"}};
  {
    RunningServer running(FakeEngine::counting, options);
    Client client(running.port);
    EXPECT_EQ(
        client.post(kChat, kHello, "Authorization: Bearer a-key\r\nX-Request-Id: 1\r\n")->status,
        200);
    EXPECT_EQ(client.post(kChat, kStreamed, "X-Api-Key: b-key\r\n")->status, 200);
    EXPECT_EQ(client.post(kChat, kHello, "Authorization: Bearer c-key\r\n")->status, 401);
    Client again(running.port);  // a refusal ends the connection
    EXPECT_EQ(again.get("/health")->status, 200);
    EXPECT_EQ(running.engine.request(0).tenant, "alice");
    EXPECT_EQ(running.engine.request(1).tenant, "bob");
    const auto named =
        again.post(kCompletions, R"({"prompt":"a","user":"u"})", "X-Api-Key: b-key\r\n");
    EXPECT_EQ(named->status, 200);
    EXPECT_EQ(running.engine.request(2).tenant, "bob/u");
  }
  ASSERT_EQ(records.size(), 5U);
  EXPECT_EQ(records[0].id, "1");
  EXPECT_EQ(records[0].key, "alice");
  EXPECT_EQ(records[0].method, "POST");
  EXPECT_EQ(records[0].route, "/v1/chat/completions");
  EXPECT_EQ(records[0].finish, "length");
  EXPECT_EQ(records[0].completion_tokens, 3U);
  EXPECT_GT(records[0].prompt_tokens, 0U);
  EXPECT_GT(records[0].seconds, 0.0);
  EXPECT_EQ(records[1].key, "bob");
  EXPECT_EQ(records[1].completion_tokens, 3U);
  EXPECT_EQ(records[2].status, 401);
  EXPECT_EQ(records[2].key, "");
  EXPECT_EQ(records[3].route, "/health");
  EXPECT_EQ(records[3].finish, "");
}

// What was generated until then.
TEST(Server, RecordsSayWhereItsClientLeft) {
  std::vector<RequestRecord> records;
  ServerOptions options = recording(records);
  const auto says_two = [](FakeEngine& engine, const FakeEngine::Accepted& accepted) {
    engine.emit(accepted.id, token("first"));
    engine.emit(accepted.id, token("second"));
  };
  const std::string many = R"({"prompt":["ab","c"],"n":2,"stream":true})";
  std::uint64_t prompts = 0;
  {
    RunningServer running(says_two, options);
    std::size_t submitted = 0, cancelled = 0;
    const auto leave = [&](std::string_view route, const std::string& body, std::size_t requests,
                           const char* until) {
      Client client(running.port);
      client.send(post_text(route, body));
      ASSERT_TRUE(running.engine.wait_submitted(submitted += requests));
      if (until != nullptr) {
        ASSERT_TRUE(client.receive_until(until));
      }
      client.close();
      ASSERT_TRUE(running.engine.wait_cancelled(cancelled += requests));
    };
    leave(kChat, kStreamed, 1, "second");
    leave(kChat, kHello, 1, nullptr);
    leave(kCompletions, many, 2, "second");
    // And where the server stops.
    Client client(running.port);
    client.send(post_text(kChat, kHello));
    ASSERT_TRUE(running.engine.wait_submitted(submitted + 1));
    for (std::size_t i = 0; i < submitted; ++i) prompts += running.engine.request(i).prompt.size();
    running.server->stop();
  }
  ASSERT_EQ(records.size(), 4U);
  const int statuses[] = {200, RequestRecord::kClientLeft, 200, 503};
  std::uint64_t counted = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(records[i].status, statuses[i]);
    EXPECT_EQ(records[i].finish, "cancelled");
    EXPECT_GT(records[i].prompt_tokens, 0U);
    if (i < 3) counted += records[i].prompt_tokens;
  }
  EXPECT_EQ(counted, prompts);
  EXPECT_EQ(records[0].completion_tokens, 2U);
}

// What a log says beside a request's numbers: what was asked for where that is no route, what was
// ignored, and what failed.
TEST(Server, RecordsSayWhatWasAskedForAndWhatFailed) {
  std::vector<RequestRecord> records;
  ServerOptions options = recording(records);
  const auto fails = [](FakeEngine& engine, const FakeEngine::Accepted& accepted) {
    engine.emit(accepted.id, token("x"));
    engine.finish(accepted.id, 0, FinishReason::kError);
  };
  std::string metrics;
  {
    RunningServer running(fails, options);
    Client client(running.port);
    EXPECT_EQ(client.get("/v1/no\"thing/?api_key=secret")->status, 404);
    EXPECT_EQ(client.post("/v1/responses/compact", "{}")->status, 404);
    Client again(running.port);  // a refusal ends the connection
    EXPECT_EQ(
        again.post(kChat, R"({"messages":[{"role":"user","content":"hi"}],"temperature":"hot"})")
            ->status,
        400);
    EXPECT_EQ(again.post(kChat, kStreamed)->status, 200);
    EXPECT_EQ(again.post("/tokenize", R"({"prompt":"a","banana":1})")->status, 200);
    EXPECT_EQ(again.get("/v1/models/other")->status, 404);
    EXPECT_EQ(
        again.post(kChat, R"({"messages":[{"role":"user","content":"hi"}],"kiwi":2})")->status,
        500);
    metrics = again.get("/metrics")->body;
  }
  struct Said {
    std::string_view route, path, ignored, code, message;
    int status, error_status;
  };
  const Said wanted[] = {
      {"unknown", "/v1/no\"thing/", "", "unknown_path", "there is no /v1/no\"thing/; ", 404, 404},
      {"unknown", "/v1/responses/compact", "", "unknown_path", "there is no POST /v1/resp", 404,
       404},
      {kChat, "", "", "invalid_request_error", "temperature: expected a number", 400, 400},
      {kChat, "", "", "internal", "the model broke", 200, 500},
      {"/tokenize", "", "banana", "", "", 200, 0},
      {"/v1/models/:name", "", "", "model_not_found", "model: \"other\" is not served", 404, 404},
      {kChat, "", "kiwi", "internal", "the model broke", 500, 500},
  };
  ASSERT_GE(records.size(), std::size(wanted));
  for (std::size_t i = 0; i < std::size(wanted); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(records[i].route, wanted[i].route);
    EXPECT_EQ(records[i].path, wanted[i].path);
    EXPECT_EQ(records[i].ignored, wanted[i].ignored);
    EXPECT_EQ(records[i].status, wanted[i].status);
    EXPECT_EQ(records[i].error_status, wanted[i].error_status);
    EXPECT_EQ(records[i].error_code, wanted[i].code);
    EXPECT_THAT(records[i].error_message, ::testing::StartsWith(std::string(wanted[i].message)));
  }
  // The labels of metrics are no client's to choose.
  EXPECT_THAT(metrics, HasSubstr("http_requests_total{code=\"404\",route=\"unknown\"} 2\n"));
  EXPECT_THAT(metrics, ::testing::Not(HasSubstr("no\"thing")));
}

TEST(Server, SaysHowBusyItsEngineIs) {
  EngineStats before;
  before.prompt_tokens = 100;
  before.cached_tokens = 10;
  EXPECT_FALSE(throughput(before, before, 1.0).has_value());
  EngineStats now = before;
  now.prompt_tokens += 60;
  now.recomputed_tokens += 20;
  now.cached_tokens += 10;
  now.generated_tokens += 8;
  now.running = 2;
  now.waiting = 3;
  now.kv_blocks = 8;
  now.kv_blocks_used = 2;
  const auto record = throughput(before, now, 4.0);
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->prompt_tokens, 15.0);
  EXPECT_EQ(record->generated_tokens, 2.0);
  EXPECT_EQ(record->running, 2U);
  EXPECT_EQ(record->waiting, 3U);
  EXPECT_EQ(record->cache_used, 0.25);
  EXPECT_EQ(record->prefix_hits, 0.2);

  // Of a server: while tokens come, and not after.
  std::atomic<std::uint64_t> tokens = 0;
  std::mutex mutex;
  std::vector<ThroughputRecord> records;
  ServerOptions options;
  options.throughput_interval = std::chrono::milliseconds(5);
  options.on_throughput = [&](const ThroughputRecord& record) {
    const std::lock_guard lock(mutex);
    records.push_back(record);
  };
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return records.size();
  };
  const auto change = [&](Backend& backend) {
    backend.stats = [&] {
      EngineStats stats;
      stats.generated_tokens = tokens;
      return stats;
    };
  };
  RunningServer running(FakeEngine::counting, options, false, change);
  for (std::size_t round = 1; round <= 2; ++round) {
    tokens += 5;
    while (count() < round) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  running.stop();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[1].generated_tokens, 1000.0);
}

// Under the names that dashboards know; a histogram's buckets add up.
TEST(Server, CountsLatenciesAsVllmDoes) {
  const auto script = [](FakeEngine& engine, const FakeEngine::Accepted& accepted) {
    for (int i = 0; i < 3; ++i) engine.emit(accepted.id, token("x"));
    engine.finish(accepted.id, 0, FinishReason::kLength);
  };
  RunningServer running(script);
  Client client(running.port);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(client.post(kChat, i % 2 == 0 ? kHello : kStreamed)->status, 200);
  const std::string text = client.get("/metrics")->body;
  EXPECT_THAT(text, HasSubstr("vllm:time_to_first_token_seconds_count{model_name=\"fake\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("vllm:inter_token_latency_seconds_count{model_name=\"fake\"} 8\n"));
  EXPECT_THAT(
      text,
      HasSubstr("vllm:inter_token_latency_seconds_bucket{le=\"+Inf\",model_name=\"fake\"} 8\n"));
  EXPECT_THAT(
      text,
      HasSubstr("vllm:inter_token_latency_seconds_bucket{le=\"0.001\",model_name=\"fake\"} "));
  EXPECT_THAT(text, HasSubstr("vllm:e2e_request_latency_seconds_count{model_name=\"fake\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("vllm:request_queue_time_seconds_count{model_name=\"fake\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("vllm:num_requests_running{model_name=\"fake\"} "));
  EXPECT_THAT(text, HasSubstr("vllm:cache_config_info{block_size=\"16\","));
}

TEST(Server, AHungEngineIsNotHealthy) {
  RunningServer running;
  running.engine.set_health({false, "no step"});
  const auto response = Client(running.port).get("/health");
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 503);
  EXPECT_EQ(response->body, R"({"status":"failing","reason":"no step"})");
}

}  // namespace
}  // namespace dovetail::serve
