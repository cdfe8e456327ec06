#include "pipeline/store/hunt/share.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "pipeline/store/hunt/run_shape.h"
#include "pipeline/store/lease.h"
#include "pipeline/store/place.h"
#include "pipeline/store/postgres_handle.h"
#include "pipeline/store/store.h"

namespace dovetail::pipeline {
namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t kColumns = 4;

struct Member {
  std::unique_ptr<Store> store;
  std::unique_ptr<Leases> leases;
};

Member join(const std::string& where, const std::string& run, LeaseOptions options) {
  StoreOptions store_options;
  store_options.run_name = run;
  auto store = Store::open(where, OpenMode::kShare, store_options);
  if (!store) die(store.error().message);
  // Whoever is first changes the columns, for a moment alone.
  for (int attempt = 0;; ++attempt) {
    auto found = (*store)->reconcile(run_columns(1));
    if (found) break;
    if (attempt > 100) die(found.error().message);
    std::this_thread::sleep_for(milliseconds{20});
  }
  auto leases = Leases::open(**store, std::move(options));
  if (!leases) die(leases.error().message);
  return {*std::move(store), *std::move(leases)};
}

// To see and change the run's tables.
PgConnection open_session(const std::string& where, const std::string& run,
                          milliseconds silence = milliseconds{20'000}) {
  auto place = parse_place(where, run);
  if (!place) die(place.error().message);
  auto& server = std::get<PostgresPlace>(*place);
  server.silence = silence;
  auto session = PgConnection::open(server);
  if (!session) die(session.error().message);
  return *std::move(session);
}

Status put_and_wait(Store& store, const CellResult& cell) {
  Status answer;
  store.put(cell, [&](Status status) { answer = std::move(status); });
  if (auto ok = store.flush(); !ok) return ok;
  return answer;
}

RecordRange take(Leases& leases) {
  auto range = leases.take();
  if (!range) die(range.error().message);
  if (!*range) die("no range is free");
  return **range;
}

int complain(const std::string& what) {
  std::printf("%s\n", what.c_str());
  std::fflush(stdout);
  return 1;
}

// False: the lease is lost.
bool make_range(Store& store, const RecordRange& range) {
  std::atomic<bool> lost{false};
  for (std::uint64_t record = range.first; record < range.end && !lost; ++record) {
    const auto there = store.read_record(record);
    if (!there) die(there.error().message);
    std::array<bool, kColumns> made{};
    for (const CellResult& cell : *there) made[cell.column] = true;
    for (std::uint32_t column = 0; column < kColumns; ++column) {
      if (made[column]) continue;
      store.put(run_cell(record, column), [&lost, record, column](const Status& status) {
        if (status) {
          tell(record * 8 + column);
        } else if (status.error().kind == ErrorKind::kTimeout) {
          lost = true;
        } else {
          die(status.error().message);
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::microseconds{500});
  }
  if (auto ok = store.flush(); !ok) die(ok.error().message);
  return !lost;
}

}  // namespace

void die(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::_Exit(2);
}

void tell(std::uint64_t cell) {
  if (::write(STDOUT_FILENO, &cell, sizeof cell) != ssize_t{sizeof cell}) std::_Exit(3);
}

int work(const std::string& where, std::uint64_t records, const std::string& run) {
  LeaseOptions options;
  options.records = records;
  options.range_records = 16;
  options.duration = milliseconds{600};
  const Member self = join(where, run, options);
  for (;;) {
    const auto range = self.leases->take();
    if (!range) die(range.error().message);
    if (*range) {
      if (!make_range(*self.store, **range)) continue;
      const auto ok = self.leases->complete(**range);
      if (!ok && ok.error().kind != ErrorKind::kTimeout) die(ok.error().message);
      continue;
    }
    const auto progress = self.leases->progress();
    if (!progress) die(progress.error().message);
    if (progress->complete == progress->ranges) return 0;
    std::this_thread::sleep_for(milliseconds{20});
  }
}

int use_stale_lease(const std::string& where, const std::string& run) {
  LeaseOptions asleep;
  asleep.records = 100;
  asleep.range_records = 10;
  asleep.duration = milliseconds{300};
  asleep.renew_every = std::chrono::hours{1};
  LeaseOptions awake = asleep;
  awake.duration = std::chrono::hours{1};
  const Member slow = join(where, run, asleep);
  const RecordRange mine = take(*slow.leases);
  if (mine != RecordRange{0, 10}) return complain("the first range is not the lowest");
  if (!put_and_wait(*slow.store, run_cell(3, 0))) return complain("a held record is refused");
  if (put_and_wait(*slow.store, run_cell(10, 0))) return complain("a record of nobody is taken");
  std::this_thread::sleep_for(milliseconds{500});
  const Member quick = join(where, run, awake);
  if (take(*quick.leases) != mine) return complain("a lease that ran out is not free");
  CellResult other = run_cell(4, 0);
  other.json = "theirs";
  if (!put_and_wait(*quick.store, other)) return complain("a taken over record is refused");
  // One put of a lost range, one of a held one, in one batch.
  const RecordRange second = take(*slow.leases);
  Status lost;
  Status held;
  slow.store->put(run_cell(4, 0), [&](Status status) { lost = std::move(status); });
  slow.store->put(run_cell(second.first, 2), [&](Status status) { held = std::move(status); });
  if (auto ok = slow.store->flush(); !ok) die(ok.error().message);
  if (lost) return complain("a cell under a lost lease is taken");
  if (lost.error().kind != ErrorKind::kTimeout) return complain(lost.error().message);
  if (!held) return complain("a cell beside it is refused: " + held.error().message);
  if (slow.leases->complete(mine)) return complain("a lost range can be completed");
  const auto kept = quick.store->read_record(4);
  if (!kept || kept->size() != 1 || kept->at(0).json != "theirs") {
    return complain("a cell of the new holder was replaced");
  }
  if (auto ok = quick.leases->complete(mine); !ok) return complain(ok.error().message);
  return 0;
}

namespace {

// All take at once, `times` each; how often each range was taken.
std::map<std::uint64_t, int> take_at_once(const std::vector<Member>& members, int times,
                                          std::atomic<int>& ended) {
  std::mutex mutex;
  std::map<std::uint64_t, int> taken;
  std::vector<std::thread> threads;
  for (const Member& member : members) {
    threads.emplace_back([&] {
      for (int i = 0; i < times; ++i) {
        auto range = member.leases->take();
        if (!range) die(range.error().message);
        if (!*range) break;
        const std::lock_guard lock(mutex);
        ++taken[(*range)->first];
      }
      ++ended;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return taken;
}

}  // namespace

int contend(const std::string& where, const std::string& run) {
  constexpr std::uint64_t kRanges = 200;
  LeaseOptions options;
  options.records = kRanges * 4 - 1;
  options.range_records = 4;
  std::vector<Member> members;
  for (int i = 0; i < 4; ++i) members.push_back(join(where, run, options));
  auto session = open_session(where, run);
  // While someone is about to take the first range, others are not held up, and take others.
  if (auto ok = session.execute("BEGIN; SELECT * FROM ranges WHERE number = 0 FOR UPDATE"); !ok) {
    die(ok.error().message);
  }
  std::atomic<int> ended{0};
  std::thread holder([&] {
    for (int i = 0; i < 300 && ended < 4; ++i) std::this_thread::sleep_for(milliseconds{10});
    if (auto ok = session.execute("ROLLBACK"); !ok) die(ok.error().message);
  });
  auto taken = take_at_once(members, 1, ended);
  holder.join();
  for (const auto& [first, times] : take_at_once(members, kRanges, ended)) taken[first] += times;
  for (const auto& [first, times] : taken) {
    if (times != 1) return complain("a range is held by two");
  }
  if (taken.size() != kRanges) return complain("free ranges were not found");
  return 0;
}

int let_expire(const std::string& where, const std::string& run) {
  LeaseOptions options;
  options.records = 20;
  options.range_records = 10;
  options.duration = std::chrono::hours{1};
  options.renew_every = milliseconds{20};
  const Member lively = join(where, run, options);
  const RecordRange kept = take(*lively.leases);
  options.renew_every = std::chrono::hours{1};
  const Member dead = join(where, run, options);
  const RecordRange left = take(*dead.leases);
  const Member heir = join(where, run, options);
  if (auto early = heir.leases->take(); !early || *early) return complain("taken before its time");
  // The hour passes for both; one of them renews its lease.
  auto session = open_session(where, run);
  if (!session.execute("UPDATE ranges SET expires = '-infinity', lasts = 0")) return 2;
  for (bool renewed = false; !renewed;) {
    const auto rows =
        session.run("SELECT expires > clock_timestamp() FROM ranges WHERE number = 0");
    if (!rows) die(rows.error().message);
    renewed = rows->integer(0, 0) != 0;
    std::this_thread::sleep_for(milliseconds{10});
  }
  const auto first = heir.leases->take();
  if (!first || !*first || **first != left) return complain("a lease does not run out");
  if (auto second = heir.leases->take(); !second || *second) {
    return complain("a lease that is renewed runs out");
  }
  if (auto ok = lively.leases->complete(kept); !ok) return complain(ok.error().message);
  if (auto ok = lively.leases->complete(kept); ok) return complain("completed twice");
  if (auto ok = heir.leases->give_back(**first); !ok) return complain(ok.error().message);
  if (take(*lively.leases) != left) return complain("what was given back is not free");
  const auto progress = lively.leases->progress();
  if (!progress || progress->ranges != 2 || progress->complete != 1 || progress->held != 1) {
    return complain("the progress is wrong");
  }
  return 0;
}

int fall_silent(const std::string& where, const std::string& run) {
  LeaseOptions options;
  options.records = 10;
  options.range_records = 10;
  options.duration = milliseconds{1};
  options.renew_every = std::chrono::hours{1};
  const Member stopped = join(where, run, options);
  const RecordRange left = take(*stopped.leases);
  auto commit = open_session(where, run, milliseconds{200});
  if (!commit.execute("BEGIN; SELECT * FROM ranges FOR SHARE")) return 2;
  const Member heir = join(where, run, options);
  constexpr int kAttempts = 600;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto range = heir.leases->take();
    if (!range) die(range.error().message);
    if (*range) return **range == left ? 0 : complain("it got something else");
    std::this_thread::sleep_for(milliseconds{50});
  }
  return complain("a silent worker keeps its range");
}

}  // namespace dovetail::pipeline
