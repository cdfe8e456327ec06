#include "pipeline/run/columns/command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "base/descriptor.h"

namespace dovetail::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostOutput = 64U << 10U;

tl::unexpected<Error> refused(const std::string& program, const char* what, int code) {
  return fail(ErrorKind::kIo, "{}: {}: {}", program, what, std::strerror(code));
}

// A file without a name: a program that does not read its input cannot block whoever wrote it.
Result<Descriptor> file_of(std::string_view input, const std::string& program) {
  Descriptor file(memfd_create("input", MFD_CLOEXEC));
  if (file.get() < 0) return refused(program, "no room for its input", errno);
  while (!input.empty()) {
    const ssize_t written = write(file.get(), input.data(), input.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return refused(program, "no room for its input", errno);
    input.remove_prefix(static_cast<std::size_t>(written));
  }
  if (lseek(file.get(), 0, SEEK_SET) < 0) return refused(program, "its input", errno);
  return file;
}

// This process's environment without these variables.
std::vector<char*> environment_without(const std::vector<std::string>& withheld) {
  std::vector<char*> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    if (std::find(withheld.begin(), withheld.end(), name) == withheld.end()) {
      kept.push_back(*variable);
    }
  }
  kept.push_back(nullptr);
  return kept;
}

struct Started {
  pid_t process = 0;
  Descriptor output;
};

Result<Started> start(const CommandCheck& command, std::string_view input) {
  const std::string& program = command.arguments.front();
  auto in = file_of(input, program);
  if (!in) return fail(in.error());
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return refused(program, "no pipe for its output", errno);
  Descriptor read_end(ends[0]);
  const Descriptor write_end(ends[1]);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in->get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDERR_FILENO);
  const std::string folder = command.folder.empty() ? "." : command.folder.string();
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  std::vector<std::string> words = command.arguments;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::vector<char*> environment = environment_without(command.withheld);
  Started started;
  const int code = posix_spawnp(&started.process, program.c_str(), &actions, &attributes,
                                arguments.data(), environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) return refused(program, "cannot be started", code);
  started.output = std::move(read_end);
  return started;
}

// Reads what is there; false at the end of the output.
bool read_some(const Descriptor& output, std::string& text) {
  std::array<char, 1U << 14U> block{};
  const ssize_t count = read(output.get(), block.data(), block.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  const std::size_t room = kMostOutput - text.size();
  text.append(block.data(), std::min(room, static_cast<std::size_t>(count)));
  return count > 0;
}

// Until the program ends (true) or its time is up.
bool wait_for(const Descriptor& process, Descriptor& output, std::chrono::milliseconds limit,
              std::string& text) {
  const auto deadline = Clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    std::array<pollfd, 2> watched = {{{process.get(), POLLIN, 0}, {output.get(), POLLIN, 0}}};
    const int ready = poll(watched.data(), watched.size(), static_cast<int>(left));
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) continue;
    if (watched[1].revents != 0 && !read_some(output, text)) output.reset();
    if (watched[0].revents != 0) return true;
  }
}

void drain(const Descriptor& output, std::string& text) {
  if (output.get() < 0) return;
  fcntl(output.get(), F_SETFL, O_NONBLOCK);
  for (;;) {
    pollfd watched = {output.get(), POLLIN, 0};
    if (poll(&watched, 1, 0) <= 0 || !read_some(output, text)) return;
  }
}

}  // namespace

Result<CommandEnd> run_command(const CommandCheck& command, std::string_view input) {
  auto started = start(command, input);
  if (!started) return fail(started.error());
  CommandEnd end;
  // The library's own function lacks C linkage in glibc 2.36.
  const Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, started->process, 0)));
  const int failed = process.get() < 0 ? errno : 0;
  end.timed_out = failed == 0 && !wait_for(process, started->output, command.timeout, end.output);
  // While it has not been waited for its number is not given to another process.
  kill(-started->process, SIGKILL);
  int status = 0;
  while (waitpid(started->process, &status, 0) < 0 && errno == EINTR) {
  }
  if (failed != 0) return refused(command.arguments.front(), "cannot be watched", failed);
  drain(started->output, end.output);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  return end;
}

}  // namespace dovetail::pipeline
