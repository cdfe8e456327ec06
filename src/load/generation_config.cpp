#include "load/generation_config.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "load/json_fields.h"

namespace dovetail::load {

Result<GenerationDefaults> parse_generation_config(std::string_view text, std::string_view file,
                                                   std::uint32_t vocab_size) {
  const auto object = parse_json_object(text, file, kLargestConfig);
  if (!object) return fail(object.error());
  JsonFields fields(*object, std::string(file));
  GenerationDefaults defaults;
  defaults.eos_ids = fields.optional_ids("eos_token_id", vocab_size);
  defaults.temperature = fields.optional_float("temperature", 0.0F, 100.0F);
  defaults.top_p = fields.optional_float("top_p", 0.0F, 1.0F);
  defaults.min_p = fields.optional_float("min_p", 0.0F, 1.0F);
  defaults.repetition_penalty = fields.optional_float("repetition_penalty", 0.01F, 100.0F);
  if (defaults.top_p == 0.0F) fields.reject("top_p", "0", "a number above 0 and at most 1");
  defaults.top_k = fields.optional_int("top_k", -1, std::numeric_limits<std::int32_t>::max());
  if (defaults.top_k == -1) defaults.top_k = 0;  // both say "all"; a request says it with 0
  if (auto status = fields.status(); !status) return fail(status.error());
  return defaults;
}

Result<std::vector<std::int32_t>> read_eos_ids(const Container& container,
                                               std::uint32_t vocab_size) {
  JsonFields fields(*std::get<std::shared_ptr<const nlohmann::json>>(container.configuration),
                    container.name);
  auto ids = fields.optional_ids("eos_token_id", vocab_size);
  if (auto status = fields.status(); !status) return fail(status.error());
  return ids;
}

}  // namespace dovetail::load
