#include <benchmark/benchmark.h>
#include <fmt/core.h>
#include <sys/resource.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <utility>

#include "pipeline/remote/chat_client.h"
#include "pipeline/remote/concurrency_limit.h"
#include "pipeline/remote/endpoint/test_endpoint.h"
#include "pipeline/remote/http_client.h"
#include "pipeline/remote/remote_scheduler.h"
#include "pipeline/remote/scheduler_simulation.h"
#include "pipeline/run/remote_model.h"

namespace dovetail::pipeline {
namespace {

double process_cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

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

// The same through a host, as a run does it: one thread submits while there is room and takes the
// answers. `client_cpu_us` is the
// processor time of everything but the endpoint, per request.
void host_requests(benchmark::State& state) {
  constexpr int kRequests = 20'000;
  TestEndpoint endpoint(
      [reply = chat_reply("The answer is 42.")](const TestRequest&) { return reply; });
  const auto threads = *RemoteThreads::create();
  RemoteModel model;
  model.base_urls = {endpoint.url("/v1")};
  model.model = "m";
  model.max_parallel = static_cast<std::uint32_t>(state.range(0));
  model.timeout = std::chrono::seconds(60);
  std::mutex mutex;
  std::condition_variable news;
  int ended = 0;
  int failed = 0;
  bool woken = false;
  const auto host = *RemoteModelHost::create(threads, "m", model, {});
  const double cpu_before = process_cpu_seconds();
  ModelClient client = host->client();
  client.on_room([&] {
    const std::lock_guard lock(mutex);
    woken = true;
    news.notify_one();
  });
  ModelRequest request;
  request.messages = {{"user", "What is six times seven? Answer with the number alone."}};
  const AnswerSink sink = [&](const Result<ModelAnswer>& answer) {
    const std::lock_guard lock(mutex);
    if (!answer) ++failed;
    ++ended;
    woken = true;
    news.notify_one();
  };
  for (auto _ : state) {
    ended = 0;
    for (int sent = 0;;) {
      for (std::uint32_t room = client.room(); room > 0 && sent < kRequests; --room) {
        request.seed = static_cast<std::uint64_t>(sent);
        if (!client.submit(request, sink)) break;
        ++sent;
      }
      std::unique_lock lock(mutex);
      news.wait(lock, [&] { return std::exchange(woken, false); });
      if (ended == kRequests) break;
    }
  }
  if (failed > 0) state.SkipWithError("requests failed");
  const double requests = static_cast<double>(state.iterations()) * kRequests;
  const double all = process_cpu_seconds() - cpu_before;
  state.counters["endpoint_cpu_us"] = 1e6 * endpoint.cpu_seconds() / requests;
  state.counters["client_cpu_us"] = 1e6 * (all - endpoint.cpu_seconds()) / requests;
  state.SetItemsProcessed(state.iterations() * kRequests);
}
BENCHMARK(host_requests)->Arg(16)->Arg(64)->Arg(256)->Unit(benchmark::kMillisecond)->UseRealTime();

// What the choice of an endpoint, the limits and the books cost a request.
void scheduler_cost(benchmark::State& state) {
  RemoteSchedulerOptions options;
  options.name = "m";
  for (int i = 0; i < state.range(0); ++i) options.endpoints.push_back(fmt::format("e{}", i));
  RemoteScheduler scheduler(options);
  Micros now = 0;
  std::uint64_t prefix = 0;
  for (auto _ : state) {
    const auto begun = scheduler.begin({++prefix, 0, 0}, now);
    now += 100;
    scheduler.ended(begun->id,
                    {ConcurrencyLimit::Outcome::kSuccess, CircuitBreaker::Outcome::kSuccess, {}},
                    now);
    scheduler.answered(begun->id, 10, now);
    benchmark::DoNotOptimize(scheduler.next_time(now));
  }
}
BENCHMARK(scheduler_cost)->Arg(1)->Arg(4);

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

// What trouble at an endpoint costs a run: `ratio` is wall time over the bound that 64 slots (or
// what the endpoint takes) set, on the virtual clock, for 3,000 requests of one model (1,000
// records of three columns). The argument is the endpoint's latency in milliseconds. Aims: 1.02
// without trouble, 1.3 with.
enum class Trouble { kNone, kErrors, kRefusalsAbove20, kSomeRefusals };

void trouble_cost(benchmark::State& state, Trouble trouble) {
  constexpr int kRequests = 3000;
  constexpr int kSlots = 64, kRoom = 20;
  const Micros latency = 1000 * state.range(0);
  const SimulatedServer server = [&](const SimulatedRequest& request, std::mt19937_64& random) {
    const bool unlucky = std::uniform_real_distribution<double>()(random) < 0.05;
    switch (trouble) {
      case Trouble::kNone:
        break;
      case Trouble::kErrors:
        return unlucky ? breakage(latency) : success(latency);
      case Trouble::kRefusalsAbove20:
        return request.in_flight > kRoom ? refusal(1000) : success(latency);
      case Trouble::kSomeRefusals:
        return unlucky ? refusal(1000) : success(latency);
    }
    return success(latency);
  };
  const int slots = trouble == Trouble::kRefusalsAbove20 ? kRoom : kSlots;
  const double bound = static_cast<double>((kRequests + slots - 1) / slots * latency);
  RemoteSchedulerOptions options;
  options.name = "m";
  options.endpoints = {"e"};
  options.limit.max_parallel = kSlots;
  double sum = 0;
  std::uint64_t seed = 0;
  for (auto _ : state) {
    const auto run = run_scheduler(options, server, kRequests, 24 * 3600 * kOneSecond, ++seed);
    sum += static_cast<double>(run.end) / bound;
  }
  state.counters["ratio"] = sum / static_cast<double>(seed);
}
BENCHMARK_CAPTURE(trouble_cost, none, Trouble::kNone)->Arg(50)->Arg(500)->Iterations(20);
BENCHMARK_CAPTURE(trouble_cost, errors_5_percent, Trouble::kErrors)
    ->Arg(50)
    ->Arg(500)
    ->Iterations(20);
BENCHMARK_CAPTURE(trouble_cost, refusals_above_20, Trouble::kRefusalsAbove20)
    ->Arg(50)
    ->Arg(500)
    ->Iterations(20);
BENCHMARK_CAPTURE(trouble_cost, refusals_5_percent, Trouble::kSomeRefusals)
    ->Arg(50)
    ->Arg(500)
    ->Iterations(20);

}  // namespace
}  // namespace dovetail::pipeline

BENCHMARK_MAIN();
