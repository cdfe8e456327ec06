#include "pipeline/config/pipeline_spec.h"

#include <algorithm>
#include <limits>

#include "pipeline/config/column_order.h"
#include "pipeline/config/columns_section.h"
#include "pipeline/config/fields.h"
#include "pipeline/config/figures_section.h"
#include "pipeline/config/limits_section.h"
#include "pipeline/config/models_section.h"
#include "pipeline/config/samplers_section.h"

namespace dovetail::pipeline {
namespace {

constexpr std::int64_t kMostRecords = 1'000'000'000;

class Reader {
 public:
  Reader(const Document& document, const std::filesystem::path& file, const SeedFields& seed_fields,
         std::span<const ColumnType> types)
      : document_(document), seed_fields_(seed_fields), types_(types), folder_(file.parent_path()) {
    spec_.file = file;
  }

  Result<PipelineSpec> read() {
    const Status ok = read_top()
                          .and_then([this] { return read_seed(); })
                          .and_then([this] { return read_sections(); })
                          .and_then([this] { return put_in_order(); });
    if (!ok) return fail(ok.error());
    return std::move(spec_);
  }

 private:
  Status read_top() {
    Fields top(document_, document_.root(), "");
    spec_.name = top.text("name").value_or(spec_.file.stem().string());
    const auto records = top.integer("records", 1, kMostRecords);
    spec_.seed = static_cast<std::uint64_t>(
        top.integer("random_seed", 0, std::numeric_limits<std::int64_t>::max()).value_or(0));
    spec_.window =
        static_cast<std::uint64_t>(top.integer("window", 1, kMostRecords).value_or(10'000));
    spec_.fair = top.choice("order", {"finish-first", "fair"}).value_or(0) == 1;
    seed_ = top.object("seed");
    models_ = top.object("models");
    columns_ = top.array("columns");
    constraints_ = top.array("constraints");
    spec_.limits = read_limits(document_, top);
    spec_.figures = read_figures(document_, top, figure_reads_);
    const Json* target = top.object("target_accepted");
    if (target != nullptr) {
      read_target(*target, top);
      if (records) top.wrong("records", "target_accepted says how many: candidates");
    } else {
      spec_.records = static_cast<std::uint64_t>(records.value_or(0));
      if (top.ok() && !records) top.wrong("records", "expected the number of records here");
    }
    if (top.ok() && columns_ == nullptr) top.wrong("columns", "expected a list of columns here");
    return top.finish();
  }

  void read_target(const Json& section, Fields& top) {
    Fields fields(document_, section, top.at("target_accepted"));
    const auto count = fields.integer("count", 1, kMostRecords);
    auto when = required_template(fields, "when", target_reads_);
    const auto candidates = fields.integer("candidates", 1, kMostRecords);
    if (fields.ok() && !count)
      fields.wrong("count", "expected the number of accepted records here");
    if (fields.ok() && !candidates) {
      fields.wrong("candidates", "expected the most records that are tried here");
    }
    if (fields.ok() && *candidates < *count) {
      fields.wrong("candidates", "{} are fewer than count, {}", *candidates, *count);
    }
    if (const Status ok = fields.finish(); !ok) return top.wrong(ok.error());
    spec_.target = TargetSpec{static_cast<std::uint64_t>(*count), *std::move(when), {}};
    spec_.records = static_cast<std::uint64_t>(*candidates);
  }

  Status read_seed() {
    if (seed_ == nullptr) return {};
    auto seed = parse_seed(*seed_, "/seed");
    if (!seed) return fail(ErrorKind::kInvalid, "{}", document_.placed(seed.error().message));
    const auto fields = seed_fields_(*seed, folder_);
    if (!fields) {
      return fail(fields.error().kind, "{}{}", document_.where("/seed"), fields.error().message);
    }
    for (const std::string& field : *fields) {
      ColumnDraft draft;
      draft.spec.name = field;
      draft.spec.what = SeedColumn{field};
      draft.spec.recipe = field + seed_->dump();
      draft.pointer = "/seed";
      if (const Status ok = add_column(document_, std::move(draft), drafts_); !ok) return ok;
    }
    spec_.seed_data = *std::move(seed);
    return {};
  }

  Status read_sections() {
    ModelsSection models;
    if (models_ != nullptr) {
      auto read = read_models(document_, *models_, folder_);
      if (!read) return fail(read.error());
      models = *std::move(read);
    }
    const Status ok = read_columns({document_, folder_, models, types_}, *columns_, drafts_);
    spec_.models = std::move(models.models);
    if (!ok) return ok;
    return check_cost();
  }

  // A limit that nothing counts towards would not be one.
  Status check_cost() const {
    const auto has_price = [](const ModelSpec& model) {
      const auto* remote = std::get_if<RemoteModel>(&model.where);
      return remote != nullptr && (remote->input_price > 0.0 || remote->output_price > 0.0);
    };
    if (!spec_.limits.cost || std::any_of(spec_.models.begin(), spec_.models.end(), has_price))
      return {};
    return fail(ErrorKind::kInvalid, "{}no model has a price: input_price, output_price",
                document_.where("/limits/cost"));
  }

  Status put_in_order() {
    for (const ColumnDraft& draft : drafts_) {
      if (const Status ok = check_reads(document_, draft.reads, drafts_); !ok) return ok;
    }
    if (const Status ok = check_reads(document_, target_reads_, drafts_); !ok) return ok;
    if (const Status ok = check_reads(document_, figure_reads_, drafts_); !ok) return ok;
    auto constraints = read_constraints(document_, constraints_, drafts_);
    if (!constraints) return fail(constraints.error());
    // A circle is reported as the file has it before constraints add needs of their own.
    if (const auto order = order_of(document_, drafts_); !order) return fail(order.error());
    auto samplers = link_samplers(document_, *std::move(constraints), spec_.seed, drafts_);
    if (!samplers) return fail(samplers.error());
    if (*samplers) spec_.samplers = std::make_shared<const SamplerSet>(**std::move(samplers));
    const auto order = order_of(document_, drafts_);
    if (!order) return fail(order.error());
    for (const std::size_t i : *order) {
      drafts_[i].spec.needs = ids_of(drafts_[i].reads);
      spec_.columns.push_back(std::move(drafts_[i].spec));
    }
    if (spec_.target) spec_.target->needs = ids_of(target_reads_);
    return {};
  }

  // Of columns that have their place already; sorted, each once.
  std::vector<ColumnId> ids_of(const std::vector<ColumnRead>& reads) const {
    std::vector<ColumnId> ids;
    for (const ColumnRead& read : reads) {
      const auto found =
          std::find_if(spec_.columns.begin(), spec_.columns.end(),
                       [&](const ColumnDescription& column) { return column.name == read.name; });
      ids.push_back(static_cast<ColumnId>(found - spec_.columns.begin()));
    }
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
  }

  const Document& document_;
  const SeedFields& seed_fields_;
  std::span<const ColumnType> types_;
  std::filesystem::path folder_;
  const Json* seed_ = nullptr;
  const Json* models_ = nullptr;
  const Json* columns_ = nullptr;
  const Json* constraints_ = nullptr;
  PipelineSpec spec_;
  std::vector<ColumnDraft> drafts_;
  std::vector<ColumnRead> target_reads_, figure_reads_;
};

// What stands in the file may stand in a message, line ends and all.
Error on_one_line(const Error& error) {
  Error result{error.kind, ""};
  for (const char letter : error.message) {
    if (static_cast<unsigned char>(letter) < 0x20) {
      result.message += fmt::format("\\x{:02x}", static_cast<unsigned char>(letter));
    } else {
      result.message += letter;
    }
  }
  return result;
}

}  // namespace

std::size_t PipelineSpec::model(const std::string& alias) const {
  const auto found = std::find_if(models.begin(), models.end(),
                                  [&](const ModelSpec& model) { return model.alias == alias; });
  return static_cast<std::size_t>(found - models.begin());
}

Result<PipelineSpec> parse_pipeline(std::string_view yaml, const std::filesystem::path& file,
                                    const SeedFields& seed_fields,
                                    std::span<const ColumnType> types) {
  const auto document = Document::parse(yaml, file.string());
  if (!document) return fail(on_one_line(document.error()));
  auto spec = Reader(*document, file, seed_fields, types).read();
  if (!spec) return fail(on_one_line(spec.error()));
  return spec;
}

}  // namespace dovetail::pipeline
