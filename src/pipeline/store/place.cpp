#include "pipeline/store/place.h"

#include <libpq-fe.h>

#include <algorithm>
#include <memory>
#include <string_view>

namespace dovetail::pipeline {
namespace {

constexpr std::size_t kMaxName = 48;  // with its prefix, within PostgreSQL's 63 bytes

bool is_connection_string(std::string_view where) {
  return where.starts_with("postgresql://") || where.starts_with("postgres://");
}

bool is_run_name(std::string_view name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= kMaxName && std::all_of(name.begin(), name.end(), good);
}

using Options =
    std::unique_ptr<PQconninfoOption, decltype([](PQconninfoOption* o) { PQconninfoFree(o); })>;

// The parts of a connection string; nothing where it is malformed. The library's message would
// repeat pieces of it.
Options parse_connection(const std::string& where) {
  char* message = nullptr;
  Options options(PQconninfoParse(where.c_str(), &message));
  PQfreemem(message);
  return options;
}

std::string option(const Options& options, std::string_view name) {
  for (const PQconninfoOption* o = options.get(); o != nullptr && o->keyword != nullptr; ++o) {
    if (name == o->keyword && o->val != nullptr) return o->val;
  }
  return {};
}

std::string shown_options(const Options& options) {
  std::string host = option(options, "host");
  if (host.empty()) host = option(options, "hostaddr");
  const std::string port = option(options, "port");
  return fmt::format("postgresql://{}{}{}/{}", host, port.empty() ? "" : ":", port,
                     option(options, "dbname"));
}

}  // namespace

Result<Place> parse_place(const std::string& where, const std::string& run_name) {
  if (!is_connection_string(where)) return std::filesystem::path(where);
  const Options options = parse_connection(where);
  if (!options) {
    return fail(
        ErrorKind::kInvalid,
        "the connection string of the run's database is malformed (it is not shown, because "
        "it may hold a password); write postgresql://user:password@host:port/database");
  }
  PostgresPlace place;
  place.connection = where;
  place.password = option(options, "password");
  place.shown = shown_options(options);
  if (!is_run_name(run_name)) {
    return fail(ErrorKind::kInvalid,
                "{}: run name '{}': a run in a database needs a name of 1 to {} letters, digits, "
                "'_', '-' or '.'",
                place.shown, run_name, kMaxName);
  }
  place.run = run_name;
  place.schema = "dovetail_" + run_name;
  place.shown += fmt::format(", run {}", run_name);
  return place;
}

std::string shown_place(const std::string& where) {
  if (!is_connection_string(where)) return where;
  const Options options = parse_connection(where);
  return options ? shown_options(options) : "postgresql://";
}

}  // namespace dovetail::pipeline
