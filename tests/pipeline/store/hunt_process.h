#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/store/mutation.h"

namespace dovetail::pipeline {

// The hunt as a process of its own; what it says is read from a pipe.
class Hunt {
 public:
  Hunt(StoreMutant mutant, const std::string& mode, const std::string& where, std::uint64_t number,
       const std::string& run = "-") {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string program = DOVETAIL_STORE_HUNT;
    std::string fault = std::to_string(static_cast<int>(mutant));
    std::string word = mode;
    std::string path = where;
    std::string last = std::to_string(number);
    std::string name = run;
    std::array<char*, 7> words = {program.data(), fault.data(), word.data(), path.data(),
                                  last.data(),    name.data(),  nullptr};
    const int failed =
        ::posix_spawn(&process_, program.c_str(), &actions, nullptr, words.data(), ::environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    out_ = ends[0];
    if (failed != 0) throw std::runtime_error("cannot start " + program);
  }
  Hunt(const Hunt&) = delete;
  Hunt& operator=(const Hunt&) = delete;
  ~Hunt() {
    if (process_ > 0) kill();
    ::close(out_);
  }

  // All that it says until it ends, or until so many microseconds after its first word, when it is
  // killed.
  // `begun` is called at its first word.
  std::string listen(std::optional<std::chrono::microseconds> life,
                     const std::function<void()>& begun = {}) {
    std::string said;
    std::array<char, 65536> some;
    const ssize_t first = ::read(out_, some.data(), some.size());
    if (first > 0) said.append(some.data(), static_cast<std::size_t>(first));
    if (begun) begun();
    std::thread killer;
    if (life) {
      killer = std::thread([this, life] {
        std::this_thread::sleep_for(*life);
        ::kill(process_, SIGKILL);
      });
    }
    for (ssize_t size = 1; size > 0;) {
      size = ::read(out_, some.data(), some.size());
      if (size > 0) said.append(some.data(), static_cast<std::size_t>(size));
    }
    if (killer.joinable()) killer.join();
    return said;
  }
  void kill() {
    ::kill(process_, SIGKILL);
    wait();
  }
  int wait() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return status;
  }

 private:
  pid_t process_ = -1;
  int out_ = -1;
};

// The cells that a hunt said to be finished: record * 8 + column.
inline std::vector<std::uint64_t> cells_said(const std::string& said) {
  std::vector<std::uint64_t> cells(said.size() / 8);
  std::memcpy(cells.data(), said.data(), cells.size() * 8);
  return cells;
}

}  // namespace dovetail::pipeline
