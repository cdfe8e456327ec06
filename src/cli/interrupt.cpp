#include "cli/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <initializer_list>

namespace dovetail::cli {
namespace {

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

InterruptGuard::InterruptGuard() {
  noted = 0;
  install(note);
}

InterruptGuard::~InterruptGuard() { install(SIG_DFL); }

int InterruptGuard::signal() { return noted; }
void InterruptGuard::clear() { noted = 0; }

}  // namespace dovetail::cli
