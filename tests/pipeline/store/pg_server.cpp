#include "pipeline/store/pg_server.h"

#include <fcntl.h>
#include <grp.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

namespace dovetail::pipeline {
namespace {

// Where Debian's packages put the server: the newest that is there.
std::filesystem::path binaries() {
  std::filesystem::path found;
  std::error_code error;
  for (const auto& version : std::filesystem::directory_iterator("/usr/lib/postgresql", error)) {
    const auto folder = version.path() / "bin";
    if (std::filesystem::exists(folder / "initdb", error) && folder > found) found = folder;
  }
  return found;
}

// The server refuses to run as root.
const passwd* owner() { return ::geteuid() == 0 ? ::getpwnam("postgres") : nullptr; }

pid_t begin(const std::vector<std::string>& words, const std::filesystem::path& log) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  const passwd* user = owner();
  const pid_t process = ::fork();
  if (process != 0) return process;
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  if (user != nullptr && (::setgroups(0, nullptr) != 0 || ::setgid(user->pw_gid) != 0 ||
                          ::setuid(user->pw_uid) != 0)) {
    ::_exit(126);
  }
  // The server's own word for "at once"; sent should this process be killed.
  ::prctl(PR_SET_PDEATHSIG, SIGQUIT);
  if (::chdir("/") != 0) ::_exit(126);
  ::execv(pointers[0], pointers.data());
  ::_exit(127);
}

int end_of(pid_t process) {
  int status = 0;
  ::waitpid(process, &status, 0);
  return status;
}

}  // namespace

std::string PgServer::missing() {
  if (binaries().empty()) return "no PostgreSQL server is installed (package postgresql)";
  if (::geteuid() == 0 && owner() == nullptr) return "there is no user postgres to run a server as";
  return {};
}

PgServer& PgServer::shared() {
  static PgServer server;
  return server;
}

PgServer::PgServer() {
  if (const passwd* user = owner()) {
    if (::chown(folder_.path().c_str(), user->pw_uid, user->pw_gid) != 0) {
      throw std::runtime_error("cannot give a folder to postgres");
    }
  }
  const auto data = (folder_.path() / "data").string();
  const int status = end_of(begin({(binaries() / "initdb").string(), "-D", data, "-U", "dovetail",
                                   "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"},
                                  folder_.path() / "log"));
  if (status != 0) throw std::runtime_error("initdb: " + read_bytes(folder_.path() / "log"));
  start();
}

PgServer::~PgServer() { stop(); }

std::string PgServer::where() const {
  return "postgresql:///postgres?user=dovetail&host=" + folder_.path().string();
}

void PgServer::start() {
  const auto data = (folder_.path() / "data").string();
  // What a killed server leaves of its files is what the system has, synced or not.
  process_ = begin({(binaries() / "postgres").string(), "-D", data, "-k", folder_.path().string(),
                    "-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=60"},
                   folder_.path() / "log");
  const auto late = std::chrono::steady_clock::now() + std::chrono::seconds{60};
  while (PQping(where().c_str()) != PQPING_OK) {
    if (std::chrono::steady_clock::now() > late) {
      throw std::runtime_error("the server does not start: " + read_bytes(folder_.path() / "log"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
}

void PgServer::stop() {
  if (process_ <= 0) return;
  ::kill(process_, SIGQUIT);
  end_of(process_);
  process_ = -1;
}

}  // namespace dovetail::pipeline
