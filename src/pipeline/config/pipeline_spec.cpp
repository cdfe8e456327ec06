#include "pipeline/config/pipeline_spec.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/near_match.h"
#include "pipeline/config/fields.h"

namespace dovetail::pipeline {
namespace {

constexpr std::int64_t kMostRecords = 1'000'000'000;
constexpr std::size_t kMostColumns = 1000;
constexpr std::int64_t kMostParallel = 4096;

// A column with what is needed to put it in order.
struct Draft {
  ColumnSpec spec;
  std::vector<std::string> reads;  // names in its templates
  std::string pointer;
};

class Reader {
 public:
  Reader(const Document& document, const std::filesystem::path& file, const SeedFields& seed_fields)
      : document_(document), seed_fields_(seed_fields) {
    spec_.file = file;
  }

  Result<PipelineSpec> read() {
    Fields top(document_, document_.root(), "");
    spec_.name = top.text("name").value_or(spec_.file.stem().string());
    spec_.records = static_cast<std::uint64_t>(top.integer("records", 1, kMostRecords).value_or(0));
    if (top.ok() && spec_.records == 0) top.wrong("records", "expected the number of records here");
    spec_.seed = static_cast<std::uint64_t>(
        top.integer("random_seed", 0, std::numeric_limits<std::int64_t>::max()).value_or(0));
    spec_.window =
        static_cast<std::uint64_t>(top.integer("window", 1, kMostRecords).value_or(10'000));
    spec_.fair = top.choice("order", {"finish-first", "fair"}).value_or(0) == 1;
    const Json* seed = top.object("seed");
    const Json* models = top.object("models");
    const Json* columns = top.array("columns");
    if (top.ok() && columns == nullptr) top.wrong("columns", "expected a list of columns here");
    if (const Status ok = top.finish(); !ok) return fail(ok.error());
    if (seed != nullptr) {
      if (const Status ok = read_seed(*seed); !ok) return fail(ok.error());
    }
    if (models != nullptr) {
      for (const auto& [alias, model] : models->items()) {
        if (const Status ok = read_model(alias, model); !ok) return fail(ok.error());
      }
    }
    if (columns->size() > kMostColumns) {
      return fail(ErrorKind::kInvalid, "{}{} columns, at most {} are possible",
                  document_.where("/columns"), columns->size(), kMostColumns);
    }
    for (std::size_t i = 0; i < columns->size(); ++i) {
      const Status ok = read_column((*columns)[i], pointer_to("/columns", i));
      if (!ok) return fail(ok.error());
    }
    if (drafts_.empty()) {
      return fail(ErrorKind::kInvalid, "{}there are no columns", document_.where("/columns"));
    }
    if (const Status ok = put_in_order(); !ok) return fail(ok.error());
    return std::move(spec_);
  }

 private:
  Status read_seed(const Json& section) {
    spec_.seed_data = section;
    const auto fields = seed_fields_(section, spec_.file.parent_path());
    if (!fields) {
      return fail(fields.error().kind, "{}{}", document_.where("/seed"), fields.error().message);
    }
    for (const std::string& field : *fields) {
      Draft draft;
      draft.spec.name = field;
      draft.spec.what = SeedColumn{field};
      draft.spec.recipe = field + section.dump();
      draft.pointer = "/seed";
      if (const Status ok = add(std::move(draft)); !ok) return ok;
    }
    return {};
  }

  static SamplingSpec read_sampling(Fields& fields) {
    SamplingSpec sampling;
    sampling.temperature = fields.real("temperature", 0.0, 100.0);
    sampling.top_p = fields.real("top_p", 1e-6, 1.0);
    sampling.min_p = fields.real("min_p", 0.0, 1.0);
    sampling.top_k = fields.integer("top_k", 0, 1'000'000);
    sampling.max_tokens = fields.integer("max_tokens", 1, 10'000'000);
    sampling.stop = fields.texts("stop").value_or(std::vector<std::string>{});
    return sampling;
  }

  SamplingSpec read_sampling(Fields& parent, std::string_view key) {
    const Json* value = parent.object(key);
    if (value == nullptr) return {};
    Fields fields(document_, *value, parent.at(key));
    SamplingSpec sampling = read_sampling(fields);
    if (const Status ok = fields.finish(); !ok) parent.wrong(ok.error());
    return sampling;
  }

  Status read_model(const std::string& alias, const Json& value) {
    Fields fields(document_, value, pointer_to("/models", alias));
    ModelSpec model;
    model.alias = alias;
    model.sampling = read_sampling(fields, "sampling");
    if (fields.has("path") == fields.has("endpoint")) {
      fields.wrong(
          "", "expected either path (a model in this process) or endpoint (one or several URLs)");
    }
    if (fields.has("path")) {
      LocalModel local;
      local.path = spec_.file.parent_path() / fields.required_text("path");
      local.engine = read_engine(fields);
      model.where = std::move(local);
    } else {
      model.where = read_remote(fields);
    }
    spec_.models.push_back(std::move(model));
    model_recipes_.push_back(value.dump());
    return fields.finish();
  }

  // Options of `dovetail run`, by their names there.
  EngineOptions read_engine(Fields& parent) {
    EngineOptions options;
    const Json* value = parent.object("engine");
    if (value == nullptr) return options;
    Fields fields(document_, *value, parent.at("engine"));
    const auto count = [&](std::string_view key, std::uint32_t& option, std::int64_t least) {
      if (const auto given = fields.integer(key, least, std::numeric_limits<std::int32_t>::max())) {
        option = static_cast<std::uint32_t>(*given);
      }
    };
    count("max-num-seqs", options.max_num_seqs, 1);
    count("max-num-batched-tokens", options.max_num_batched_tokens, 1);
    count("kv-blocks", options.kv_blocks, 1);
    count("max-model-len", options.max_context, 1);
    count("threads", options.threads, 1);
    count("speculative-tokens", options.speculative_tokens, 0);
    options.prefix_cache = fields.flag("prefix-cache").value_or(true);
    options.async_scheduling = fields.flag("async-scheduling").value_or(false);
    // A dataset has nobody who waits for the next token.
    options.target_inter_token_ms = 0;
    options.max_num_batched_tokens = std::max(options.max_num_batched_tokens, options.max_num_seqs);
    if (const Status ok = fields.finish(); !ok) parent.wrong(ok.error());
    return options;
  }

  static RemoteModel read_remote(Fields& fields) {
    RemoteModel remote;
    remote.base_urls = fields.texts("endpoint").value_or(std::vector<std::string>{});
    for (const std::string& url : remote.base_urls) {
      if (!url.starts_with("http://") && !url.starts_with("https://")) {
        fields.wrong("endpoint", "'{}' is no URL that begins with http:// or https://", url);
      }
    }
    remote.model = fields.required_text("model");
    remote.api_key_env = fields.text("api_key_env").value_or("");
    remote.max_parallel =
        static_cast<std::uint32_t>(fields.integer("max_parallel", 1, kMostParallel).value_or(16));
    remote.requests_per_minute = fields.real("requests_per_minute", 1e-3, 1e9);
    remote.tokens_per_minute = fields.real("tokens_per_minute", 1.0, 1e12);
    remote.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(
        1000.0 * fields.real("timeout", 0.001, 86'400.0).value_or(600.0)));
    remote.input_price = fields.real("input_price", 0.0, 1e6).value_or(0.0);
    remote.output_price = fields.real("output_price", 0.0, 1e6).value_or(0.0);
    return remote;
  }

  // Parses a template and notes what it reads.
  std::optional<text::ChatTemplate> read_template(Fields& fields, std::string_view key,
                                                  Draft& draft) {
    const auto source = fields.text(key);
    if (!source) return std::nullopt;
    auto parsed = text::ChatTemplate::parse(*source, key);
    if (!parsed) {
      fields.wrong(key, "{}", parsed.error().message);
      return std::nullopt;
    }
    for (std::string& name : parsed->free_names()) draft.reads.push_back(std::move(name));
    return *std::move(parsed);
  }

  std::optional<text::ChatTemplate> required_template(Fields& fields, std::string_view key,
                                                      Draft& draft) {
    auto parsed = read_template(fields, key, draft);
    if (!parsed && fields.ok()) fields.wrong(key, "expected a template here");
    return parsed;
  }

  std::string read_alias(Fields& fields) {
    const std::string alias = fields.required_text("model");
    std::vector<std::string> aliases;
    for (const ModelSpec& model : spec_.models) aliases.push_back(model.alias);
    if (fields.ok() && std::find(aliases.begin(), aliases.end(), alias) == aliases.end()) {
      fields.wrong("model", "there is no model '{}', expected one of: {}", alias,
                   fmt::join(aliases, ", "));
    }
    return alias;
  }

  // Nothing where the fields are wrong.
  std::optional<PromptSpec> read_prompt(Fields& fields, Draft& draft) {
    auto prompt = required_template(fields, "prompt", draft);
    auto system = read_template(fields, "system_prompt", draft);
    const bool chat = fields.flag("chat").value_or(true);
    if (!chat && system) fields.wrong("system_prompt", "a prompt without chat has none");
    if (!prompt) return std::nullopt;
    return PromptSpec{*std::move(prompt), std::move(system), chat};
  }

  Status read_column(const Json& value, const std::string& pointer) {
    Draft draft;
    draft.pointer = pointer;
    Fields fields(document_, value, pointer);
    ColumnSpec& column = draft.spec;
    column.name = fields.required_text("name");
    const std::vector<std::string> types = {"sampler", "expression", "llm-text", "llm-judge"};
    const auto type = fields.choice("type", types);
    if (!type && fields.ok()) fields.wrong("type", "expected one of {}", fmt::join(types, ", "));
    column.skip_if = read_template(fields, "skip_if", draft);
    column.drop = fields.flag("drop").value_or(false);
    column.priority =
        static_cast<std::int32_t>(fields.integer("priority", -1000, 1000).value_or(0));
    if (type == 0U) {
      SamplerColumn sampler;
      sampler.kind = fields.required_text("sampler");
      if (const Json* params = fields.object("params")) sampler.params = *params;
      column.what = std::move(sampler);
    } else if (type == 1U) {
      auto expression = required_template(fields, "value", draft);
      const auto as = fields.choice("as", {"text", "integer", "real", "flag", "json"});
      if (expression)
        column.what =
            ExpressionColumn{*std::move(expression), static_cast<ValueType>(as.value_or(0))};
    } else if (type) {
      column.retries = static_cast<std::uint32_t>(fields.integer("retries", 0, 100).value_or(2));
      column.on_failure = fields.choice("on_failure", {"drop", "null"}).value_or(0) == 0
                              ? FailurePolicy::kDropRecord
                              : FailurePolicy::kKeepNull;
      type == 2U ? read_text(fields, draft) : read_judge(fields, draft);
    }
    if (const Status ok = fields.finish(); !ok) return ok;
    column.recipe = value.dump();
    if (const std::string* alias = column.model()) {
      column.recipe += model_recipes_[spec_.model(*alias)];
    }
    return add(std::move(draft));
  }

  void read_text(Fields& fields, Draft& draft) {
    std::string model = read_alias(fields);
    auto prompt = read_prompt(fields, draft);
    SamplingSpec sampling = read_sampling(fields, "sampling");
    const bool strip = fields.flag("strip").value_or(true);
    if (prompt)
      draft.spec.what =
          TextColumn{std::move(model), *std::move(prompt), std::move(sampling), strip};
  }

  void read_judge(Fields& fields, Draft& draft) {
    std::string model = read_alias(fields);
    auto prompt = read_prompt(fields, draft);
    SamplingSpec sampling = read_sampling(fields, "sampling");
    const bool plain = fields.choice("answer", {"json", "option"}).value_or(0) == 1;
    std::vector<Rubric> rubrics;
    const Json* list = fields.array("rubrics");
    for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
      rubrics.push_back(read_rubric((*list)[i], pointer_to(fields.at("rubrics"), i), fields));
    }
    if (fields.ok() && rubrics.empty()) fields.wrong("rubrics", "expected a list of rubrics here");
    if (plain && rubrics.size() > 1) {
      fields.wrong("answer", "an answer that is an option has one rubric, not {}", rubrics.size());
    }
    if (prompt) {
      draft.spec.what = JudgeColumn{std::move(model), *std::move(prompt), std::move(sampling),
                                    std::move(rubrics), plain};
    }
  }

  Rubric read_rubric(const Json& value, const std::string& pointer, Fields& parent) {
    Fields fields(document_, value, pointer);
    Rubric rubric;
    rubric.name = fields.required_text("name");
    rubric.description = fields.text("description").value_or("");
    const Json* options = fields.any("options");
    if (options != nullptr && options->is_object()) {
      for (const auto& [score, description] : options->items()) {
        if (!description.is_string()) fields.wrong("options", "{} is no text", shown(description));
        // Keys of a mapping are texts; scores are numbers if they look like numbers.
        const auto number = Json::parse(score, nullptr, false);
        rubric.options.push_back({number.is_number() ? number : Json(score),
                                  description.is_string() ? description.get<std::string>() : ""});
      }
    } else if (options != nullptr && options->is_array()) {
      for (const Json& score : *options) rubric.options.push_back({score, ""});
    }
    if (fields.ok() && rubric.options.empty()) {
      fields.wrong("options", "expected a list of scores, or a mapping of scores to descriptions");
    }
    if (const Status ok = fields.finish(); !ok) parent.wrong(ok.error());
    return rubric;
  }

  Status add(Draft draft) {
    const std::string& name = draft.spec.name;
    const bool is_name = !name.empty() && name.size() <= 128 &&
                         std::all_of(name.begin(), name.end(),
                                     [](unsigned char letter) {
                                       return std::isalnum(letter) != 0 || letter == '_';
                                     }) &&
                         std::isdigit(static_cast<unsigned char>(name[0])) == 0;
    if (!is_name) {
      return fail(ErrorKind::kInvalid,
                  "{}'{}' is no name of a column: letters, digits and _, not a digit first",
                  document_.where(draft.pointer), name);
    }
    if (!by_name_.emplace(name, drafts_.size()).second) {
      return fail(ErrorKind::kInvalid, "{}there is a column '{}' already",
                  document_.where(draft.pointer), name);
    }
    drafts_.push_back(std::move(draft));
    return {};
  }

  // Each after what it needs, else in the order of the file (Kahn's algorithm on the smallest
  // index).
  Status put_in_order() {
    std::vector<std::vector<std::size_t>> needs(drafts_.size()), needed_by(drafts_.size());
    std::vector<std::size_t> missing(drafts_.size());
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      std::set<std::size_t> distinct;
      for (const std::string& name : drafts_[i].reads) {
        const auto found = by_name_.find(name);
        if (found == by_name_.end()) return unknown_name(drafts_[i], name);
        distinct.insert(found->second);
      }
      needs[i].assign(distinct.begin(), distinct.end());
      missing[i] = needs[i].size();
      for (const std::size_t need : needs[i]) needed_by[need].push_back(i);
    }
    std::set<std::size_t> free;
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      if (missing[i] == 0) free.insert(i);
    }
    std::vector<ColumnId> place(drafts_.size());
    std::vector<std::size_t> order;
    while (!free.empty()) {
      const std::size_t next = *free.begin();
      free.erase(free.begin());
      place[next] = static_cast<ColumnId>(order.size());
      order.push_back(next);
      for (const std::size_t other : needed_by[next]) {
        if (--missing[other] == 0) free.insert(other);
      }
    }
    if (order.size() < drafts_.size()) return cycle(needs, missing);
    for (const std::size_t i : order) {
      for (const std::size_t need : needs[i]) drafts_[i].spec.needs.push_back(place[need]);
      spec_.columns.push_back(std::move(drafts_[i].spec));
    }
    return {};
  }

  Status unknown_name(const Draft& draft, const std::string& name) {
    std::vector<std::string> names;
    for (const auto& [known, index] : by_name_) names.push_back(known);
    const std::vector<std::string> near = near_matches(name, names);
    return fail(ErrorKind::kInvalid, "{}a template reads '{}', which is no column{}",
                document_.where(draft.pointer), name,
                near.empty() ? fmt::format("; there are {}", fmt::join(names, ", "))
                             : fmt::format("; did you mean {}?", fmt::join(near, " or ")));
  }

  // Follows unmet needs until a column comes twice.
  Status cycle(const std::vector<std::vector<std::size_t>>& needs,
               const std::vector<std::size_t>& missing) {
    std::size_t at = 0;
    while (missing[at] == 0) ++at;
    std::vector<std::size_t> path;
    while (std::find(path.begin(), path.end(), at) == path.end()) {
      path.push_back(at);
      at = *std::find_if(needs[at].begin(), needs[at].end(),
                         [&](std::size_t need) { return missing[need] > 0; });
    }
    std::string text;
    for (auto step = std::find(path.begin(), path.end(), at); step != path.end(); ++step) {
      text += drafts_[*step].spec.name + " needs ";
    }
    return fail(ErrorKind::kInvalid, "{}columns need each other in a circle: {}{}",
                document_.where(drafts_[at].pointer), text, drafts_[at].spec.name);
  }

  const Document& document_;
  const SeedFields& seed_fields_;
  PipelineSpec spec_;
  std::vector<std::string> model_recipes_;  // of spec_.models
  std::vector<Draft> drafts_;
  std::map<std::string, std::size_t> by_name_;
};

}  // namespace

const std::string* ColumnSpec::model() const {
  if (const auto* text = std::get_if<TextColumn>(&what)) return &text->model;
  if (const auto* judge = std::get_if<JudgeColumn>(&what)) return &judge->model;
  return nullptr;
}

std::size_t PipelineSpec::model(const std::string& alias) const {
  const auto found = std::find_if(models.begin(), models.end(),
                                  [&](const ModelSpec& model) { return model.alias == alias; });
  return static_cast<std::size_t>(found - models.begin());
}

Result<PipelineSpec> parse_pipeline(std::string_view yaml, const std::filesystem::path& file,
                                    const SeedFields& seed_fields) {
  const auto document = Document::parse(yaml, file.string());
  if (!document) return fail(document.error());
  return Reader(*document, file, seed_fields).read();
}

}  // namespace dovetail::pipeline
