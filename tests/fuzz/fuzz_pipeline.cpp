// libFuzzer target: whatever the pipeline file, reading it ends in a spec whose samplers can be
// drawn or fail, or in an error of one line a mistake, each of which names the file.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "pipeline/config/pipeline_spec.h"
#include "pipeline/sample/sampler_set.h"

namespace {

bool every_line_names_the_file(std::string_view message) {
  while (message.starts_with("fuzz:")) {
    const std::size_t end = message.find('\n');
    if (end == message.npos) return true;
    message.remove_prefix(end + 1);
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dovetail;
  using namespace dovetail::pipeline;
  const auto fields = [](const SeedSpec&, const std::filesystem::path&) {
    return Result<std::vector<std::string>>(std::vector<std::string>{"person", "age"});
  };
  const auto spec =
      parse_pipeline(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz", fields);
  if (!spec) {
    if (!every_line_names_the_file(spec.error().message)) std::abort();
    return 0;
  }
  // Every column needs only columns before it.
  for (std::size_t i = 0; i < spec->columns.size(); ++i) {
    for (const ColumnId need : spec->columns[i].needs) {
      if (need >= i) std::abort();
    }
  }
  if (spec->samplers) {
    Json row = {{"person", "Ada"}, {"age", 30}};
    (void)spec->samplers->draw_all(0, row);
  }
  return 0;
}
