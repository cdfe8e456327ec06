#include <benchmark/benchmark.h>

#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <utility>

#include "pipeline/remote/chat_client.h"
#include "pipeline/remote/concurrency_limit.h"
#include "pipeline/remote/endpoint/test_endpoint.h"
#include "pipeline/remote/http_client.h"

namespace dovetail::pipeline {
namespace {

// Chat completions to a loopback endpoint that answers at once, so many always in flight: each
// answer's callback reads it and sends the next request. The endpoint runs in this process on a
// thread of its own.
void chat_requests(benchmark::State& state) {
  constexpr int kRequests = 20'000;
  TestEndpoint endpoint(
      [reply = chat_reply("The answer is 42.")](const TestRequest&) { return reply; });
  const auto http = std::move(*HttpClient::create());
  ChatEndpoint where;
  where.base_url = endpoint.url("/v1");
  const auto client = *ChatClient::create(*http, where);
  ChatRequest request;
  request.model = "m";
  request.messages = {{"user", "What is six times seven? Answer with the number alone.", ""}};

  for (auto _ : state) {
    std::promise<void> done;
    // All three are touched by the client's thread alone once the first requests are under way.
    int left_to_send = kRequests;
    int left_to_read = kRequests;
    int failed = 0;
    std::mutex start;
    std::function<void()> send = [&] {
      --left_to_send;
      client.send(request, [&](const HttpResult& result) {
        const std::lock_guard lock(start);
        if (client.read(result).failure != FailureClass::kNone) ++failed;
        if (left_to_send > 0) send();
        if (--left_to_read == 0) done.set_value();
      });
    };
    {
      const std::lock_guard lock(start);
      for (int i = 0; i < state.range(0); ++i) send();
    }
    done.get_future().wait();
    if (failed > 0) state.SkipWithError("requests failed");
  }
  state.SetItemsProcessed(state.iterations() * kRequests);
}
BENCHMARK(chat_requests)
    ->Arg(1)
    ->Arg(16)
    ->Arg(64)
    ->Arg(256)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

// What the limit costs a request.
void limit_cost(benchmark::State& state) {
  ConcurrencyLimit limit(LimitOptions{});
  Micros now = 0;
  for (auto _ : state) {
    const auto ticket = limit.sent(now);
    now += 100;
    limit.finished(ticket, ConcurrencyLimit::Outcome::kSuccess, now);
    benchmark::DoNotOptimize(limit.next_time(now));
  }
}
BENCHMARK(limit_cost);

}  // namespace
}  // namespace dovetail::pipeline

BENCHMARK_MAIN();
