// Workers that make a run together, with leases that the tests hand out and take away.
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <thread>

#include "lease_board.h"
#include "pipeline/run/runner.h"
#include "run_fixture.h"

namespace dovetail::pipeline {
namespace {

constexpr const char* kSharedModels = R"(
models:
  gen: {endpoint: "http://localhost:1/v1", model: g}
  judge: {endpoint: "http://localhost:1/v1", model: j}
)";

constexpr std::uint64_t kRecords = 100;
constexpr std::uint64_t kRange = 7;
constexpr std::size_t kRanges = 15;

PipelineSpec small_spec() {
  return spec_of(fmt::format("records: {}\n{}{}", kRecords, kSharedModels, kJudgedColumns));
}

// The text depends on the seed, so that another record's seed gives another text.
ModelAnswer write(const ModelRequest& request) {
  return answer(fmt::format("<{} {}>", prompt_of(request), request.seed));
}

ModelAnswer grade(const ModelRequest& request) {
  const std::size_t length = prompt_of(request).size();
  // What is no option drops the record, some of them at the second or third answer.
  return answer(length % 7 == 0 ? "hardly" : request.seed % 3 == 0 ? "perhaps" : "yes");
}

std::vector<std::size_t> any_order(std::uint32_t seed) {
  std::vector<std::size_t> order(kRanges);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  return order;
}

std::vector<std::string> made_alone() {
  const RunFolder folder;
  ScriptedModel gen(8, write), judge(3, grade);
  Session session = run_session(small_spec(), folder.path(), {gen.client(), judge.client()});
  EXPECT_TRUE(session.progress);
  EXPECT_EQ(session.violations, std::vector<std::string>());
  EXPECT_EQ(session.lines.size(), kRecords);
  return std::move(session.lines);
}

// What one process makes of the cells that workers have left: their records, and no request.
std::vector<std::string> results_of(const PipelineSpec& spec, const RunFolder& folder) {
  ScriptedModel silent(4, write);
  Session session = run_session(spec, folder.path(), {silent.client(), silent.client()});
  EXPECT_TRUE(session.progress);
  EXPECT_TRUE(silent.asked().empty());
  return std::move(session.lines);
}

void expect_lawful(const Session& session) {
  ASSERT_TRUE(session.progress) << session.progress.error().message;
  EXPECT_EQ(session.violations, std::vector<std::string>());
  EXPECT_TRUE(session.lines.empty()) << "a worker emits nothing";
}

TEST(SharedRunner, RangesComeInAnyOrder) {
  const PipelineSpec spec = small_spec();
  const std::vector<std::string> alone = made_alone();
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    const RunFolder folder;
    LeaseBoard board(kRecords, kRange, any_order(seed));
    ScriptedModel gen(8, write), judge(3, grade);
    {
      const auto store = open_run(spec, folder.path(), OpenMode::kCreate);
      const Session worker = run_worker(spec, *store, {gen.client(), judge.client()}, board.port());
      expect_lawful(worker);
      EXPECT_EQ(worker.progress->end, RunEnd::kComplete);
      EXPECT_EQ(worker.progress->finished + worker.progress->dropped, kRecords);
      EXPECT_GT(worker.progress->dropped, 0U);
    }
    EXPECT_EQ(board.taken(), kRanges);
    EXPECT_EQ(gen.asked().size(), kRecords);
    EXPECT_EQ(results_of(spec, folder), alone);
  }
}

// The models are not left without work at the border of two ranges.
TEST(SharedRunner, TheNextRangeIsThereInTime) {
  const PipelineSpec spec = small_spec();
  const RunFolder folder;
  const auto store = open_run(spec, folder.path(), OpenMode::kCreate);
  LeaseBoard board(kRecords, kRange, any_order(1));
  // Nobody is answered before as many are asked as fit, until the records run out.
  constexpr std::uint32_t kSlots = 16;
  std::mutex mutex;
  std::condition_variable asked;
  std::uint64_t begun = 0;
  ScriptedModel judge(3, grade);
  ScriptedModel gen(kSlots, [&](const ModelRequest& request) {
    std::unique_lock lock(mutex);
    const std::uint64_t place = begun++;
    asked.notify_all();
    asked.wait(lock, [&] { return begun >= std::min(kRecords, place / kSlots * kSlots + kSlots); });
    return write(request);
  });
  expect_lawful(run_worker(spec, *store, {gen.client(), judge.client()}, board.port()));
}

// What comes of a lost range is dropped, also answers that are still under way when it comes again.
TEST(SharedRunner, ALostRangeIsForgotten) {
  const PipelineSpec spec = small_spec();
  const RunFolder folder;
  constexpr std::size_t kLost = 4;
  LeaseBoard board(kRecords, kRange, any_order(2));
  std::mutex mutex;
  std::map<std::string, int> times;
  const auto is_of_lost = [&](const std::string& prompt) {
    const auto number = std::stoull(prompt.substr(prompt.find(' ')));
    return number / kRange == kLost;
  };
  ScriptedModel judge(3, grade);
  ScriptedModel gen(8, [&](const ModelRequest& request) {
    const std::lock_guard lock(mutex);
    const std::string prompt = prompt_of(request);
    if (++times[prompt] > 1 || !is_of_lost(prompt)) return write(request);
    board.take_away(kLost);
    return answer("<too late>");
  });
  {
    const auto store = open_run(spec, folder.path(), OpenMode::kCreate);
    const Session worker = run_worker(spec, *store, {gen.client(), judge.client()}, board.port());
    expect_lawful(worker);
    EXPECT_EQ(worker.progress->finished + worker.progress->dropped, kRecords);
  }
  EXPECT_GT(board.taken(), kRanges);
  std::map<std::string, std::set<std::uint64_t>> seeds;
  for (const ModelRequest& request : gen.asked()) seeds[prompt_of(request)].insert(request.seed);
  for (const auto& [prompt, different] : seeds) EXPECT_EQ(different.size(), 1U) << prompt;
  for (const auto& [prompt, count] : times) {
    EXPECT_TRUE(count == 1 || is_of_lost(prompt)) << prompt;
  }
  EXPECT_EQ(results_of(spec, folder), made_alone());
}

// A worker waits for what others hold, since it may come back.
TEST(SharedRunner, ARangeComesLate) {
  const PipelineSpec spec = small_spec();
  const RunFolder folder;
  LeaseBoard board(kRecords, kRange, any_order(3));
  std::atomic<int> asked{0}, refused{0};
  // Held by somebody who vanishes when all else is made.
  const auto may_take = [&](const RecordRange& range) {
    if (range.first != 5 * kRange || refused > 20) return true;
    if (asked == static_cast<int>(kRecords - kRange)) ++refused;
    return false;
  };
  ScriptedModel judge(3, grade);
  ScriptedModel gen(8, [&](const ModelRequest& request) {
    ++asked;
    return write(request);
  });
  {
    const auto store = open_run(spec, folder.path(), OpenMode::kCreate);
    expect_lawful(run_worker(spec, *store, {gen.client(), judge.client()}, board.port(may_take)));
  }
  EXPECT_EQ(results_of(spec, folder), made_alone());
}

TEST(SharedRunner, WorkersShareTheRecords) {
  const PipelineSpec spec = small_spec();
  const std::vector<std::string> alone = made_alone();
  for (const std::size_t workers : {2U, 4U}) {
    for (const bool loses : {false, true}) {
      const RunFolder folder;
      LeaseBoard board(kRecords, kRange, any_order(4));
      std::mutex mutex;
      std::mt19937 random(9);
      const auto slowly = [&](const ModelRequest& request) {
        {
          const std::lock_guard lock(mutex);
          if (loses && random() % 10 == 0) board.take_away(random() % kRanges);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return write(request);
      };
      std::vector<Session> sessions(workers);
      std::uint64_t made = 0, asked = 0;
      {
        const auto store = open_run(spec, folder.path(), OpenMode::kCreate);
        std::vector<std::unique_ptr<ScriptedModel>> models;
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < workers; ++i) {
          ScriptedModel& gen = *models.emplace_back(std::make_unique<ScriptedModel>(2, slowly));
          ScriptedModel& judge = *models.emplace_back(std::make_unique<ScriptedModel>(2, grade));
          threads.emplace_back([&, i, clients = std::vector{gen.client(), judge.client()}] {
            sessions[i] = run_worker(spec, *store, clients, board.port());
          });
        }
        for (std::thread& thread : threads) thread.join();
        for (std::size_t i = 0; i < workers; ++i) asked += models[2 * i]->asked().size();
      }
      for (const Session& session : sessions) {
        expect_lawful(session);
        made += session.progress->finished + session.progress->dropped;
      }
      if (!loses) {
        EXPECT_EQ(made, kRecords);
        EXPECT_EQ(asked, kRecords);
      }
      EXPECT_EQ(results_of(spec, folder), alone);
    }
  }
}

// Each worker hears with its commits what the others have spent.
TEST(SharedRunner, AllWorkersTogetherCostNoMore) {
  constexpr const char* kPriced = R"(
models:
  gen: {endpoint: "http://localhost:1/v1", model: g, input_price: 1, output_price: 2}
  judge: {endpoint: "http://localhost:1/v1", model: j}
)";
  constexpr std::uint64_t kMany = 2000;
  constexpr double kEach = 20e-6;
  const PipelineSpec spec = spec_of(fmt::format("records: {}\nlimits: {{cost: {}}}\n{}{}", kMany,
                                                100 * kEach, kPriced, kJudgedColumns));
  constexpr std::size_t kWorkers = 3, kSlots = 2;
  const RunFolder folder;
  std::vector<std::size_t> order(kMany / 10);
  std::iota(order.begin(), order.end(), std::size_t{0});
  LeaseBoard board(kMany, 10, order);
  const auto slowly = [](const ModelRequest& request) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return write(request);
  };
  std::vector<Session> sessions(kWorkers + 1);
  std::vector<std::unique_ptr<ScriptedModel>> models;
  const auto store = open_run(spec, folder.path(), OpenMode::kCreate);
  const auto work = [&](std::size_t i) {
    sessions[i] = run_worker(spec, *store, {models[2 * i]->client(), models[2 * i + 1]->client()},
                             board.port());
  };
  for (std::size_t i = 0; i <= kWorkers; ++i) {
    models.push_back(std::make_unique<ScriptedModel>(kSlots, slowly));
    models.push_back(std::make_unique<ScriptedModel>(kSlots, grade));
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kWorkers; ++i) threads.emplace_back([&, i] { work(i); });
  for (std::thread& thread : threads) thread.join();
  work(kWorkers);  // one that comes when all is spent
  std::size_t asked = 0;
  for (std::size_t i = 0; i <= kWorkers; ++i) {
    expect_lawful(sessions[i]);
    EXPECT_EQ(sessions[i].progress->end, RunEnd::kCost);
    asked += models[2 * i]->asked().size();
  }
  EXPECT_EQ(models[2 * kWorkers]->asked().size(), 0U);
  EXPECT_GE(asked, 100U);
  EXPECT_LT(asked, kMany / 2) << "far from what one worker after the other would have asked for";
  EXPECT_NEAR(1e-9 * static_cast<double>(*store->spent()), static_cast<double>(asked) * kEach,
              1e-9);
}

TEST(SharedRunner, AStoppedWorkerLeavesTheRestToOthers) {
  const PipelineSpec spec = small_spec();
  const RunFolder folder;
  LeaseBoard board(kRecords, kRange, any_order(5));
  std::atomic<int> written{0};
  ScriptedModel judge(3, grade);
  ScriptedModel gen(4, [&](const ModelRequest& request) {
    ++written;
    return write(request);
  });
  {
    const auto store = open_run(spec, folder.path(), OpenMode::kCreate);
    const auto stop = [&] { return written > 40 ? StopLevel::kFinish : StopLevel::kNone; };
    const Session first =
        run_worker(spec, *store, {gen.client(), judge.client()}, board.port(), stop);
    expect_lawful(first);
    EXPECT_EQ(first.progress->end, RunEnd::kStopped);
    EXPECT_GT(first.progress->finished, 0U);
    for (std::size_t range = 0; range < kRanges; ++range) board.take_away(range);
    const Session second = run_worker(spec, *store, {gen.client(), judge.client()}, board.port());
    expect_lawful(second);
    EXPECT_EQ(second.progress->end, RunEnd::kComplete);
  }
  EXPECT_EQ(gen.asked().size(), kRecords) << "what was under way was kept";
  EXPECT_EQ(results_of(spec, folder), made_alone());
}

TEST(SharedRunner, NeedsNoModels) {
  const PipelineSpec spec = spec_of(
      "records: 5000\ncolumns:\n"
      "  - {name: i, type: sampler, sampler: integer, params: {low: 0, high: 1}}\n"
      "  - {name: twice, type: expression, as: integer, value: \"{{ 2 * i }}\"}\n");
  const RunFolder folder;
  LeaseBoard board(5000, 500, {3, 1, 4, 0, 5, 9, 2, 6, 8, 7});
  {
    const auto store = open_run(spec, folder.path(), OpenMode::kCreate);
    const Session worker = run_worker(spec, *store, {}, board.port());
    expect_lawful(worker);
    EXPECT_EQ(worker.progress->finished, 5000U);
  }
  const Session results = run_session(spec, folder.path(), {});
  ASSERT_EQ(results.lines.size(), 5000U);
  EXPECT_EQ(results.lines[4321], R"({"i":4321,"twice":8642})");
}

}  // namespace
}  // namespace dovetail::pipeline
