#include "pipeline/store/store.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>

#include "pipeline/store/batch.h"
#include "pipeline/store/lease_book.h"
#include "pipeline/store/mutation.h"
#include "pipeline/store/place.h"
#include "pipeline/store/postgres_reader.h"
#include "pipeline/store/postgres_writer.h"
#include "pipeline/store/reconciliation.h"
#include "pipeline/store/sqlite_reader.h"
#include "pipeline/store/sqlite_writer.h"

namespace dovetail::pipeline {

using Clock = std::chrono::steady_clock;

namespace {

using Writer = std::variant<SqliteWriter, PostgresWriter>;
using Reader = std::variant<SqliteReader, PostgresReader>;

// What may pass by itself.
bool is_passing(const Error& error) {
  return error.kind == ErrorKind::kExhausted || error.kind == ErrorKind::kIo ||
         error.kind == ErrorKind::kUnavailable;
}

template <class Database>
bool is_cut_off(const Database& database) {
  if constexpr (requires { database.connected(); }) {
    return !database.connected();
  } else {
    return false;
  }
}

Result<Writer> open_writer(const Place& place, OpenMode mode, std::uint64_t cache_bytes) {
  if (const auto* file = std::get_if<std::filesystem::path>(&place)) {
    auto writer = SqliteWriter::open(*file, mode == OpenMode::kResume, cache_bytes);
    if (!writer) return fail(std::move(writer.error()));
    return Writer(*std::move(writer));
  }
  auto writer = PostgresWriter::open(std::get<PostgresPlace>(place), mode, cache_bytes);
  if (!writer) return fail(std::move(writer.error()));
  return Writer(*std::move(writer));
}

Result<Reader> open_reader(const Place& place) {
  if (const auto* file = std::get_if<std::filesystem::path>(&place)) {
    auto reader = SqliteReader::open(*file);
    if (!reader) return fail(std::move(reader.error()));
    return Reader(*std::move(reader));
  }
  auto reader = PostgresReader::open(std::get<PostgresPlace>(place));
  if (!reader) return fail(std::move(reader.error()));
  return Reader(*std::move(reader));
}

// Calls `attempt` until it succeeds, fails for good by the word of `again`, or the time is up.
template <class Attempt, class Again>
auto insist(std::chrono::milliseconds time, Attempt attempt, Again again) -> decltype(attempt()) {
  const auto give_up = Clock::now() + time;
  auto pause = std::chrono::milliseconds{20};
  for (;;) {
    auto result = attempt();
    if (result || !again(result.error())) return result;
    const auto left = give_up - Clock::now();
    if (left <= Clock::duration::zero()) return result;
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, left));
    pause = std::min(2 * pause, std::chrono::milliseconds{1000});
  }
}

}  // namespace

// The queue and the writer thread; what is behind them knows databases, they do not.
struct Store::Impl {
  Place place;
  StoreOptions options;
  std::optional<Sharing> sharing;

  // The database. `writing` is held for a whole transaction, `reading` for one question.
  std::mutex writing;
  std::optional<Writer> writer;
  std::mutex reading;
  std::optional<Reader> reader;

  // The queue.
  std::mutex mutex;
  std::condition_variable work;  // for the writer thread: cells, or the end
  std::condition_variable room;  // for those who put
  Batch queue;
  std::vector<StoredColumn> columns;
  std::vector<std::pair<Origin, std::uint32_t>> origins;
  std::optional<Error> doom;           // of everything put from now on
  std::vector<Batch::Response> later;  // responses that wait for others
  std::size_t later_bytes = 0;
  Clock::time_point later_due;  // of the first of them
  bool sleeping = false;
  bool hurry = false;       // somebody waits for the next commit
  bool with_later = false;  // and for the responses, too
  bool ending = false;
  std::thread::id writer_id;  // its own thread never waits for room

  std::atomic<std::uint64_t> known_spent{0};

  // Of the writer thread. Once it has given up a batch, order would be lost by taking another.
  Batch batch;
  std::optional<Error> failure;
  std::thread thread;

  void run();
  Status commit();
  Status retry(Status status);
  void answer(const Status& status);
  Status add(std::span<const CellResult> cells);
  void wake_writer(std::unique_lock<std::mutex>& lock);
  void wait_for_room(std::unique_lock<std::mutex>& lock);
  bool has_room() const { return queue.size() + later_bytes < options.queue_bytes; }
  void wait_for_work(std::unique_lock<std::mutex>& lock, Clock::time_point next_commit);
  void take_queue();
  Status try_commit();
  // Asks the reader; waits for a server that cannot be reached.
  template <class Question>
  auto ask(Question question);
  // Has the writer do something; waits for a server that cannot be reached, or for all that passes.
  template <class Act>
  auto write(Act act, bool whatever_passes);
};

template <class Question>
auto Store::Impl::ask(Question question) {
  bool cut_off = false;
  return insist(
      options.retry_for,
      [&] {
        const std::lock_guard held(reading);
        auto answer = std::visit(question, *reader);
        cut_off = std::visit([](const auto& r) { return is_cut_off(r); }, *reader);
        return answer;
      },
      [&](const Error& error) { return cut_off && error.kind == ErrorKind::kUnavailable; });
}

template <class Act>
auto Store::Impl::write(Act act, bool whatever_passes) {
  using Done = decltype(act(std::get<SqliteWriter>(*writer)));
  bool cut_off = false;
  return insist(
      options.retry_for,
      [&]() -> Done {
        const std::lock_guard held(writing);
        if (!writer) return fail(*failure);
        auto done = std::visit(act, *writer);
        cut_off = std::visit([](const auto& w) { return is_cut_off(w); }, *writer);
        return done;
      },
      [&](const Error& error) { return (whatever_passes || cut_off) && is_passing(error); });
}

Status Store::Impl::try_commit() {
  const std::lock_guard held(writing);
  return std::visit([&](auto& database) { return database.commit(batch); }, *writer);
}

// Returns when a commit may begin, or with nothing at the end.
void Store::Impl::wait_for_work(std::unique_lock<std::mutex>& lock, Clock::time_point next_commit) {
  sleeping = true;
  work.wait(lock, [&] { return ending || !queue.empty() || !later.empty(); });
  sleeping = true;
  work.wait_until(lock, later_due, [&] { return ending || with_later || !queue.empty(); });
  sleeping = false;
  work.wait_until(lock, next_commit, [&] { return ending || hurry; });
}

void Store::Impl::take_queue() {
  std::swap(queue, batch);
  if (ending || with_later || Clock::now() >= later_due) {
    std::move(later.begin(), later.end(), std::back_inserter(batch.responses));
    batch.response_bytes += std::exchange(later_bytes, 0);
    later.clear();
  }
  hurry = false;
  with_later = false;
}

void Store::Impl::run() {
  Clock::time_point next_commit;
  for (;;) {
    {
      std::unique_lock lock(mutex);
      wait_for_work(lock, next_commit);
      if (queue.empty() && later.empty()) return;
      take_queue();
      if (doom && !failure) failure = doom;
    }
    next_commit = Clock::now() + options.commit_every;
    room.notify_all();
    if (mutated(StoreMutant::kDoneBeforeCommit)) answer({});
    const Status status = commit();
    answer(status);
    batch.clear();
    if (status) {
      const std::lock_guard held(writing);
      std::visit([](auto& database) { database.tidy(); }, *writer);
    }
  }
}

Status Store::Impl::commit() {
  if (failure) return fail(*failure);
  Status status = try_commit();
  if (!status) status = retry(std::move(status));
  if (!status) failure = status.error();
  if (status && batch.spent > 0) {
    const std::lock_guard held(writing);
    known_spent = std::visit([](const auto& database) { return database.spent(); }, *writer);
  }
  return status;
}

Status Store::Impl::retry(Status status) {
  const auto give_up = Clock::now() + options.retry_for;
  auto pause = std::chrono::milliseconds{20};
  bool told = false;
  while (!status) {
    if (!is_passing(status.error())) return status;
    if (!std::exchange(told, true) && options.on_waiting) options.on_waiting(status.error());
    if (mutated(StoreMutant::kForgetFailed)) return {};
    const auto left = give_up - Clock::now();
    if (left <= Clock::duration::zero()) return status;
    bool last = false;
    {
      std::unique_lock lock(mutex);
      last = work.wait_for(lock, std::min<Clock::duration>(pause, left), [&] { return ending; });
    }
    pause = std::min(2 * pause, std::chrono::milliseconds{1000});
    status = try_commit();
    if (last) return status;
  }
  return status;
}

void Store::Impl::answer(const Status& status) {
  for (Batch::Waiting& waiting : batch.waiting) {
    auto done = std::exchange(waiting.done, nullptr);
    if (done) done(waiting.refusal ? Status(fail(*waiting.refusal)) : status);
  }
}

void Store::Impl::wait_for_room(std::unique_lock<std::mutex>& lock) {
  if (std::this_thread::get_id() == writer_id || has_room()) return;
  hurry = true;
  with_later = true;
  work.notify_one();
  room.wait(lock, [&] { return has_room(); });
}

void Store::Impl::wake_writer(std::unique_lock<std::mutex>& lock) {
  const bool wake = std::exchange(sleeping, false);
  lock.unlock();
  if (wake) work.notify_one();
}

Status Store::Impl::add(std::span<const CellResult> cells) {
  const std::size_t before = queue.leases.size();
  if (sharing) {
    if (auto ok = sharing->book->cover(cells, queue.leases); !ok) return ok;
  }
  auto ok = queue.add(cells, columns);
  if (!ok) queue.leases.resize(before);
  return ok;
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Store>> Store::open(const std::string& where, OpenMode mode,
                                           StoreOptions options) {
  auto place = parse_place(where, options.run_name);
  if (!place) return fail(std::move(place.error()));
  auto impl = std::make_unique<Impl>();
  impl->place = *std::move(place);
  impl->options = std::move(options);
  auto* server = std::get_if<PostgresPlace>(&impl->place);
  if (server != nullptr) server->silence = impl->options.silence;
  if (mode == OpenMode::kShare && server == nullptr) {
    return fail(ErrorKind::kUnsupported,
                "{}: a run in a file is made by one process; several can share one in a PostgreSQL "
                "database (postgresql://host/database)",
                where);
  }
  if (mode == OpenMode::kShare) {
    impl->sharing = Sharing{*server, impl->options.retry_for, std::make_shared<LeaseBook>()};
  }
  if (mode == OpenMode::kReadOnly) {
    impl->failure = Error{ErrorKind::kInvalid,
                          fmt::format("{}: was opened to be read only", shown_place(where))};
  } else {
    auto writer = open_writer(impl->place, mode, impl->options.cache_bytes);
    if (!writer) return fail(std::move(writer.error()));
    impl->columns = std::visit([](const auto& database) { return database.columns(); }, *writer);
    impl->writer = *std::move(writer);
  }
  auto reader = open_reader(impl->place);
  if (!reader) return fail(std::move(reader.error()));
  impl->reader = *std::move(reader);
  {
    // The thread looks at nothing before its number is known.
    const std::lock_guard lock(impl->mutex);
    impl->thread = std::thread([raw = impl.get()] { raw->run(); });
    impl->writer_id = impl->thread.get_id();
  }
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

const Sharing* Store::sharing() const { return impl_->sharing ? &*impl_->sharing : nullptr; }

Store::~Store() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->ending = true;
  }
  impl_->work.notify_all();
  impl_->thread.join();
  // The last connection to be closed tidies up the log, and only the writer's may.
  impl_->reader.reset();
}

Result<Reconciliation> Store::reconcile(std::span<const ColumnSpec> columns) {
  if (auto ok = flush(); !ok) return fail(std::move(ok.error()));
  std::vector<StoredColumn> now;
  auto found = impl_->write(
      [&](auto& database) {
        auto done = database.reconcile(columns);
        if (done) now = database.columns();
        return done;
      },
      false);
  if (found) {
    const std::lock_guard lock(impl_->mutex);
    impl_->columns = std::move(now);
  }
  return found;
}

Result<Reconciliation> Store::compare(std::span<const ColumnSpec> columns) const {
  auto stored = this->columns();
  if (!stored) return fail(std::move(stored.error()));
  return compare_columns(*stored, columns);
}

Result<std::vector<ColumnSpec>> Store::columns() const {
  return impl_->ask([](auto& database) { return database.columns(); });
}

void Store::put(std::span<const CellResult> cells, std::function<void(Status)> done) {
  std::unique_lock lock(impl_->mutex);
  impl_->wait_for_room(lock);
  std::optional<Error> refusal;
  if (auto ok = impl_->add(cells); !ok) refusal = std::move(ok.error());
  if (done || impl_->sharing) impl_->queue.wait(std::move(done), std::move(refusal));
  impl_->wake_writer(lock);
}

Status Store::flush() {
  if (std::this_thread::get_id() == impl_->writer_id) {
    return fail(ErrorKind::kInternal, "flush() on the writer's thread would wait for itself");
  }
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->with_later = true;
  }
  std::promise<Status> answered;
  auto answer = answered.get_future();
  put(std::span<const CellResult>{}, [&](Status status) { answered.set_value(std::move(status)); });
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->hurry = true;
  }
  impl_->work.notify_one();
  return answer.get();
}

void Store::hurry() {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->queue.empty()) return;
    impl_->hurry = true;
  }
  impl_->work.notify_one();
}

std::uint32_t Store::origin(const Origin& origin) {
  {
    const std::lock_guard lock(impl_->mutex);
    for (const auto& [known, id] : impl_->origins) {
      if (known == origin) return id;
    }
  }
  const auto id = impl_->write([&](auto& database) { return database.add_origin(origin); }, true);
  const std::lock_guard lock(impl_->mutex);
  if (!id) {
    impl_->doom = id.error();
    return 0;
  }
  impl_->origins.emplace_back(origin, *id);
  return *id;
}

Result<std::vector<Origin>> Store::origins() const {
  return impl_->ask([](auto& database) { return database.origins(); });
}

Status Store::for_each_cell(const std::function<bool(const CellView&)>& cell) const {
  bool begun = false;
  const RowReader::Sink sink = [&](const CellView& view) {
    begun = true;
    return cell(view);
  };
  // With a connection of its own, so that `cell` may ask other questions, and others meanwhile.
  const auto attempt = [&]() -> Status {
    auto reader = open_reader(impl_->place);
    if (!reader) return fail(std::move(reader.error()));
    return std::visit([&](auto& database) { return database.for_each_cell(sink); }, *reader);
  };
  return insist(impl_->options.retry_for, attempt, [&](const Error& error) {
    return !begun && error.kind == ErrorKind::kUnavailable &&
           std::holds_alternative<PostgresPlace>(impl_->place);
  });
}

Result<std::vector<CellResult>> Store::read_record(std::uint64_t record) const {
  return read_records(record, record + 1);
}

Result<std::vector<CellResult>> Store::read_records(std::uint64_t first, std::uint64_t end) const {
  return impl_->ask([&](auto& database) { return database.read_records(first, end); });
}

Result<std::vector<std::array<std::uint64_t, kCellStates>>> Store::counts() const {
  std::vector<std::array<std::uint64_t, kCellStates>> counts;
  auto ok = for_each_cell([&](const CellView& cell) {
    if (cell.column >= counts.size()) counts.resize(cell.column + 1);
    ++counts[cell.column][static_cast<std::size_t>(cell.state)];
    return true;
  });
  if (!ok) return fail(std::move(ok.error()));
  const auto known = columns();
  if (!known) return fail(known.error());
  counts.resize(std::max(counts.size(), known->size()));
  return counts;
}

Result<std::optional<std::string>> Store::cached(const Hash128& key) const {
  return impl_->ask([&](auto& database) { return database.cached(key); });
}

void Store::remember(const Hash128& key, std::string json) {
  std::unique_lock lock(impl_->mutex);
  impl_->wait_for_room(lock);
  impl_->queue.response_bytes += json.size();
  impl_->queue.responses.push_back({key, std::move(json)});
  impl_->wake_writer(lock);
}

void Store::remember_later(const Hash128& key, std::string json) {
  std::unique_lock lock(impl_->mutex);
  impl_->wait_for_room(lock);
  const bool is_first = impl_->later.empty();
  if (is_first) impl_->later_due = Clock::now() + impl_->options.responses_every;
  impl_->later_bytes += json.size() + sizeof(Batch::Response);
  impl_->later.push_back({key, std::move(json)});
  if (is_first) impl_->wake_writer(lock);
}

void Store::spend(std::uint64_t amount) {
  if (amount == 0) return;
  std::unique_lock lock(impl_->mutex);
  impl_->queue.spent += amount;
  impl_->wake_writer(lock);
}

Result<std::uint64_t> Store::spent() const {
  return impl_->ask([](auto& database) { return database.spent(); });
}

std::uint64_t Store::known_spent() const { return impl_->known_spent; }

Status Store::set_property(std::string_view name, std::string_view value) {
  return impl_->write([&](auto& database) { return database.set_property(name, value); }, false);
}

Result<std::optional<std::string>> Store::property(std::string_view name) const {
  return impl_->ask([&](auto& database) { return database.property(name); });
}

}  // namespace dovetail::pipeline
