// How near runs of pipelines come to the bound that their models' slots and latencies set, and what
// a cell costs: three generators behind a sampler, a judge for each, 64 slots a model; models that
// answer after a fixed time. Aims: at most 1.02 times the bound at 50 ms, 1.05 at 5 ms, whatever
// the window; the first judge is asked at most 1 ms after the first answer. The ratio "met" is to
// the bound of the latencies that the models met, whose clocks are late on a busy machine.

#include <fmt/core.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <queue>
#include <thread>

#include "pipeline/run/run_plan.h"
#include "pipeline/run/runner.h"

namespace dovetail::pipeline {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr std::uint32_t kSlots = 64;

// Answers every request after the same time, on a thread of its own.
class TimedModel {
 public:
  TimedModel(microseconds latency, std::string text) : latency_(latency), text_(std::move(text)) {}
  ~TimedModel() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  ModelClient client() {
    ModelClient client;
    client.slots = kSlots;
    client.room = [this] {
      const std::lock_guard lock(mutex_);
      return kSlots - in_flight_;
    };
    client.on_room = [](const std::function<void()>&) {};
    client.submit = [this](const ModelRequest&, AnswerSink sink) -> Status {
      const std::lock_guard lock(mutex_);
      if (!first_asked_) first_asked_ = Clock::now();
      ++in_flight_;
      due_.push({Clock::now() + latency_, std::move(sink)});
      changed_.notify_one();
      return {};
    };
    client.check = [] { return Status(); };
    client.state = [] { return std::vector<ModelState>(); };
    return client;
  }

  std::optional<Clock::time_point> first_asked() const { return first_asked_; }
  std::optional<Clock::time_point> first_answered() const { return first_answered_; }
  // The mean time that answers took: the latency, and how late this thread was.
  double on_wire() const { return on_wire_ / static_cast<double>(answers_); }

 private:
  struct Request {
    Clock::time_point at;
    AnswerSink sink;
  };

  void run() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
      if (due_.empty()) {
        changed_.wait(lock);
      } else if (Clock::now() < due_.front().at) {
        changed_.wait_until(lock, due_.front().at);
      } else {
        const Clock::time_point at = due_.front().at;
        AnswerSink sink = std::move(due_.front().sink);
        due_.pop();
        --in_flight_;
        const auto now = Clock::now();
        if (!first_answered_) first_answered_ = now;
        on_wire_ += std::chrono::duration<double>(now - at + latency_).count();
        ++answers_;
        lock.unlock();
        ModelAnswer answer;
        answer.text = text_;
        sink(std::move(answer));
        lock.lock();
      }
    }
  }

  microseconds latency_;
  std::string text_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<Request> due_;
  std::uint32_t in_flight_ = 0;
  bool ends_ = false;
  double on_wire_ = 0.0;
  std::uint64_t answers_ = 0;
  std::optional<Clock::time_point> first_asked_, first_answered_;
  std::thread thread_{[this] { run(); }};
};

std::string shape(std::uint64_t records, std::uint64_t window) {
  std::string yaml = fmt::format(
      "records: {}\nwindow: {}\nmodels:\n  g: {{endpoint: \"http://x\", model: g}}\n"
      "  j: {{endpoint: \"http://x\", model: j}}\ncolumns:\n"
      "  - {{name: topic, type: sampler, sampler: integer, params: {{low: 0, high: 9}}}}\n",
      records, window);
  for (const char name : {'a', 'b', 'c'}) {
    yaml += fmt::format(
        "  - {{name: gen_{0}, type: llm-text, model: g, cache: false, prompt: \"{{{{ topic "
        "}}}}\"}}\n"
        "  - {{name: judge_{0}, type: llm-text, model: j, cache: false, prompt: \"{{{{ gen_{0} "
        "}}}}\"}}\n",
        name);
  }
  return yaml;
}

void measure(std::uint64_t records, microseconds generate, microseconds judge,
             std::uint64_t window) {
  const auto spec = parse_pipeline(shape(records, window), "bench.yaml", {});
  if (!spec) {
    fmt::print(stderr, "{}\n", spec.error().message);
    std::exit(1);
  }
  const auto folder = std::filesystem::temp_directory_path() / "dovetail-run-bench";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  auto store = Store::open((folder / "run.db").string(), OpenMode::kCreate);
  std::vector<ColumnSpec> columns;
  const std::vector<Hash128> hashes = fingerprints(*spec, 0);
  for (std::size_t i = 0; i < spec->columns.size(); ++i) {
    columns.push_back({spec->columns[i].name, hashes[i], spec->columns[i].model() == nullptr});
  }
  if (!store || !(*store)->reconcile(columns)) std::exit(1);

  TimedModel generator(generate, "text"), judges(judge, "verdict");
  RunPorts ports;
  ports.models = {generator.client(), judges.client()};
  ports.draw = [&](ColumnId column, RecordId record, Json& row) -> Status {
    row[spec->columns[column].name] = record;
    return {};
  };
  ports.store = store->get();
  ports.emit = [](const FinishedRecord&) { return Status(); };
  const auto begin = Clock::now();
  const std::clock_t cpu = std::clock();
  const auto done = run_pipeline(*spec, ports);
  const double wall = std::chrono::duration<double>(Clock::now() - begin).count();
  const double busy = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  if (!done) std::exit(1);
  const double work = 3.0 * static_cast<double>(records) / kSlots;
  const double bound = work * 1e-6 * static_cast<double>(std::max(generate, judge).count()) +
                       1e-6 * static_cast<double>(std::min(generate, judge).count());
  // With the time that answers really took.
  const double met = work * std::max(generator.on_wire(), judges.on_wire()) +
                     std::min(generator.on_wire(), judges.on_wire());
  const auto after =
      std::chrono::duration_cast<microseconds>(*judges.first_asked() - *generator.first_answered());
  fmt::print("{:>8} {:>6.1f} {:>6.1f} {:>8} {:>8.3f} {:>8.3f} {:>7.3f} {:>7.3f} {:>9} {:>8.1f}\n",
             records, 1e-3 * static_cast<double>(generate.count()),
             1e-3 * static_cast<double>(judge.count()), window, wall, bound,
             bound > 0 ? wall / bound : 0.0, bound > 0 ? wall / met : 0.0, after.count(),
             1e6 * busy / (7.0 * static_cast<double>(records)));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace dovetail::pipeline

int main() {
  using dovetail::pipeline::measure;
  using std::chrono::microseconds;
  fmt::print("{:>8} {:>6} {:>6} {:>8} {:>8} {:>8} {:>7} {:>7} {:>9} {:>8}\n", "records", "gen",
             "judge", "window", "wall", "bound", "ratio", "met", "judge", "cpu");
  fmt::print("{:>8} {:>6} {:>6} {:>8} {:>8} {:>8} {:>7} {:>7} {:>9} {:>8}\n", "", "ms", "ms", "",
             "s", "s", "", "ratio", "us after", "us/cell");
  for (const std::uint64_t window : {200U, 10'000U}) {
    measure(2000, microseconds(50'000), microseconds(50'000), window);
    measure(10'000, microseconds(5'000), microseconds(5'000), window);
  }
  measure(2000, microseconds(50'000), microseconds(5'000), 10'000);
  measure(2000, microseconds(5'000), microseconds(50'000), 10'000);
  measure(50'000, microseconds(0), microseconds(0), 10'000);
}
