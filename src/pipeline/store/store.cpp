#include "pipeline/store/store.h"

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "pipeline/store/batch.h"
#include "pipeline/store/mutation.h"
#include "pipeline/store/reconciliation.h"
#include "pipeline/store/sqlite_reader.h"
#include "pipeline/store/sqlite_writer.h"

namespace dovetail::pipeline {

using Clock = std::chrono::steady_clock;

// The queue and the writer thread; what is behind them knows SQLite, they do not.
struct Store::Impl {
  std::filesystem::path file;
  StoreOptions options;

  // The database. `writing` is held for a whole transaction, `reading` for one question.
  std::mutex writing;
  std::optional<SqliteWriter> writer;
  std::mutex reading;
  std::optional<SqliteReader> reader;

  // The queue.
  std::mutex mutex;
  std::condition_variable work;  // for the writer thread: cells, or the end
  std::condition_variable room;  // for those who put
  Batch queue;
  std::vector<StoredColumn> columns;
  std::vector<Origin> origins;
  bool sleeping = false;
  bool ending = false;
  std::thread::id writer_id;  // its own thread never waits for room

  // Of the writer thread. Once it has given up a batch, order would be lost by taking another.
  Batch batch;
  std::optional<Error> failure;
  std::thread thread;

  void run();
  Status commit();
  Status retry(Status status);
  void answer(const Status& status);
  void enqueue(std::unique_lock<std::mutex>& lock, Batch::Waiting waiting);
  void wait_for_room(std::unique_lock<std::mutex>& lock);
};

void Store::Impl::run() {
  for (;;) {
    {
      std::unique_lock lock(mutex);
      sleeping = true;
      work.wait(lock, [&] { return ending || !queue.empty(); });
      sleeping = false;
      if (queue.empty()) return;
      std::swap(queue, batch);
    }
    room.notify_all();
    if constexpr (kStoreMutant == StoreMutant::kDoneBeforeCommit) answer({});
    const Status status = commit();
    answer(status);
    batch.clear();
    if (status) {
      const std::lock_guard held(writing);
      writer->shorten_log();
    }
  }
}

Status Store::Impl::commit() {
  if (failure) return fail(*failure);
  Status status;
  {
    const std::lock_guard held(writing);
    status = writer->commit(batch);
  }
  if (!status) status = retry(std::move(status));
  if (!status) failure = status.error();
  return status;
}

Status Store::Impl::retry(Status status) {
  if constexpr (kStoreMutant == StoreMutant::kForgetFailed) return {};
  const auto give_up = Clock::now() + options.retry_for;
  auto pause = std::chrono::milliseconds{20};
  bool told = false;
  while (!status) {
    const ErrorKind kind = status.error().kind;
    if (kind != ErrorKind::kExhausted && kind != ErrorKind::kIo &&
        kind != ErrorKind::kUnavailable) {
      return status;
    }
    if (!std::exchange(told, true) && options.on_waiting) options.on_waiting(status.error());
    const auto left = give_up - Clock::now();
    if (left <= Clock::duration::zero()) return status;
    bool last = false;
    {
      std::unique_lock lock(mutex);
      last = work.wait_for(lock, std::min<Clock::duration>(pause, left), [&] { return ending; });
    }
    pause = std::min(2 * pause, std::chrono::milliseconds{1000});
    {
      const std::lock_guard held(writing);
      status = writer->commit(batch);
    }
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
  if (std::this_thread::get_id() == writer_id) return;
  room.wait(lock, [&] { return queue.size() < options.queue_bytes; });
}

void Store::Impl::enqueue(std::unique_lock<std::mutex>& lock, Batch::Waiting waiting) {
  if (waiting.done) queue.waiting.push_back(std::move(waiting));
  const bool wake = std::exchange(sleeping, false);
  lock.unlock();
  if (wake) work.notify_one();
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Store>> Store::open(const std::filesystem::path& file, OpenMode mode,
                                           StoreOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->file = file;
  impl->options = std::move(options);
  if (mode == OpenMode::kReadOnly) {
    impl->failure =
        Error{ErrorKind::kInvalid, fmt::format("{}: was opened to be read only", file.string())};
  } else {
    auto writer = SqliteWriter::open(file, mode == OpenMode::kResume, impl->options.cache_bytes);
    if (!writer) return fail(std::move(writer.error()));
    impl->columns = writer->columns();
    impl->origins = writer->origins();
    impl->writer = *std::move(writer);
  }
  auto reader = SqliteReader::open(file);
  if (!reader) return fail(std::move(reader.error()));
  impl->reader = *std::move(reader);
  if (mode == OpenMode::kReadOnly) {
    auto origins = impl->reader->origins();
    if (!origins) return fail(std::move(origins.error()));
    impl->origins = *std::move(origins);
  }
  {
    // The thread looks at nothing before its number is known.
    const std::lock_guard lock(impl->mutex);
    impl->thread = std::thread([raw = impl.get()] { raw->run(); });
    impl->writer_id = impl->thread.get_id();
  }
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

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
  const std::lock_guard held(impl_->writing);
  if (!impl_->writer) return fail(*impl_->failure);
  auto found = impl_->writer->reconcile(columns);
  if (found) {
    const std::lock_guard lock(impl_->mutex);
    impl_->columns = impl_->writer->columns();
  }
  return found;
}

Result<Reconciliation> Store::compare(std::span<const ColumnSpec> columns) const {
  auto stored = this->columns();
  if (!stored) return fail(std::move(stored.error()));
  return compare_columns(*stored, columns);
}

Result<std::vector<ColumnSpec>> Store::columns() const {
  const std::lock_guard held(impl_->reading);
  return impl_->reader->columns();
}

void Store::put(std::span<const CellResult> cells, std::function<void(Status)> done) {
  std::unique_lock lock(impl_->mutex);
  impl_->wait_for_room(lock);
  Batch::Waiting waiting{std::move(done), std::nullopt};
  if (auto ok = impl_->queue.add(cells, impl_->columns); !ok) waiting.refusal = ok.error();
  impl_->enqueue(lock, std::move(waiting));
}

Status Store::flush() {
  if (std::this_thread::get_id() == impl_->writer_id) {
    return fail(ErrorKind::kInternal, "flush() on the writer's thread would wait for itself");
  }
  std::promise<Status> answered;
  auto answer = answered.get_future();
  put(std::span<const CellResult>{}, [&](Status status) { answered.set_value(std::move(status)); });
  return answer.get();
}

std::uint32_t Store::origin(const Origin& origin) {
  const std::lock_guard lock(impl_->mutex);
  auto& known = impl_->origins;
  const auto place = std::find(known.begin(), known.end(), origin);
  const auto id = static_cast<std::uint32_t>(place - known.begin()) + 1;
  if (place == known.end()) {
    known.push_back(origin);
    impl_->queue.origins.push_back({id, origin});
  }
  return id;
}

Result<std::vector<Origin>> Store::origins() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->origins;
}

Status Store::for_each_cell(const std::function<bool(const CellView&)>& cell) const {
  // With a connection of its own, so that `cell` may ask other questions, and others meanwhile.
  auto reader = SqliteReader::open(impl_->file);
  if (!reader) return fail(std::move(reader.error()));
  return reader->for_each_cell(cell);
}

Result<std::vector<CellResult>> Store::read_record(std::uint64_t record) const {
  const std::lock_guard held(impl_->reading);
  return impl_->reader->read_record(record);
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
  const std::lock_guard held(impl_->reading);
  return impl_->reader->cached(key);
}

void Store::remember(const Hash128& key, std::string json) {
  std::unique_lock lock(impl_->mutex);
  impl_->wait_for_room(lock);
  impl_->queue.response_bytes += json.size();
  impl_->queue.responses.push_back({key, std::move(json)});
  impl_->enqueue(lock, {});
}

Status Store::set_property(std::string_view name, std::string_view value) {
  const std::lock_guard held(impl_->writing);
  if (!impl_->writer) return fail(*impl_->failure);
  return impl_->writer->set_property(name, value);
}

Result<std::optional<std::string>> Store::property(std::string_view name) const {
  const std::lock_guard held(impl_->reading);
  return impl_->reader->property(name);
}

}  // namespace dovetail::pipeline
