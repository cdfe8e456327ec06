#pragma once

#include <string>
#include <string_view>

#include "families/open_model.h"
#include "load/hf_container.h"
#include "load/json_fields.h"

namespace dovetail::families {

// What a config.json describes, without any weights beside it.
inline Result<load::ModelConfig> read_hf_config(std::string_view text, const std::string& file) {
  auto object = load::parse_json_object(text, file, load::kLargestConfig);
  if (!object) return fail(object.error());
  load::Container container;
  container.name = file;
  container.configuration = std::make_shared<const nlohmann::json>(*std::move(object));
  auto config = read_config(container);
  if (!config) return config;
  if (const auto ids = load::read_eos_ids(container, config->vocab_size); !ids) {
    return fail(ids.error());
  }
  return config;
}

}  // namespace dovetail::families
