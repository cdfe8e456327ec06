#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "load/container.h"
#include "load/mapped_files.h"
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

}  // namespace dovetail::load
