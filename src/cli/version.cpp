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
  return fmt::format(
      "dovetail {}\n"
      "commit    {}\n"
      "compiler  {}\n"
      "build     {}{}{}\n"
      "kernels   {} on this CPU, which runs {}\n",
      DOVETAIL_VERSION, DOVETAIL_COMMIT, DOVETAIL_COMPILER, DOVETAIL_BUILD_TYPE,
      *DOVETAIL_SANITIZERS != '\0' ? ", sanitizers " : "", DOVETAIL_SANITIZERS, best,
      fmt::join(kernels, ", "));
}

}  // namespace dovetail::cli
