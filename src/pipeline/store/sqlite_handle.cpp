#include "pipeline/store/sqlite_handle.h"

#include <cerrno>
#include <system_error>
#include <utility>

namespace dovetail::pipeline {
namespace {

bool is_full(int system_error) {
  return system_error == ENOSPC || system_error == EDQUOT || system_error == EFBIG;
}

// The system's error number behind a failure, where it is known. A commit that fails leaves it with
// the log's file alone.
int system_error_of(sqlite3* connection, int code) {
  const int kind = code & 0xff;
  if (kind != SQLITE_IOERR && kind != SQLITE_CANTOPEN && kind != SQLITE_FULL) return 0;
  int number = sqlite3_system_errno(connection);
  if (number != 0 || code != SQLITE_IOERR_WRITE) return number;
  sqlite3_file* log = nullptr;
  sqlite3_file_control(connection, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
  if (log != nullptr && log->pMethods != nullptr) {
    log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &number);
  }
  return number;
}

}  // namespace

Error damaged(const std::string& file, std::string_view detail) {
  return {ErrorKind::kInvalid,
          fmt::format("{}: the run's database is damaged ({}); bring back a copy of it, or start "
                      "the run anew under another name",
                      file, detail)};
}

Error sqlite_error(const std::string& file, int code, int system_error, std::string_view detail) {
  // The system's word for it, where there is one.
  const std::string cause =
      system_error != 0 ? std::generic_category().message(system_error) : std::string(detail);
  const int kind = code & 0xff;
  if (kind == SQLITE_FULL || (kind == SQLITE_IOERR && is_full(system_error))) {
    return {ErrorKind::kExhausted,
            fmt::format("{}: the disk is full or a limit on the file's size is reached ({}); make "
                        "room, then resume the run",
                        file, cause)};
  }
  switch (kind) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorKind::kUnavailable,
              fmt::format("{}: another program has locked the database; end it (a database shell "
                          "or a backup?), then resume the run",
                          file)};
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return {ErrorKind::kIo,
              fmt::format("{}: the run's database cannot be written ({}); make the file and its "
                          "folder writable, or choose another folder",
                          file, cause)};
    case SQLITE_CANTOPEN:
      return {ErrorKind::kIo,
              fmt::format("{}: the run's database cannot be opened ({}); check that the folder is "
                          "there, readable and writable",
                          file, cause)};
    case SQLITE_IOERR:
      return {ErrorKind::kIo,
              fmt::format("{}: the run's database cannot be read or written ({}); check the disk, "
                          "then resume the run",
                          file, cause)};
    case SQLITE_NOTADB:
      return {ErrorKind::kInvalid,
              fmt::format("{}: the file is no database of a run, or its beginning is damaged; name "
                          "the file that the run made, or another file for a new run",
                          file)};
    case SQLITE_CORRUPT:
    case SQLITE_SCHEMA:
    case SQLITE_ERROR:
      return damaged(file, detail);
    case SQLITE_NOMEM:
      return {ErrorKind::kExhausted,
              fmt::format("{}: not enough memory for the run's database", file)};
    default:
      return {ErrorKind::kInternal, fmt::format("{}: the database refused: {}", file, detail)};
  }
}

Error sqlite_error(sqlite3* connection, int code) {
  const char* file = sqlite3_db_filename(connection, "main");
  return sqlite_error(file == nullptr ? "" : file, code, system_error_of(connection, code),
                      sqlite3_errmsg(connection));
}

void Statement::bind(int index, std::int64_t value) {
  sqlite3_bind_int64(statement_.get(), index, value);
}

void Statement::bind(int index, std::string_view bytes) {
  // A null pointer would be NULL instead of no bytes.
  sqlite3_bind_blob64(statement_.get(), index, bytes.empty() ? "" : bytes.data(), bytes.size(),
                      SQLITE_STATIC);
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    sqlite3_reset(statement_.get());
    return false;
  }
  sqlite3* connection = sqlite3_db_handle(statement_.get());
  Error error = sqlite_error(connection, sqlite3_extended_errcode(connection));
  sqlite3_reset(statement_.get());
  return fail(std::move(error));
}

Status Statement::run() {
  auto row = step();
  if (!row) return fail(std::move(row.error()));
  if (*row) sqlite3_reset(statement_.get());
  return {};
}

std::string_view Statement::bytes(int column) {
  const void* data = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  if (data == nullptr || size <= 0) return {};
  return {static_cast<const char*>(data), static_cast<std::size_t>(size)};
}

Result<Connection> Connection::open(const std::string& name, const std::string& file, int flags) {
  sqlite3* raw = nullptr;
  // One thread at a time is our own rule; the library's mutexes would cost a tenth of the time.
  const int code = sqlite3_open_v2(name.c_str(), &raw, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  Connection connection;
  connection.connection_.reset(raw);
  connection.file_ = file;
  if (code != SQLITE_OK) {
    return fail(sqlite_error(file, code, raw == nullptr ? 0 : sqlite3_system_errno(raw),
                             raw == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(raw)));
  }
  sqlite3_extended_result_codes(raw, 1);
  return connection;
}

Status Connection::execute(const std::string& sql) {
  const int code = sqlite3_exec(get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return fail(sqlite_error(get(), code));
  return {};
}

Result<Statement> Connection::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(get(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return fail(sqlite_error(get(), code));
  return Statement(statement);
}

Result<std::int64_t> Connection::number(const std::string& sql) {
  auto statement = prepare(sql);
  if (!statement) return fail(std::move(statement.error()));
  auto row = statement->step();
  if (!row) return fail(std::move(row.error()));
  return *row ? statement->integer(0) : 0;
}

}  // namespace dovetail::pipeline
