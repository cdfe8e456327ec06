#include "cli/signals.h"

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <initializer_list>

#include "cli/command.h"
#include "load/mapped_file.h"

namespace dovetail::cli {
namespace {

iovec piece(const char* text) {
  // writev() takes void*, but nothing is written through it.
  return {const_cast<char*>(text), std::strlen(text)};
}

// Only what is safe in a signal handler.
void on_bus_error(int number, siginfo_t* info, void*) {
  const char* path = load::mapped_path(info->si_addr);
  if (path == nullptr) {
    std::signal(number, SIG_DFL);  // the access is made again and ends the process
    return;
  }
  const std::array<iovec, 3> line = {
      piece("dovetail: "), piece(path),
      piece(": the file was shortened, or cannot be read any more, while it was in use; expected a "
            "file that stays as it is until the program ends\n")};
  const ssize_t ignored = ::writev(STDERR_FILENO, line.data(), static_cast<int>(line.size()));
  static_cast<void>(ignored);
  _exit(kExitFailed);
}

// A signal handler reaches nothing but globals.
volatile std::sig_atomic_t noted = 0;

void note(int number) {
  if (noted != 0) _exit(128 + number);
  noted = number;
}

void install(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
}

}  // namespace

void survive_closed_pipes() { std::signal(SIGPIPE, SIG_IGN); }

void report_bus_errors() {
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

InterruptGuard::InterruptGuard() {
  noted = 0;
  install(note);
}

InterruptGuard::~InterruptGuard() { install(SIG_DFL); }

int InterruptGuard::signal() { return noted; }
void InterruptGuard::clear() { noted = 0; }

}  // namespace dovetail::cli
