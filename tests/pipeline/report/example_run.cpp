#include "example_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <stdexcept>

namespace dovetail::pipeline {
namespace {

constexpr std::array kNames{"topic",    "difficulty", "seconds", "id",
                            "question", "answer",     "verdict", "truth"};

std::string repeated(const std::string& words, std::uint64_t times) {
  std::string text;
  for (std::uint64_t i = 0; i < times; ++i) text += (i > 0 ? " " : "") + words;
  return text;
}

class ExampleRun {
 public:
  explicit ExampleRun(Store& store) : store_(store) {
    maker_ = store.origin({"small-model", {0x1234, 0x5678}});
    judge_ = store.origin({"judge", {0x9abc, 0xdef0}});
  }

  void record(std::uint64_t record) {
    record_ = record;
    cells_.clear();
    const std::array topics{"animals", "sums", "trains", "cooking <fast & \"slow\">", "money"};
    std::discrete_distribution<std::size_t> topic({5, 3, 2, 1, 1});
    add(0, topics[topic(random_)], {});
    add(1, std::uniform_int_distribution<int>(1, 5)(random_), {});
    add(2, std::round(std::normal_distribution<double>(12.5, 3.0)(random_) * 1000) / 1000, {});
    add(3, fmt::format("{:08x}", static_cast<std::uint32_t>(random_())), {});
    const auto words = static_cast<std::uint64_t>(
        std::exp(std::normal_distribution<double>(2.2, 0.5)(random_)) + 2);
    add(4,
        fmt::format("How much is {} + {}? ", record % 97, record % 13) + repeated("please", words),
        made(maker_, 60 + words, words * 2, 250, 0.4));
    if (record % 41 == 40) {
      failed(5, CellState::kDropped,
             fmt::format("answer: no JSON at position {}: found \"{}\"", record * 7 % 300, record));
      return put();
    }
    add(5, fmt::format("It is {}.\n```\nx < {} && y > 2\n```", record % 97 + record % 13, record),
        made(maker_, 80 + words, words * 5, 700, 0.6));
    if (record % 29 == 28) {
      failed(6, CellState::kFailed, "verdict: the answer was cut by max_tokens at 256 tokens");
    } else if (record % 53 == 52) {
      cells_.push_back({record_, 6, CellState::kSkipped, "", {}});
    } else {
      std::discrete_distribution<int> score({1, 2, 5, 9, 4});
      const Json verdict = {
          {"correct", {{"score", score(random_) + 1}, {"reasoning", "It adds the numbers right."}}},
          {"tone",
           {{"score", random_() % 4 == 0 ? "rude" : "kind"},
            {"reasoning", "It says \"please\"."}}}};
      add(6, verdict, made(judge_, 200, 40, 1800, 0.3));
    }
    add(7, record % 97 + record % 13, {});
    put();
  }

 private:
  Provenance made(std::uint32_t origin, std::uint64_t in, std::uint64_t out, double ms,
                  double spread) {
    const double latency =
        ms * 1000 * std::exp(std::normal_distribution<double>(0, spread)(random_));
    return {origin,
            random_() % 20 == 0 ? 2U : 1U,
            static_cast<std::uint32_t>(in),
            static_cast<std::uint32_t>(out),
            static_cast<std::uint64_t>(latency),
            origin == judge_ ? 600'000U : 0U};
  }
  void add(std::uint32_t column, const Json& value, const Provenance& provenance) {
    cells_.push_back({record_, column, CellState::kValue, value.dump(), provenance});
  }
  void failed(std::uint32_t column, CellState state, std::string reason) {
    cells_.push_back({record_, column, state, std::move(reason), made(maker_, 60, 10, 500, 0.4)});
  }
  void put() { store_.put(cells_, {}); }

  Store& store_;
  std::mt19937_64 random_{7};
  std::uint32_t maker_ = 0, judge_ = 0;
  std::uint64_t record_ = 0;
  std::vector<CellResult> cells_;
};

}  // namespace

std::unique_ptr<Store> example_store(const std::filesystem::path& file, std::uint64_t records) {
  auto opened = Store::open(file, OpenMode::kCreate);
  if (!opened) throw std::runtime_error(opened.error().message);
  std::unique_ptr<Store> store = *std::move(opened);
  std::vector<ColumnSpec> columns;
  for (std::uint64_t i = 0; i < kNames.size(); ++i) columns.push_back({kNames[i], {i, i}, i < 4});
  if (const auto ok = store->reconcile(columns); !ok) throw std::runtime_error(ok.error().message);
  ExampleRun run(*store);
  for (std::uint64_t i = 0; i < records; ++i) run.record(i);
  if (const Status ok = store->flush(); !ok) throw std::runtime_error(ok.error().message);
  return store;
}

std::vector<ColumnInfo> example_infos() {
  std::vector<ColumnInfo> infos{
      {"topic", "sampler", "", {}},          {"difficulty", "sampler", "", {}},
      {"seconds", "sampler", "", {}},        {"id", "sampler", "", {}},
      {"question", "llm-text", "small", {}}, {"answer", "llm-text", "small", {}},
      {"verdict", "llm-judge", "judge", {}}, {"truth", "expression", "", {}}};
  infos[6].rubrics = {{"correct", {"1", "2", "3", "4", "5"}}, {"tone", {"\"kind\"", "\"rude\""}}};
  return infos;
}

std::vector<EndpointReport> example_endpoints(std::uint64_t seconds) {
  std::vector<EndpointReport> endpoints{{"small-model", "small", Activity()},
                                        {"http://10.0.0.7:8000/v1", "judge", Activity()}};
  std::mt19937_64 random{3};
  for (std::uint64_t i = 0; i < seconds * 10; ++i) {
    const std::uint64_t time = i * 100'000;
    const double share = static_cast<double>(i) / static_cast<double>(seconds * 10);
    const bool full = share > 0.02 && share < 0.86;
    endpoints[0].activity.sample(
        time, full ? 16 : static_cast<std::uint32_t>(16 * std::min(1.0, (1 - share) * 7)), 16,
        full           ? SlotCause::kLimit
        : share < 0.02 ? SlotCause::kTaking
                       : SlotCause::kWindow);
    const bool cooling = share > 0.4 && share < 0.46;
    const bool broken = share > 0.66 && share < 0.69;
    const std::uint32_t limit = share < 0.4 ? 64 : static_cast<std::uint32_t>(40 + share * 20);
    const auto noise = static_cast<std::uint32_t>(random() % 7);
    const std::uint32_t busy = share < 0.05                     ? 4 * noise
                               : cooling                        ? noise / 2
                               : broken                         ? 0
                               : share > 0.25 && !(share > 0.8) ? limit
                                                                : 24 + noise * 3;
    endpoints[1].activity.sample(time, busy, limit,
                                 cooling         ? SlotCause::kCoolDown
                                 : broken        ? SlotCause::kBroken
                                 : busy == limit ? SlotCause::kLimit
                                                 : SlotCause::kNothingReady);
  }
  for (EndpointReport& endpoint : endpoints) endpoint.activity.end(seconds * 1'000'000);
  return endpoints;
}

}  // namespace dovetail::pipeline
