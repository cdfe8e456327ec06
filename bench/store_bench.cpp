// What a durable cell costs: a million records of five small cells each, put record by record, by
// rows per cell and by rows per record; cells of text that come one at a time; reading all. The
// target: five million small cells in well under 40 s of one core.
//
// DOVETAIL_BENCH_DATABASE, a connection string, puts the runs into PostgreSQL instead of files;
// they stay there, in schemas that begin with dovetail_bench-.

#include <benchmark/benchmark.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "pipeline/store/store.h"

namespace dovetail::pipeline {
namespace {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "dovetail-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::filesystem::path run() const { return path_ / "run.db"; }
  double megabytes() const {
    std::error_code error;
    const auto size = std::filesystem::file_size(run(), error);
    return error ? 0 : static_cast<double>(size) * 1e-6;
  }

 private:
  std::filesystem::path path_;
};

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::vector<ColumnSpec> make_columns(std::uint32_t count, bool small) {
  std::vector<ColumnSpec> columns;
  for (std::uint32_t i = 0; i < count; ++i)
    columns.push_back({fmt::format("c{}", i), {i, i}, small});
  return columns;
}

std::unique_ptr<Store> make_store(const Folder& folder, std::uint32_t columns, bool small) {
  static int number = 0;
  const char* database = std::getenv("DOVETAIL_BENCH_DATABASE");
  StoreOptions options;
  options.run_name = fmt::format("bench-{}-{}", ::getpid(), ++number);
  auto store = Store::open(database == nullptr ? folder.run().string() : database,
                           OpenMode::kCreate, options);
  if (!store) fmt::print(stderr, "{}\n", store.error().message);
  if (!store || !(*store)->reconcile(make_columns(columns, small))) std::abort();
  return *std::move(store);
}

void fill(Store& store, std::uint64_t records, std::atomic<std::uint64_t>& finished) {
  std::vector<CellResult> cells(5);
  for (std::uint64_t record = 0; record < records; ++record) {
    for (std::uint32_t i = 0; i < 5; ++i) {
      cells[i].record = record;
      cells[i].column = i;
      cells[i].json = std::to_string((record * 7919 + i) % 100'000);
    }
    store.put(cells, [&finished](Status ok) {
      if (!ok) std::abort();
      finished.fetch_add(1, std::memory_order_relaxed);
    });
  }
  if (!store.flush() || finished != records) std::abort();
}

// Arguments: records, whether small cells share a row.
void small_cells(benchmark::State& state) {
  const auto records = static_cast<std::uint64_t>(state.range(0));
  for (auto _ : state) {
    const Folder folder;
    auto store = make_store(folder, 5, state.range(1) != 0);
    std::atomic<std::uint64_t> finished{0};
    const double before = cpu_seconds();
    fill(*store, records, finished);
    state.counters["cpu_s"] = cpu_seconds() - before;
    store.reset();
    state.counters["MB"] = folder.megabytes();
  }
}
BENCHMARK(small_cells)
    ->Args({1'000'000, 1})
    ->Args({1'000'000, 0})
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// Cells of 1,500 bytes, one put each: as fast as they can be handed over.
void text_cells(benchmark::State& state) {
  constexpr std::uint64_t kCells = 200'000;
  CellResult cell;
  cell.json.assign(1500, 'x');
  cell.provenance = {1, 1, 900, 400, 2'500'000, 1'000};
  for (auto _ : state) {
    const Folder folder;
    auto store = make_store(folder, 1, false);
    (void)store->origin({"model", {}});
    const double before = cpu_seconds();
    for (std::uint64_t i = 0; i < kCells; ++i) {
      cell.record = i;
      store->put(cell, {});
    }
    if (!store->flush()) std::abort();
    state.counters["cpu_s"] = cpu_seconds() - before;
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kCells));
}
BENCHMARK(text_cells)->Iterations(1)->UseRealTime()->Unit(benchmark::kMillisecond);

// How long one waits for a single cell when nothing else is under way.
void one_cell(benchmark::State& state) {
  const Folder folder;
  auto store = make_store(folder, 1, false);
  CellResult cell;
  cell.json = "1";
  for (auto _ : state) {
    store->put(cell, {});
    if (!store->flush()) std::abort();
    ++cell.record;
  }
}
BENCHMARK(one_cell)->UseRealTime()->Unit(benchmark::kMicrosecond);

// 5,000 cells a second, as fast endpoints finish them: the share of a core that is spent.
void steady(benchmark::State& state) {
  const Folder folder;
  auto store = make_store(folder, 1, false);
  CellResult cell;
  cell.json.assign(1500, 'x');
  for (auto _ : state) {
    const double before = cpu_seconds();
    auto next = std::chrono::steady_clock::now();
    for (int i = 0; i < 10'000; ++i) {
      store->put(cell, {});
      ++cell.record;
      next += std::chrono::microseconds{200};
      std::this_thread::sleep_until(next);
    }
    state.counters["cpu_us_per_cell"] = (cpu_seconds() - before) * 100;
  }
}
BENCHMARK(steady)->Iterations(1)->UseRealTime()->Unit(benchmark::kMillisecond);

void read_all(benchmark::State& state) {
  const Folder folder;
  auto store = make_store(folder, 5, true);
  std::atomic<std::uint64_t> finished{0};
  fill(*store, 1'000'000, finished);
  for (auto _ : state) {
    std::uint64_t cells = 0;
    if (!store->for_each_cell([&](const CellView&) { return ++cells > 0; })) std::abort();
    if (cells != 5'000'000) std::abort();
  }
}
BENCHMARK(read_all)->Iterations(1)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace dovetail::pipeline

BENCHMARK_MAIN();
