#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "load/container.h"
#include "load/model_source.h"

namespace dovetail::load {

Result<Container> read_hf_container(const HuggingFaceFiles& files);

// What a folder says beside its model: tokenizer, chat template, generation. `source.config` must
// be there.
Status read_hf_extras(const HuggingFaceFiles& files, const Container& container,
                      ModelSource& source);

// The files that an index names, in order and each once: names within the folder, never paths.
Result<std::vector<std::string>> files_of_index(const NamedText& index);

// Maps a Hugging Face folder.
Result<MappedFiles> map_hf_files(const std::filesystem::path& folder);

// Whether a folder has a configuration and no weights; maps that, or a file of it alone.
bool is_hf_description(const std::filesystem::path& folder);
Result<MappedFiles> map_hf_description(const std::filesystem::path& path);

// Reads the text of a generation_config.json. Ids must be below `vocab_size`. `file` names the text
// in errors.
Result<GenerationDefaults> parse_generation_config(std::string_view text, std::string_view file,
                                                   std::uint32_t vocab_size);

// The ids that end a generation, as config.json has them.
Result<std::vector<std::int32_t>> read_eos_ids(const Container& container,
                                               std::uint32_t vocab_size);

}  // namespace dovetail::load
