#include "pipeline/store/lease.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "pipeline/store/lease_book.h"
#include "pipeline/store/mutation.h"
#include "pipeline/store/postgres_handle.h"
#include "pipeline/store/postgres_run.h"
#include "pipeline/store/row_codec.h"

namespace dovetail::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kRangesMeta = "ranges";
constexpr std::size_t kMaxWorkerName = 200;
constexpr auto kPause = std::chrono::milliseconds{200};

// How the records were laid out: of a range, and all.
struct Layout {
  std::uint64_t size = 0;
  std::uint64_t records = 0;
};

Result<std::optional<Layout>> read_layout(PgConnection& connection, const PostgresPlace& place) {
  const auto contents = read_meta(connection, place, kRangesMeta);
  if (!contents) return fail(contents.error());
  if (!*contents) return std::nullopt;
  std::string_view in = **contents;
  Layout layout;
  if (!take_number(in, layout.size) || !take_number(in, layout.records) || !in.empty() ||
      layout.size == 0 || layout.size > kMaxRecord || layout.records > kMaxRecord) {
    return fail(damaged(place, kRangesMeta));
  }
  return layout;
}

Status write_layout(PgConnection& connection, const Layout& layout) {
  std::string contents;
  append_number(contents, layout.size);
  append_number(contents, layout.records);
  return write_meta(connection, kRangesMeta, contents);
}

}  // namespace

struct Leases::Impl {
  Sharing sharing;
  LeaseOptions options;
  Layout layout;

  std::mutex mutex;  // of the connection
  PgConnection connection;

  std::mutex end_mutex;
  std::condition_variable end_word;
  bool ending = false;
  std::thread thread;

  Status prepare();
  Status lay_out();
  void renew_until_end();
  // Renews all leases; says which are lost.
  Result<std::vector<Lease>> renew();
  Result<std::optional<Lease>> take(std::int64_t token, bool again);
  Status set_state(const Lease& lease, std::int64_t state);
  std::optional<Lease> held(const RecordRange& range) const;
  RecordRange range_of(const Lease& lease) const;
  template <class Attempt>
  auto insist(Attempt&& attempt) -> decltype(attempt());
  bool pause(std::chrono::milliseconds time);
};

// Again while the database cannot be reached.
template <class Attempt>
auto Leases::Impl::insist(Attempt&& attempt) -> decltype(attempt()) {
  const auto give_up = Clock::now() + sharing.retry_for;
  for (;;) {
    {
      const std::lock_guard lock(mutex);
      Status ready;
      if (!connection.good()) {
        auto made = PgConnection::open(sharing.place);
        if (made) {
          connection = *std::move(made);
        } else {
          ready = fail(std::move(made.error()));
        }
      }
      auto result = ready ? attempt() : decltype(attempt())(fail(std::move(ready.error())));
      if (result || result.error().kind != ErrorKind::kUnavailable || Clock::now() >= give_up) {
        return result;
      }
    }
    if (!pause(kPause)) return fail(ErrorKind::kUnavailable, "the leases are being given back");
  }
}

bool Leases::Impl::pause(std::chrono::milliseconds time) {
  std::unique_lock lock(end_mutex);
  return !end_word.wait_for(lock, time, [&] { return ending; });
}

RecordRange Leases::Impl::range_of(const Lease& lease) const {
  const auto first = static_cast<std::uint64_t>(lease.range) * layout.size;
  return {first, std::min(first + layout.size, options.records)};
}

std::optional<Lease> Leases::Impl::held(const RecordRange& range) const {
  for (const Lease& lease : sharing.book->all()) {
    if (range_of(lease) == range) return lease;
  }
  return std::nullopt;
}

Status Leases::Impl::prepare() {
  auto made = PgConnection::open(sharing.place);
  if (!made) return fail(std::move(made.error()));
  connection = *std::move(made);
  return insist([&] { return lay_out(); });
}

Status Leases::Impl::lay_out() {
  return connection.transaction("BEGIN", [&]() -> Status {
    if (auto ok = wait_for_plan_lock(connection, sharing.place); !ok) return ok;
    const auto before = read_layout(connection, sharing.place);
    if (!before) return fail(before.error());
    layout = before->value_or(Layout{options.range_records, 0});
    if (layout.records >= options.records && *before) return {};
    // A range that was cut short by the end of the records goes on.
    if (layout.records % layout.size != 0) {
      const auto reopened = connection.run(
          "UPDATE ranges SET state = 0, token = 0 WHERE number = $1 AND state = 2",
          PgParams().integer(static_cast<std::int64_t>(layout.records / layout.size)));
      if (!reopened) return fail(reopened.error());
    }
    layout.records = options.records;
    const auto last =
        static_cast<std::int64_t>((layout.records + layout.size - 1) / layout.size) - 1;
    const auto made = connection.run(
        "INSERT INTO ranges(number) SELECT generate_series(0, $1) ON CONFLICT DO NOTHING",
        PgParams().integer(last));
    if (!made) return fail(made.error());
    return write_layout(connection, layout);
  });
}

Result<std::optional<Lease>> Leases::Impl::take(std::int64_t token, bool again) {
  const auto size = static_cast<std::int64_t>(layout.size);
  const auto ranges = static_cast<std::int64_t>((options.records + layout.size - 1) / layout.size);
  if (again) {
    // It is not known whether the attempt before succeeded.
    const auto mine = connection.run("SELECT number FROM ranges WHERE state = 1 AND token = $1",
                                     PgParams().integer(token));
    if (!mine) return fail(mine.error());
    if (mine->count() > 0) return Lease{mine->integer(0, 0), token, size};
  }
  // While the server was away nobody could renew, so its start counts as a renewal.
  const std::string_view expired =
      mutated(StoreMutant::kLeaseForever)
          ? "false"
          : "greatest(expires, pg_postmaster_start_time() + lasts * interval '1 millisecond') < "
            "clock_timestamp()";
  const std::string_view lock =
      mutated(StoreMutant::kLeaseUnlocked) ? "" : "FOR UPDATE SKIP LOCKED";
  const std::string statement = fmt::format(
      "WITH next AS (SELECT number FROM ranges WHERE state < 2 AND number < $2 AND "
      "(state = 0 OR {}) ORDER BY number LIMIT 1 {}) "
      "UPDATE ranges SET state = 1, token = $3, worker = $4, lasts = $1, "
      "expires = clock_timestamp() + $1 * interval '1 millisecond' "
      "FROM next WHERE ranges.number = next.number RETURNING ranges.number",
      expired, lock);
  const auto rows = connection.run(statement.c_str(), PgParams()
                                                          .integer(options.duration.count())
                                                          .integer(ranges)
                                                          .integer(token)
                                                          .text(options.worker));
  if (!rows) return fail(rows.error());
  if (rows->count() == 0) return std::nullopt;
  return Lease{rows->integer(0, 0), token, size};
}

Result<std::vector<Lease>> Leases::Impl::renew() {
  const std::vector<Lease> leases = sharing.book->all();
  if (leases.empty()) return std::vector<Lease>{};
  std::vector<std::int64_t> numbers;
  std::vector<std::int64_t> tokens;
  for (const Lease& lease : leases) {
    numbers.push_back(lease.range);
    tokens.push_back(lease.token);
  }
  // In the order in which a commit locks them, so that neither waits for the other forever.
  const auto rows = connection.run(
      "WITH mine AS (SELECT number FROM ranges JOIN unnest($2, $3) AS held(number, token) "
      "USING (number, token) ORDER BY number FOR UPDATE OF ranges) "
      "UPDATE ranges SET expires = clock_timestamp() + $1 * interval '1 millisecond' "
      "FROM mine WHERE ranges.number = mine.number RETURNING ranges.number",
      PgParams().integer(options.duration.count()).integers(numbers).integers(tokens));
  if (!rows) return fail(rows.error());
  std::set<std::int64_t> renewed;
  for (int row = 0; row < rows->count(); ++row) renewed.insert(rows->integer(row, 0));
  std::vector<Lease> lost;
  for (const Lease& lease : leases) {
    if (!renewed.contains(lease.range)) lost.push_back(lease);
  }
  return lost;
}

void Leases::Impl::renew_until_end() {
  auto next = options.renew_every;
  while (pause(next)) {
    Result<std::vector<Lease>> lost = std::vector<Lease>{};
    {
      const std::lock_guard lock(mutex);
      if (!connection.good()) {
        if (auto made = PgConnection::open(sharing.place)) connection = *std::move(made);
      }
      if (connection.good()) lost = renew();
    }
    // Soon again where it failed: the leases run out meanwhile.
    next = lost ? options.renew_every : std::min(options.renew_every, kPause);
    if (!lost) continue;
    for (const Lease& lease : *lost) {
      // What has been given back meanwhile is not lost.
      if (sharing.book->remove(lease) && options.on_lost) options.on_lost(range_of(lease));
    }
  }
}

Status Leases::Impl::set_state(const Lease& lease, std::int64_t state) {
  // A complete range keeps its token, so that saying it twice is no error.
  const auto rows = connection.run(
      "UPDATE ranges SET state = $1, token = CASE WHEN $1 = 2 THEN token ELSE 0 END "
      "WHERE number = $2 AND token = $3",
      PgParams().integer(state).integer(lease.range).integer(lease.token));
  if (!rows) return fail(rows.error());
  return rows->changed() == 1 ? Status{} : fail(lease_lost(lease));
}

Leases::Leases(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Leases>> Leases::open(Store& store, LeaseOptions options) {
  const Sharing* sharing = store.sharing();
  if (sharing == nullptr) {
    return fail(ErrorKind::kUnsupported,
                "leases: the run is made by one process; several can share one in a PostgreSQL "
                "database");
  }
  if (options.range_records == 0 || options.range_records > kMaxRecord ||
      options.records > kMaxRecord) {
    return fail(ErrorKind::kInvalid,
                "leases: {} records in ranges of {}; both at most {}, and a "
                "range of at least 1",
                options.records, options.range_records, kMaxRecord);
  }
  const auto shown = [](char c) { return c >= ' ' && c <= '~'; };
  if (options.worker.size() > kMaxWorkerName ||
      !std::all_of(options.worker.begin(), options.worker.end(), shown)) {
    return fail(ErrorKind::kInvalid, "leases: a worker's name is up to {} ASCII characters",
                kMaxWorkerName);
  }
  if (options.duration < std::chrono::milliseconds{1}) {
    return fail(ErrorKind::kInvalid, "leases: a duration of {} ms; at least 1",
                options.duration.count());
  }
  if (options.renew_every.count() <= 0) options.renew_every = options.duration / 3;
  options.renew_every = std::max(options.renew_every, std::chrono::milliseconds{1});
  if (options.worker.empty()) options.worker = process_name();
  auto impl = std::make_unique<Impl>();
  impl->sharing = *sharing;
  impl->options = std::move(options);
  if (auto ok = impl->prepare(); !ok) return fail(std::move(ok.error()));
  impl->thread = std::thread([raw = impl.get()] { raw->renew_until_end(); });
  return std::unique_ptr<Leases>(new Leases(std::move(impl)));
}

Leases::~Leases() {
  {
    const std::lock_guard lock(impl_->end_mutex);
    impl_->ending = true;
  }
  impl_->end_word.notify_all();
  impl_->thread.join();
  // Where this fails they run out by themselves.
  for (const Lease& lease : impl_->sharing.book->all()) {
    impl_->sharing.book->remove(lease);
    if (impl_->connection.good()) (void)impl_->set_state(lease, 0);
  }
}

Result<std::optional<RecordRange>> Leases::take() {
  std::random_device device;
  const auto token = static_cast<std::int64_t>((std::uint64_t{device()} << 32 | device()) | 1);
  bool again = false;
  const auto lease = impl_->insist([&] { return impl_->take(token, std::exchange(again, true)); });
  if (!lease) return fail(lease.error());
  if (!*lease) return std::nullopt;
  impl_->sharing.book->add(**lease);
  return impl_->range_of(**lease);
}

Status Leases::complete(const RecordRange& range) {
  const auto lease = impl_->held(range);
  if (!lease) {
    return fail(ErrorKind::kTimeout, "records {} to {}: this worker holds no lease on them",
                range.first, range.end);
  }
  auto ok = impl_->insist([&] { return impl_->set_state(*lease, 2); });
  if (ok || ok.error().kind == ErrorKind::kTimeout) impl_->sharing.book->remove(*lease);
  return ok;
}

Status Leases::give_back(const RecordRange& range) {
  const auto lease = impl_->held(range);
  if (!lease) return {};
  impl_->sharing.book->remove(*lease);
  auto ok = impl_->insist([&] { return impl_->set_state(*lease, 0); });
  // Either way it is another's to take.
  return ok || ok.error().kind == ErrorKind::kTimeout ? Status{} : ok;
}

Result<Leases::Progress> Leases::progress() {
  const auto ranges = static_cast<std::int64_t>((impl_->options.records + impl_->layout.size - 1) /
                                                impl_->layout.size);
  return impl_->insist([&]() -> Result<Progress> {
    const auto rows = impl_->connection.run(
        "SELECT count(*), count(*) FILTER (WHERE state = 2), count(*) FILTER (WHERE state = 1) "
        "FROM ranges WHERE number < $1",
        PgParams().integer(ranges));
    if (!rows) return fail(rows.error());
    const auto number = [&](int column) {
      return static_cast<std::uint64_t>(rows->integer(0, column));
    };
    return Progress{number(0), number(1), number(2)};
  });
}

}  // namespace dovetail::pipeline
