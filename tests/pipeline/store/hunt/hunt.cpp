// A program that writes a run and tells, cell by cell, what counts as finished. Tests kill it. The
// first argument is the number of a fault of the store (0: none); then:
//
//   hunt write WHERE START RUN       cells of records from START on, without an end
//   hunt some WHERE RECORDS RUN      a number of records, not too fast
//   hunt full FILE START RUN         1,000 records with a limit on file sizes that is lifted once
//   the
//                                    store has complained
//   hunt reconcile WHERE PRINT RUN   resumes with fingerprint PRINT for column c
//   hunt power FOLDER SEED RUN       cuts power at 20 moments; 1 and a line where a cell is lost
//   hunt work WHERE RECORDS RUN      one of several workers (share.h); also stale, contend, expire,
//                                    silent
//
// write, some, full and work put eight bytes on the standard output per finished cell:
// record * 8 + column. RUN names the run where WHERE is a connection string.

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/store/hunt/power_vfs.h"
#include "pipeline/store/hunt/run_shape.h"
#include "pipeline/store/hunt/share.h"
#include "pipeline/store/mutation.h"
#include "pipeline/store/store.h"
#include "support/mutant_argument.h"

namespace dovetail::pipeline {
namespace {

std::unique_ptr<Store> open_run(const std::string& where, const std::string& run,
                                std::uint64_t print, StoreOptions options = {}) {
  options.run_name = run;
  auto store = Store::open(where, OpenMode::kResume, options);
  if (!store && store.error().kind == ErrorKind::kNotFound) {
    store = Store::open(where, OpenMode::kCreate, options);
  }
  if (!store) die(store.error().message);
  if (auto found = (*store)->reconcile(run_columns(print)); !found) die(found.error().message);
  return *std::move(store);
}

// Small cells together, the others one by one, as a dispatcher hands them over.
template <class Told>
void put_record(Store& store, std::uint64_t record, Told told) {
  const auto put = [&](std::vector<CellResult> cells) {
    store.put(cells, [record, told, first = cells.front().column,
                      count = cells.size()](const Status& status) {
      if (!status) die(status.error().message);
      for (std::uint32_t i = 0; i < count; ++i) told(record * 8 + first + i);
    });
  };
  put({run_cell(record, 0), run_cell(record, 1)});
  put({run_cell(record, 2)});
  put({run_cell(record, 3)});
}

int write_cells(const std::string& where, std::uint64_t start, const std::string& run) {
  auto store = open_run(where, run, 1);
  for (std::uint64_t record = start;; ++record) put_record(*store, record, tell);
}

int write_some(const std::string& where, std::uint64_t records, const std::string& run) {
  auto store = open_run(where, run, 1);
  for (std::uint64_t record = 0; record < records; ++record) {
    put_record(*store, record, tell);
    std::this_thread::sleep_for(std::chrono::microseconds{500});
  }
  if (auto ok = store->flush(); !ok) die(ok.error().message);
  return 0;
}

int fill_disk(const std::string& file, std::uint64_t start) {
  std::signal(SIGXFSZ, SIG_IGN);
  StoreOptions options;
  options.on_waiting = [](const Error& error) {
    if (error.kind != ErrorKind::kExhausted) die(error.message);
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  };
  auto store = open_run(file, "", 1, options);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = 200'000;
  ::setrlimit(RLIMIT_FSIZE, &limit);
  for (std::uint64_t record = start; record < start + 1000; ++record) {
    put_record(*store, record, tell);
  }
  if (auto ok = store->flush(); !ok) die(ok.error().message);
  ::getrlimit(RLIMIT_FSIZE, &limit);
  if (limit.rlim_cur == 200'000) die("the disk was never full");
  return 0;
}

int cut_often(const std::filesystem::path& folder, std::uint64_t seed) {
  watch_power();
  std::mt19937_64 random(seed);
  // Outlives the store, which tells of the last cells as it ends.
  std::atomic<std::uint64_t> finished{0};
  auto store = open_run(folder / "run.db", "", 1);
  std::atomic<bool> stop{false};
  std::atomic<bool> looking{false};  // at what is left: on a slow machine the run would only grow
  std::thread writing([&] {
    for (std::uint64_t record = 0; !stop; ++record) {
      while (looking && !stop) std::this_thread::sleep_for(std::chrono::milliseconds{1});
      put_record(*store, record, [&finished](std::uint64_t cell) {
        // In the order of the puts, so that one number says it all.
        finished = cell + 1;
      });
      std::this_thread::sleep_for(std::chrono::microseconds{400});
    }
  });
  int lost = 0;
  for (int cut = 0; cut < 20 && lost == 0; ++cut) {
    std::this_thread::sleep_for(std::chrono::microseconds{random() % 30'000});
    const std::uint64_t promised = finished;
    const auto left = folder / ("cut" + std::to_string(cut));
    std::filesystem::create_directory(left);
    cut_power(left, random);
    looking = true;
    std::uint64_t found = 0;
    auto after = Store::open(left / "run.db", OpenMode::kResume);
    if (after) {
      auto read = (*after)->for_each_cell([&](const CellView& cell) {
        if (!is_run_cell(cell)) ++lost;
        found += cell.record * 8 + cell.column < promised ? 1 : 0;
        return true;
      });
      if (!read) after = fail(read.error());
    }
    const std::uint64_t wanted = promised / 8 * 4 + promised % 8;
    if (!after || found != wanted || lost > 0) {
      std::printf("cut %d: %s, %llu of %llu cells\n", cut,
                  after ? "opened" : after.error().message.c_str(),
                  static_cast<unsigned long long>(found), static_cast<unsigned long long>(wanted));
      lost = 1;
    }
    looking = false;
  }
  stop = true;
  writing.join();
  std::fflush(stdout);
  return lost;
}

}  // namespace
}  // namespace dovetail::pipeline

int main(int count, char** words) {
  using namespace dovetail::pipeline;
  dovetail::activate_mutant_argument<StoreMutant>(count, words);
  if (count != 6) return 2;
  const std::string mode = words[2];
  const std::uint64_t number = std::strtoull(words[4], nullptr, 10);
  const std::string run = words[5];
  if (mode == "write") return write_cells(words[3], number, run);
  if (mode == "some") return write_some(words[3], number, run);
  if (mode == "full") return fill_disk(words[3], number);
  if (mode == "reconcile") return open_run(words[3], run, number) != nullptr ? 0 : 2;
  if (mode == "power") return cut_often(words[3], number);
  if (mode == "work") return work(words[3], number, run);
  if (mode == "stale") return use_stale_lease(words[3], run);
  if (mode == "contend") return contend(words[3], run);
  if (mode == "expire") return let_expire(words[3], run);
  if (mode == "silent") return fall_silent(words[3], run);
  return 2;
}
