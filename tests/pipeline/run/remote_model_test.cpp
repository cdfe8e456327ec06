#include "pipeline/run/remote_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "remote_driver.h"

namespace dovetail::pipeline {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;

class RemoteModelTest : public ::testing::Test {
 protected:
  std::unique_ptr<RemoteModelHost> host(const RemoteModel& model, const RemoteHostOptions& options,
                                        const SamplingSpec& sampling = {}) {
    auto made = RemoteModelHost::create(threads_, "m", model, sampling, options);
    if (!made) {
      ADD_FAILURE() << made.error().message;
      return nullptr;
    }
    return *std::move(made);
  }

  std::shared_ptr<RemoteThreads> threads_ = *RemoteThreads::create();
};

TEST_F(RemoteModelTest, SendsWhatTheRequestSays) {
  std::mutex mutex;
  std::vector<TestRequest> seen;
  const TestEndpoint endpoint([&](const TestRequest& request) {
    const std::lock_guard lock(mutex);
    seen.push_back(request);
    return chat_reply("42", 11, 3);
  });
  ::setenv("DOVETAIL_TEST_KEY", "hush-hush", 1);
  RemoteModel model = remote_model({&endpoint}, 4);
  model.api_key_env = "DOVETAIL_TEST_KEY";
  model.headers = {{"X-Team", "data"}};
  model.extra_body = Json::parse(R"({"chat_template_kwargs": {"enable_thinking": false}})");
  SamplingSpec defaults;
  defaults.values[sampling_row("top_p")] = 0.5;
  defaults.values[sampling_row("temperature")] = 1.0;
  const auto made = host(model, quick_options(), defaults);
  ModelRequest request = question("six times seven?", 0xffff'ffff'ffff'ffffULL);
  request.messages.insert(request.messages.begin(), {"system", "Be brief."});
  request.sampling.values[sampling_row("temperature")] = 0.0;
  request.sampling.values[sampling_row("top_k")] = 40;
  request.sampling.values[sampling_row("min_p")] = 0.125;
  request.sampling.max_tokens = 9;
  request.sampling.reasoning_budget = 5;
  request.sampling.reasoning_budget_message = "So:";
  request.sampling.stop = {"\n"};
  request.schema = Json::parse(R"({"type": "object", "properties": {"z": {}, "a": {}}})");
  const auto answer = Driver(made->client()).ask(request);
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer->text, "42");
  EXPECT_FALSE(answer->cut);
  EXPECT_EQ(answer->usage.prompt_tokens, 11U);
  EXPECT_EQ(answer->usage.completion_tokens, 3U);
  EXPECT_EQ(answer->attempts, 1U);
  EXPECT_GT(answer->on_wire_us, 0U);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].target, "/v1/chat/completions");
  EXPECT_EQ(seen[0].headers["authorization"], "Bearer hush-hush");
  EXPECT_EQ(seen[0].headers["x-team"], "data");
  EXPECT_EQ(json::parse(seen[0].body), json::parse(R"({
      "model": "test", "temperature": 0.0, "top_p": 0.5, "top_k": 40, "min_p": 0.125,
      "max_tokens": 9, "thinking_token_budget": 5, "reasoning_budget_message": "So:", "stop": ["\n"], "seed": 9223372036854775807,
      "chat_template_kwargs": {"enable_thinking": false},
      "messages": [{"role": "system", "content": "Be brief."},
                   {"role": "user", "content": "six times seven?"}],
      "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "strict": true,
          "schema": {"type": "object", "properties": {"z": {}, "a": {}}}}}})"));
  EXPECT_LT(seen[0].body.find("\"z\""), seen[0].body.find("\"a\"")) << "in the schema's order";
}

TEST_F(RemoteModelTest, APromptWithoutMessagesIsACompletion) {
  std::string target;
  json body;
  const TestEndpoint endpoint([&](const TestRequest& request) {
    target = request.target;
    body = json::parse(request.body);
    TestReply reply;
    reply.body = R"({"choices": [{"text": " a time", "finish_reason": "length"}]})";
    return reply;
  });
  const auto made = host(remote_model({&endpoint}, 4), quick_options());
  ModelRequest request;
  request.prompt = "Once upon";
  const auto answer = Driver(made->client()).ask(request);
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer->text, " a time");
  EXPECT_TRUE(answer->cut);
  EXPECT_EQ(target, "/v1/completions");
  EXPECT_EQ(body["prompt"], "Once upon");
  EXPECT_FALSE(body.contains("messages"));
}

TEST_F(RemoteModelTest, ASchemaThatIsRefusedIsLeftOut) {
  std::atomic<int> with{0};
  std::atomic<int> without{0};
  const TestEndpoint endpoint([&](const TestRequest& request) {
    if (!json::parse(request.body).contains("response_format")) {
      ++without;
      return chat_reply("{}");
    }
    ++with;
    return error_reply(with % 2 == 0 ? 422 : 400, "response_format: not known here");
  });
  RemoteHostOptions options = quick_options();
  options.retry.tries = 1;
  const auto made = host(remote_model({&endpoint}, 4), options);
  const auto outcome = Driver(made->client()).ask(200, [](std::size_t i) {
    ModelRequest request = question(fmt::format("{}", i));
    request.schema = Json::parse(R"({"type": "object"})");
    return request;
  });
  EXPECT_EQ(outcome.good(), 200U);
  EXPECT_EQ(without, 200);
  EXPECT_THAT(with.load(), AllOf(Ge(1), Le(8))) << "no more than were sent before it was known";
  EXPECT_THAT(outcome.states.back()[0].note, HasSubstr("response_format"));
}

TEST_F(RemoteModelTest, AnErrorThatHasNothingToDoWithTheSchemaStands) {
  const TestEndpoint endpoint(
      [](const TestRequest&) { return error_reply(400, "max_tokens is too large"); });
  const auto made = host(remote_model({&endpoint}, 4), quick_options());
  ModelRequest request = question("?");
  request.schema = Json::parse(R"({"type": "object"})");
  const auto answer = Driver(made->client()).ask(request);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(answer.error().message, HasSubstr("max_tokens is too large"));
  EXPECT_EQ(endpoint.requests(), 1);
}

TEST_F(RemoteModelTest, FindsTheLimitBehindRefusals) {
  const TestEndpoint endpoint(refusing_above(20, std::chrono::milliseconds(10)));
  RemoteHostOptions options = quick_options();
  options.limit.trial.budget = 0;
  const auto made = host(remote_model({&endpoint}, 256), options);
  const auto outcome = Driver(made->client()).ask(6000, [](std::size_t i) {
    return question(fmt::format("{}", i));
  });
  EXPECT_EQ(outcome.good(), 6000U) << "nothing is lost";
  EXPECT_EQ(outcome.attempts(), static_cast<std::uint64_t>(endpoint.requests()));
  EXPECT_LE(endpoint.requests(), 6000 + 2 * 256 + 300) << "it begins with 256 at a time";
  std::size_t near = 0;
  const std::size_t half = outcome.states.size() / 2;
  for (std::size_t i = half; i < outcome.states.size(); ++i) {
    const std::uint32_t limit = outcome.states[i][0].limit;
    if (limit >= 18 && limit <= 22) ++near;
  }
  EXPECT_GE(near, half * 9 / 10);
}

TEST_F(RemoteModelTest, AServerThatOnlyGetsSlowIsNotOverloaded) {
  // Eight at a time; more only wait for each other, for longer than for a busy machine.
  const TestEndpoint endpoint([](const TestRequest& request) {
    TestReply reply = chat_reply("ok");
    reply.delay = std::chrono::milliseconds(5 * std::max(8, request.in_flight));
    return reply;
  });
  RemoteHostOptions options = quick_options();
  options.limit.trial.budget = 0.5;  // else the first trial comes after some hundred answers a slot
  const auto made = host(remote_model({&endpoint}, 64), options);
  const auto outcome = Driver(made->client()).ask(1500, [](std::size_t i) {
    return question(fmt::format("{}", i));
  });
  EXPECT_EQ(outcome.good(), 1500U);
  double mean = 0;
  const std::size_t from = outcome.states.size() * 3 / 4;
  for (std::size_t i = from; i < outcome.states.size(); ++i) mean += outcome.states[i][0].limit;
  mean /= static_cast<double>(outcome.states.size() - from);
  // 8 is enough; where latency says nothing it is 64.
  EXPECT_LE(mean, 48.0) << "in the last quarter";
}

TEST_F(RemoteModelTest, DroppedConnectionsLoseNothing) {
  // One question in twenty is dropped once, one in a hundred at all tries but the last.
  std::array<int, 2000> left{};
  for (std::size_t i = 7; i < left.size(); i += 20) left[i] = i % 100 == 7 ? 3 : 1;
  const TestEndpoint endpoint([&](const TestRequest& request) {
    TestReply reply = chat_reply("ok");
    if (left.at(std::stoul(last_message(request)))-- > 0) reply.drop_after = 30;
    return reply;
  });
  const auto made = host(remote_model({&endpoint}, 16), quick_options());
  const auto outcome = Driver(made->client()).ask(2000, [](std::size_t i) {
    return question(fmt::format("{}", i));
  });
  EXPECT_EQ(outcome.good(), 2000U);
  EXPECT_EQ(outcome.twice, 0);
  EXPECT_EQ(outcome.attempts(), static_cast<std::uint64_t>(endpoint.requests()));
  EXPECT_EQ(endpoint.requests(), 2000 + 80 * 1 + 20 * 3);
}

TEST_F(RemoteModelTest, OneOfTwoEndpointsStalls) {
  const TestEndpoint good([](const TestRequest&) { return chat_reply("ok"); });
  const TestEndpoint stalled([](const TestRequest&) {
    TestReply reply;
    reply.silent = true;
    return reply;
  });
  RemoteModel model = remote_model({&good, &stalled}, 8);
  model.timeout = std::chrono::milliseconds(500);
  const auto made = host(model, quick_options());
  const auto outcome = Driver(made->client()).ask(1000, [](std::size_t i) {
    return question(fmt::format("{}", i));
  });
  EXPECT_EQ(outcome.good(), 1000U) << "what timed out was answered by the other";
  EXPECT_EQ(good.requests(), 1000);
}

TEST_F(RemoteModelTest, AWrongKeyEndsAtOnceAndStaysSecret) {
  const TestEndpoint endpoint([](const TestRequest& request) {
    return error_reply(401, "the key " + request.headers.at("authorization") + " is wrong");
  });
  ::setenv("DOVETAIL_TEST_KEY", "hush-hush", 1);
  RemoteModel model = remote_model({&endpoint}, 8);
  model.api_key_env = "DOVETAIL_TEST_KEY";
  const auto made = host(model, quick_options());
  const auto outcome =
      Driver(made->client()).ask(50, [](std::size_t i) { return question(fmt::format("{}", i)); });
  EXPECT_EQ(outcome.good(), 0U);
  EXPECT_EQ(endpoint.requests(), 50);
  for (const auto& answer : outcome.answers) {
    EXPECT_EQ(answer->error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(answer->error().message, AllOf(HasSubstr("401"), Not(HasSubstr("hush"))));
  }
}

TEST_F(RemoteModelTest, AMissingKeyIsAnErrorOfTheModel) {
  const TestEndpoint endpoint([](const TestRequest&) { return chat_reply("ok"); });
  ::unsetenv("DOVETAIL_TEST_KEY");
  RemoteModel model = remote_model({&endpoint}, 8);
  model.api_key_env = "DOVETAIL_TEST_KEY";
  const auto made = RemoteModelHost::create(threads_, "m", model, {});
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(made.error().message, HasSubstr("DOVETAIL_TEST_KEY is not set"));
  model.api_key_env.clear();
  model.base_urls = {"http://"};
  EXPECT_FALSE(RemoteModelHost::create(threads_, "m", model, {}).has_value());
}

TEST_F(RemoteModelTest, ABadRequestIsNotTaken) {
  const TestEndpoint endpoint([](const TestRequest&) { return chat_reply("ok"); });
  const auto made = host(remote_model({&endpoint}, 1), quick_options());
  ModelClient client = made->client();
  const Status taken =
      client.submit(question("\xff"), [](const Result<ModelAnswer>&) { ADD_FAILURE(); });
  ASSERT_FALSE(taken.has_value());
  EXPECT_EQ(taken.error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(client.room(), 1U) << "its slot is free again";
  EXPECT_EQ(endpoint.requests(), 0);
}

TEST_F(RemoteModelTest, RetryAfterIsKept) {
  using Clock = std::chrono::steady_clock;
  std::mutex mutex;
  std::vector<Clock::time_point> arrivals;
  const TestEndpoint endpoint([&](const TestRequest& request) {
    const std::lock_guard lock(mutex);
    arrivals.push_back(Clock::now());
    return request.number == 0 ? error_reply(429, "slow down", "", 1) : chat_reply("ok");
  });
  const auto made = host(remote_model({&endpoint}, 8), quick_options());
  Driver driver(made->client());
  const auto outcome = driver.ask(1, [](std::size_t i) { return question(fmt::format("{}", i)); });
  EXPECT_EQ(outcome.good(), 1U);
  EXPECT_EQ(outcome.attempts(), 2U);
  ASSERT_EQ(arrivals.size(), 2U);
  EXPECT_GE(arrivals[1] - arrivals[0], std::chrono::seconds(1));
}

TEST_F(RemoteModelTest, ABrokenEndpointIsProbed) {
  std::atomic<int> crowd{0};  // the most in flight, once the breaker is open
  const TestEndpoint endpoint([&](const TestRequest& request) {
    if (request.number >= 40) return chat_reply("ok");
    if (request.number >= 16) crowd = std::max(crowd.load(), request.in_flight);
    return error_reply(500, "out of order");
  });
  RemoteHostOptions options = quick_options();
  options.retry.tries = 100;
  options.breaker.first_pause = 5'000;
  options.breaker.longest_pause = 20'000;
  const auto made = host(remote_model({&endpoint}, 8), options);
  const auto outcome =
      Driver(made->client()).ask(100, [](std::size_t i) { return question(fmt::format("{}", i)); });
  EXPECT_EQ(outcome.good(), 100U);
  EXPECT_EQ(crowd, 1) << "one probe at a time";
}

TEST_F(RemoteModelTest, AnEndpointThatIsGoneForGoodEndsTheRun) {
  RemoteModel model;
  {
    const TestEndpoint endpoint([](const TestRequest&) { return chat_reply("ok"); });
    model = remote_model({&endpoint}, 8);
  }
  RemoteHostOptions options = quick_options();
  options.retry.tries = 1000;
  options.stall_bound = kOneSecond;
  const auto made = host(model, options);
  Driver driver(made->client());
  const auto outcome =
      driver.ask(100, [](std::size_t i) { return question(fmt::format("{}", i)); });
  ASSERT_FALSE(outcome.check.has_value());
  EXPECT_EQ(outcome.check.error().kind, ErrorKind::kTimeout);
  EXPECT_THAT(outcome.check.error().message,
              HasSubstr("model m: no request succeeded for 1 s; the last one failed with: POST "));
  EXPECT_EQ(outcome.good(), 0U);
  EXPECT_EQ(made->client().room(), 0U);
}

TEST_F(RemoteModelTest, AfterTheStallEverySinkIsCalled) {
  const TestEndpoint endpoint([](const TestRequest& request) {
    TestReply reply = error_reply(429, "never");
    reply.silent = request.number % 2 == 1;
    return reply;
  });
  RemoteHostOptions options = quick_options();
  options.stall_bound = kOneSecond / 2;
  const auto made = host(remote_model({&endpoint}, 8), options);
  ModelClient client = made->client();
  std::atomic<int> ended{0};
  int taken = 0;
  while (client.room() > 0 && taken < 8) {
    const Status ok = client.submit(question("?"), [&](const Result<ModelAnswer>& answer) {
      EXPECT_EQ(answer.error().kind, ErrorKind::kTimeout);
      ++ended;
    });
    if (ok) ++taken;
  }
  ASSERT_GT(taken, 0);
  while (client.check()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (int i = 0; i < 1000 && ended < taken; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(ended, taken);
}

TEST_F(RemoteModelTest, TheEndOfAHostCallsEverySinkOnce) {
  const TestEndpoint endpoint([](const TestRequest& request) {
    TestReply reply =
        request.number % 3 == 0 ? error_reply(429, "wait", "", 3600) : chat_reply("a");
    reply.silent = request.number % 3 == 1;
    return reply;
  });
  for (int round = 0; round < 20; ++round) {
    auto made = host(remote_model({&endpoint}, 32), quick_options());
    ModelClient client = made->client();
    std::vector<std::atomic<int>> calls(32);
    std::vector<bool> taken(32);
    for (std::size_t i = 0; i < 32; ++i) {
      taken[i] = client
                     .submit(question("?"),
                             [&calls, i](const Result<ModelAnswer>& answer) {
                               ++calls[i];
                               if (answer) return;
                               EXPECT_EQ(answer.error().kind, ErrorKind::kUnavailable);
                             })
                     .has_value();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(round % 5));
    client = {};
    made.reset();
    for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(calls[i], taken[i] ? 1 : 0) << i;
  }
}

TEST_F(RemoteModelTest, TwoEndpointsShareTheLoad) {
  const auto script = [](const TestRequest&) {
    TestReply reply = chat_reply("ok");
    reply.delay = std::chrono::milliseconds(5);
    return reply;
  };
  const TestEndpoint a(script);
  const TestEndpoint b(script);
  const auto made = host(remote_model({&a, &b}, 8), quick_options());
  Driver driver(made->client());
  // All with the same beginning: the favourite of it is not to have everything.
  const auto outcome = driver.ask(
      2000, [](std::size_t i) { return question(std::string(2000, 'x') + fmt::format("{}", i)); });
  EXPECT_EQ(outcome.good(), 2000U);
  EXPECT_EQ(a.requests() + b.requests(), 2000);
  EXPECT_GE(std::min(a.requests(), b.requests()), 500);
  EXPECT_LE(std::max(a.most_in_flight(), b.most_in_flight()), 8);
}

TEST_F(RemoteModelTest, OfEqualBeginningsOneEndpointIsAskedWhileItHasRoom) {
  const auto script = [](const TestRequest&) { return chat_reply("ok"); };
  const TestEndpoint a(script);
  const TestEndpoint b(script);
  const auto made = host(remote_model({&a, &b}, 8), quick_options());
  Driver driver(made->client());
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(driver.ask(question(std::string(2000, 'x') + fmt::format("{}", i))).has_value());
  }
  EXPECT_EQ(std::max(a.requests(), b.requests()), 20);
}

TEST_F(RemoteModelTest, BackOffHoldsNoSlot) {
  const TestEndpoint endpoint([](const TestRequest& request) {
    return last_message(request) == "bad" ? error_reply(500, "no") : chat_reply("ok");
  });
  RemoteHostOptions options = quick_options();
  options.retry.base = options.retry.longest = 3600 * kOneSecond;
  options.retry.share_of_latency = 0;
  options.most_off_wire = 3;
  const auto made = host(remote_model({&endpoint}, 1), options);
  ModelClient client = made->client();
  Driver driver(client);
  for (std::int64_t waiting = 1; waiting <= 3; ++waiting) {
    ASSERT_TRUE(client.submit(question("bad"), [](const Result<ModelAnswer>&) {}).has_value());
    // The slot is free again once the endpoint has said no; the request waits for an hour.
    const auto is_free = [&] {
      return endpoint.requests() == 2 * waiting - 1 && client.state()[0].in_flight == 0;
    };
    for (int i = 0; i < 10'000 && !is_free(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_TRUE(is_free()) << "a request in back-off has a slot";
    if (waiting == 3) break;
    const auto answer = driver.ask(question("good"));
    EXPECT_TRUE(answer.has_value()) << answer.error().message;
  }
  EXPECT_EQ(client.room(), 0U) << "as many wait as may";
  EXPECT_EQ(client.state()[0].in_flight, 0U);
}

TEST_F(RemoteModelTest, SaysWhenRoomGrowsByTime) {
  const TestEndpoint endpoint([](const TestRequest&) { return chat_reply("ok"); });
  RemoteModel model = remote_model({&endpoint}, 64);
  model.requests_per_minute = 600;
  const auto made = host(model, quick_options());
  Driver driver(made->client());
  const auto outcome = driver.ask(20, [](std::size_t i) { return question(fmt::format("{}", i)); });
  EXPECT_EQ(outcome.good(), 20U);
  EXPECT_GE(driver.wakes(), 1);
}

TEST_F(RemoteModelTest, HostsShareTheirThreads) {
  const TestEndpoint endpoint([](const TestRequest&) { return chat_reply("ok"); });
  const auto one = host(remote_model({&endpoint}, 8), quick_options());
  auto two = host(remote_model({&endpoint}, 8), quick_options());
  EXPECT_TRUE(Driver(one->client()).ask(question("a")).has_value());
  EXPECT_TRUE(Driver(two->client()).ask(question("b")).has_value());
  two.reset();
  threads_.reset();
  EXPECT_TRUE(Driver(one->client()).ask(question("c")).has_value());
}

}  // namespace
}  // namespace dovetail::pipeline
