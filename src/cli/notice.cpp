#include "cli/notice.h"

#include <csignal>
#include <cstdio>
#include <string>

namespace dovetail::cli {

void survive_closed_pipes() { std::signal(SIGPIPE, SIG_IGN); }

void notice(std::string_view line) {
  // One write, so that lines of threads do not mix.
  const std::string text = std::string(line) + '\n';
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace dovetail::cli
