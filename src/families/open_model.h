#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "base/result.h"
#include "load/container.h"
#include "load/model_source.h"

namespace dovetail::families {

// Opens and checks a model: a GGUF file (any shard of a split) or a Hugging Face folder. Nothing of
// the weights is read but what the checks need. An error names the file, the field, the value and
// what would be valid.
Result<std::shared_ptr<const load::ModelSource>> open_model(const std::filesystem::path& path);

// A model of which there is a configuration alone, a folder's or a file's (load::is_description):
// what it is and would take. Its tensors have no data (ModelSource::has_weights), and of what only
// tensors tell the usual is taken: the layers that draft tokens are there where the configuration
// has some.
Result<std::shared_ptr<const load::ModelSource>> describe_model(const std::filesystem::path& path);

// The same as open_model() from the contents of files. The result views into the weights' bytes;
// path, name and mappings are left to the caller. `drafts` are the shards of a GGUF file that has
// the layer which drafts tokens without the rest of the model; it is not looked at where the model
// has one itself.
Result<load::ModelSource> read_model(const load::ModelFiles& files,
                                     std::span<const load::NamedBytes> drafts = {});

// What the container's configuration describes; tensors tell what it leaves open.
Result<load::ModelConfig> read_config(const load::Container& container);

}  // namespace dovetail::families
