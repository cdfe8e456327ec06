#include "pipeline/store/postgres_handle.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "pipeline/store/mutation.h"

namespace dovetail::pipeline {
namespace {

// Types as pg_type numbers them.
constexpr Oid kBytea = 17;
constexpr Oid kInt8 = 20;
constexpr Oid kText = 25;

void append_big_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>(static_cast<std::uint8_t>(value >> shift)));
  }
}

// The head of a one-dimensional array without nulls, as array_recv() takes it.
void append_array_head(std::string& out, Oid type, std::size_t count) {
  append_big_endian(out, count == 0 ? 0 : 1, 4);
  append_big_endian(out, 0, 4);
  append_big_endian(out, type, 4);
  if (count == 0) return;
  append_big_endian(out, count, 4);
  append_big_endian(out, 1, 4);
}

// A message of the server or the library as one line without the password.
std::string cleaned(std::string_view message, const std::string& password) {
  std::string text;
  for (const char c : message) {
    const bool space = c == '\n' || c == '\t' || c == ' ';
    if (!space) text.push_back(c);
    if (space && !text.empty() && text.back() != ' ') text.push_back(' ');
  }
  if (!text.empty() && text.back() == ' ') text.pop_back();
  for (std::size_t at = 0; !password.empty();) {
    at = text.find(password, at);
    if (at == std::string::npos) break;
    text.replace(at, password.size(), "***");
    at += 3;
  }
  return text;
}

Error unreachable(const PostgresPlace& place, std::string_view detail) {
  return {ErrorKind::kUnavailable,
          fmt::format("{}: the database cannot be reached or is not ready ({}); check the server "
                      "and the connection string, then resume the run",
                      place.shown, detail)};
}

// By SQLSTATE, or its first two letters, which are its class.
ErrorKind kind_of(std::string_view state) {
  const std::string_view group = state.substr(0, 2);
  if (group == "08" || group == "40" || group == "57" || state == "53300" || state == "55P03" ||
      state == "25006") {
    return ErrorKind::kUnavailable;
  }
  if (group == "53") return ErrorKind::kExhausted;
  if (group == "58") return ErrorKind::kIo;
  if (group == "28" || state == "42501" || state == "XX001" || state == "XX002") {
    return ErrorKind::kInvalid;
  }
  if (state == "3D000") return ErrorKind::kNotFound;
  return ErrorKind::kInternal;
}

}  // namespace

Error damaged(const PostgresPlace& place, std::string_view detail) {
  return {ErrorKind::kInvalid,
          fmt::format("{}: the run's tables are damaged ({}); bring back a copy of them, or start "
                      "the run anew under another name",
                      place.shown, detail)};
}

std::string process_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("process {} on host {}", ::getpid(), host.data());
}

void PgParams::add(Oid type, std::string_view value) {
  types_.push_back(type);
  values_.push_back(value.empty() ? "" : value.data());
  sizes_.push_back(static_cast<int>(value.size()));
  formats_.push_back(1);
}

PgParams& PgParams::integer(std::int64_t value) {
  append_big_endian(made_.emplace_back(), static_cast<std::uint64_t>(value), 8);
  add(kInt8, made_.back());
  return *this;
}

PgParams& PgParams::bytes(std::string_view value) {
  add(kBytea, value);
  return *this;
}

PgParams& PgParams::text(std::string_view value) {
  add(kText, value);
  return *this;
}

PgParams& PgParams::integers(std::span<const std::int64_t> values) {
  std::string& out = made_.emplace_back();
  out.reserve(20 + 12 * values.size());
  append_array_head(out, kInt8, values.size());
  for (const std::int64_t value : values) {
    append_big_endian(out, 8, 4);
    append_big_endian(out, static_cast<std::uint64_t>(value), 8);
  }
  constexpr Oid kInt8Array = 1016;
  add(kInt8Array, out);
  return *this;
}

PgParams& PgParams::byte_strings(std::span<const std::string_view> values) {
  std::string& out = made_.emplace_back();
  std::size_t size = 20;
  for (const std::string_view value : values) size += 4 + value.size();
  out.reserve(size);
  append_array_head(out, kBytea, values.size());
  for (const std::string_view value : values) {
    append_big_endian(out, value.size(), 4);
    out.append(value);
  }
  constexpr Oid kByteaArray = 1001;
  add(kByteaArray, out);
  return *this;
}

std::uint64_t PgRows::changed() const {
  return std::strtoull(PQcmdTuples(result_.get()), nullptr, 10);
}

std::int64_t PgRows::integer(int row, int column) const {
  const std::string_view raw = bytes(row, column);
  // Big-endian, with its sign.
  std::uint64_t value = !raw.empty() && (raw.front() & 0x80) != 0 && raw.size() > 1 ? ~0ULL : 0;
  for (const char c : raw) value = value << 8 | static_cast<std::uint8_t>(c);
  return static_cast<std::int64_t>(value);
}

std::string_view PgRows::bytes(int row, int column) const {
  return {PQgetvalue(result_.get(), row, column),
          static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
}

Result<PgConnection> PgConnection::open(const PostgresPlace& place) {
  const std::string name = process_name();
  // What stands in the connection string counts more than what stands here before it. A server
  // that vanished without a word is noticed within 20 s, and the server notices as fast that this
  // process did, so that its locks are gone.
  const std::array<const char*, 8> keys = {
      "connect_timeout",  "keepalives_idle", "keepalives_interval", "keepalives_count",
      "tcp_user_timeout", "dbname",          "application_name",    nullptr};
  const std::array<const char*, 8> values = {
      "10", "5", "5", "3", "20000", place.connection.c_str(), name.c_str(), nullptr};
  PgConnection made;
  made.connection_.reset(PQconnectdbParams(keys.data(), values.data(), 1));
  made.place_ = std::make_shared<const PostgresPlace>(place);
  if (!made.connection_) return fail(ErrorKind::kExhausted, "{}: not enough memory", place.shown);
  if (!made.good()) return fail(made.error(nullptr));
  PQsetNoticeProcessor(
      made.connection_.get(), [](void*, const char*) {}, nullptr);
  constexpr int kOldest = 110'000;
  if (PQserverVersion(made.connection_.get()) < kOldest) {
    return fail(ErrorKind::kUnsupported, "{}: PostgreSQL {}; a run needs 11 or a later one",
                place.shown, PQserverVersion(made.connection_.get()) / 10'000);
  }
  // A commit waits for the disk, whatever the server's default is (README.md says why).
  const std::string_view wait = mutated(StoreMutant::kSyncSeldom) ? "off" : "local";
  if (auto ok = made.execute(
          fmt::format("SET search_path TO \"{0}\"; SET client_min_messages TO error;"
                      "SET tcp_keepalives_idle TO 5; SET tcp_keepalives_interval TO 5;"
                      "SET tcp_keepalives_count TO 3;"
                      "SET idle_in_transaction_session_timeout TO {2};"
                      "SELECT set_config('synchronous_commit', '{1}', false) "
                      "WHERE '{1}' = 'off' OR current_setting('synchronous_commit') = 'off'",
                      place.schema, wait, std::max<std::int64_t>(place.silence.count(), 1)));
      !ok) {
    return fail(std::move(ok.error()));
  }
  return made;
}

Error PgConnection::error(const PGresult* result) const {
  const char* raw_state =
      result == nullptr ? nullptr : PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char* raw_text =
      result == nullptr ? nullptr : PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  const std::string detail =
      cleaned(raw_text == nullptr ? PQerrorMessage(connection_.get()) : raw_text, place_->password);
  if (!good() || raw_state == nullptr) return unreachable(*place_, detail);
  const ErrorKind kind = kind_of(raw_state);
  switch (kind) {
    case ErrorKind::kUnavailable:
      return unreachable(*place_, detail);
    case ErrorKind::kExhausted:
      return {kind, fmt::format("{}: the database server has no room ({}); make room on its disk, "
                                "then resume the run",
                                place_->shown, detail)};
    case ErrorKind::kIo:
      return {kind, fmt::format("{}: the database server cannot read or write ({}); check its "
                                "disk, then resume the run",
                                place_->shown, detail)};
    case ErrorKind::kInvalid:
      if (std::string_view(raw_state).starts_with("XX")) return damaged(*place_, detail);
      return {kind, fmt::format("{}: the database does not permit it ({}); use a role that may "
                                "create schemas in this database",
                                place_->shown, detail)};
    default:
      return {kind,
              fmt::format("{}: the database refused: {} ({})", place_->shown, detail, raw_state)};
  }
}

Result<PgRows> PgConnection::run(const char* statement, const PgParams& params) {
  PGresult* raw = PQexecParams(
      connection_.get(), statement, static_cast<int>(params.values_.size()), params.types_.data(),
      params.values_.data(), params.sizes_.data(), params.formats_.data(), 1);
  PgRows rows(raw);
  const ExecStatusType status = PQresultStatus(raw);
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) return fail(error(raw));
  return rows;
}

Status PgConnection::execute(const std::string& statements) {
  PGresult* raw = PQexec(connection_.get(), statements.c_str());
  const PgRows rows(raw);
  const ExecStatusType status = PQresultStatus(raw);
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) return fail(error(raw));
  return {};
}

Status PgConnection::stream(const char* statement,
                            const std::function<Result<bool>(const PgRows&)>& row) {
  if (PQsendQueryParams(connection_.get(), statement, 0, nullptr, nullptr, nullptr, nullptr, 1) !=
          1 ||
      PQsetSingleRowMode(connection_.get()) != 1) {
    return fail(error(nullptr));
  }
  while (PGresult* raw = PQgetResult(connection_.get())) {
    const PgRows rows(raw);
    const ExecStatusType status = PQresultStatus(raw);
    if (status == PGRES_TUPLES_OK) continue;
    Status ok;
    bool more = false;
    if (status == PGRES_SINGLE_TUPLE) {
      const auto handed = row(rows);
      if (handed) {
        more = *handed;
      } else {
        ok = fail(handed.error());
      }
    } else {
      ok = fail(error(raw));
    }
    if (more) continue;
    connection_.reset();
    return ok;
  }
  return {};
}

}  // namespace dovetail::pipeline
