#include "cli/version.h"

#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "kernels/kernels.h"

namespace dovetail::cli {

std::string version_text() {
  std::vector<std::string_view> kernels;
  for (const kernels::Kernels* available : kernels::available_kernels())
    kernels.push_back(available->name);
  const std::string_view best = kernels::best_kernels().name;
  std::string build = DOVETAIL_BUILD_TYPE;
  if (*DOVETAIL_SANITIZERS != '\0') build += ", sanitizers " DOVETAIL_SANITIZERS;
  return fmt::format(
      "dovetail {}\n"
      "commit    {}\n"
      "compiler  {}\n"
      "build     {}\n"
      "kernels   {} on this CPU, which runs {}\n",
      DOVETAIL_VERSION, DOVETAIL_COMMIT, DOVETAIL_COMPILER, build, best, fmt::join(kernels, ", "));
}

}  // namespace dovetail::cli
