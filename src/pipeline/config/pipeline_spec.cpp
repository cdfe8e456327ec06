#include "pipeline/config/pipeline_spec.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "pipeline/config/column_draft.h"
#include "pipeline/config/columns_section.h"
#include "pipeline/config/models_section.h"
#include "pipeline/config/samplers_section.h"
#include "pipeline/sample/fields.h"

namespace dovetail::pipeline {
namespace {

// The field `limits` of the file; what is absent is the default.
LimitsSpec read_limits(const Document& document, Fields& top) {
  LimitsSpec limits;
  const Json* section = top.object("limits");
  if (section == nullptr) return limits;
  Fields fields(document, *section, top.at("limits"));
  limits.cost = fields.number("cost", {0.0, 1e9});
  if (const Json* errors = fields.object("errors")) {
    Fields inner(document, *errors, fields.at("errors"));
    limits.error_share = inner.number("share", {0.0, 1.0}).value_or(limits.error_share);
    limits.error_window = static_cast<std::uint32_t>(
        inner.integer("window", 1, 1'000'000).value_or(limits.error_window));
    fields.take(inner.finish());
  }
  if (const auto stall = fields.number("stall", {0.001, 1e7})) {
    limits.stall = std::chrono::milliseconds(static_cast<std::int64_t>(1000.0 * *stall));
  }
  top.take(fields.finish());
  return limits;
}

// The field `figures` of the file. `reads`: what the templates read.
std::vector<FigureSpec> read_figures(const Document& document, Fields& top,
                                     std::vector<ColumnRead>& reads) {
  std::vector<FigureSpec> figures;
  const Json* section = top.array("figures");
  if (section == nullptr) return figures;
  for (std::size_t i = 0; i < section->size(); ++i) {
    Fields fields(document, (*section)[i], pointer_to(top.at("figures"), i));
    std::string name = fields.required_text("name");
    std::string about = fields.text("about").value_or("");
    auto share_of = required_template(fields, "share_of", reads);
    auto among = read_template(fields, "among", reads);
    if (const Status ok = fields.finish(); !ok) {
      top.take(ok);
      continue;
    }
    figures.push_back({std::move(name), std::move(about), *std::move(share_of), std::move(among)});
  }
  return figures;
}

constexpr std::int64_t kMostRecords = 1'000'000'000;

// Of the folder of a run without another: longer ones are no names of files.
constexpr std::size_t kLongestName = 200;

bool is_file_name(std::string_view name) {
  const auto is_good = [](unsigned char letter) {
    return letter >= 0x20 && letter != 0x7f && letter != '/';
  };
  return !name.empty() && name.size() <= kLongestName && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), is_good);
}

class Reader {
 public:
  Reader(const Document& document, const std::filesystem::path& file, const SeedFields& seed_fields,
         std::span<const ColumnType> types)
      : document_(document), seed_fields_(seed_fields), types_(types), folder_(file.parent_path()) {
    spec_.file = file;
  }

  // All that is wrong, as far as one mistake does not follow from another: columns are looked for
  // when all names are known, circles and what samplers ask of each other when the rest is right.
  Result<PipelineSpec> read() {
    read_top();
    read_seed();
    read_sections();
    if (names_are_known_) check_all_reads();
    auto constraints = names_are_known_
                           ? read_constraints(document_, constraints_, drafts_, mistakes_)
                           : std::vector<Constraint>();
    if (mistakes_.empty()) {
      mistakes_.add(put_in_order(std::move(constraints)));
    }
    if (const Status ok = mistakes_.status(); !ok) return fail(ok.error());
    return std::move(spec_);
  }

 private:
  void read_top() {
    Fields top(document_, document_.root(), "");
    spec_.name = top.text("name").value_or(spec_.file.stem().string());
    if (top.has("name") && top.ok() && !is_file_name(spec_.name)) {
      top.wrong("name",
                "{} is no name of a file, which the run's folder has: up to {} bytes, no / and no "
                "control characters, not a . first (the folder may be elsewhere: --output)",
                shown(Json(spec_.name)), kLongestName);
    }
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
      if (!top.has("records") && !top.has("target_accepted")) {
        top.wrong("records", "expected the number of records here");
      }
    }
    if (!top.has("columns")) top.wrong("columns", "expected a list of columns here");
    mistakes_.add(top.finish());
  }

  void read_target(const Json& section, Fields& top) {
    Fields fields(document_, section, top.at("target_accepted"));
    const auto count = fields.integer("count", 1, kMostRecords);
    auto when = required_template(fields, "when", target_reads_);
    const auto candidates = fields.integer("candidates", 1, kMostRecords);
    if (!fields.has("count")) {
      fields.wrong("count", "expected the number of accepted records here");
    }
    if (!fields.has("candidates")) {
      fields.wrong("candidates", "expected the most records that are tried here");
    }
    if (count && candidates && *candidates < *count) {
      fields.wrong("candidates", "{} are fewer than count, {}", *candidates, *count);
    }
    if (const Status ok = fields.finish(); !ok) return top.take(ok);
    spec_.target = TargetSpec{static_cast<std::uint64_t>(*count), *std::move(when), {}};
    spec_.records = static_cast<std::uint64_t>(*candidates);
  }

  void read_seed() {
    if (seed_ == nullptr) return;
    const auto is_wrong = [this](const auto& mistake) {
      mistakes_.add(mistake);
      names_are_known_ = false;
    };
    auto seed = parse_seed(*seed_, "/seed");
    if (!seed) {
      return is_wrong(document_.all_placed(seed.error().message));
    }
    const auto fields = seed_fields_(*seed, folder_);
    if (!fields) {
      return is_wrong(
          Error{fields.error().kind, document_.where("/seed") + fields.error().message});
    }
    for (const std::string& field : *fields) {
      ColumnDraft draft;
      draft.spec.name = field;
      draft.spec.what = SeedColumn{field};
      draft.spec.recipe = field + seed_->dump();
      draft.pointer = "/seed";
      if (const Status ok = add_column(document_, std::move(draft), drafts_); !ok) {
        is_wrong(ok.error());
      }
    }
    spec_.seed_data = *std::move(seed);
  }

  void read_sections() {
    ModelsSection models;
    if (models_ != nullptr) models = read_models(document_, *models_, folder_, mistakes_);
    // Those of seed data that cannot be read are not known.
    if (columns_ != nullptr && columns_->empty() && drafts_.empty() && names_are_known_) {
      mistakes_.add(
          Error{ErrorKind::kInvalid, document_.where("/columns") + "there are no columns"});
    }
    const bool are_read = columns_ != nullptr && read_columns({document_, folder_, models, types_},
                                                              *columns_, drafts_, mistakes_);
    if (!are_read) names_are_known_ = false;
    spec_.models = std::move(models.models);
    check_cost();
  }

  // A limit that nothing counts towards would not be one.
  void check_cost() {
    const auto has_price = [](const ModelSpec& model) {
      const auto* remote = std::get_if<RemoteModel>(&model.where);
      return remote != nullptr && (remote->input_price > 0.0 || remote->output_price > 0.0);
    };
    if (!spec_.limits.cost || std::any_of(spec_.models.begin(), spec_.models.end(), has_price))
      return;
    mistakes_.add(
        Error{ErrorKind::kInvalid,
              document_.where("/limits/cost") + "no model has a price: input_price, output_price"});
  }

  void check_all_reads() {
    for (const ColumnDraft& draft : drafts_) {
      check_reads(document_, draft.reads, drafts_, mistakes_);
    }
    check_reads(document_, target_reads_, drafts_, mistakes_);
    check_reads(document_, figure_reads_, drafts_, mistakes_);
  }

  Status put_in_order(std::vector<Constraint> constraints) {
    // A circle is reported as the file has it before constraints add needs of their own.
    if (const auto order = order_of(document_, drafts_); !order) return fail(order.error());
    auto samplers = link_samplers(document_, std::move(constraints), spec_.seed, drafts_);
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
  Mistakes mistakes_;
  bool names_are_known_ = true;  // of all columns
  std::vector<ColumnDraft> drafts_;
  std::vector<ColumnRead> target_reads_, figure_reads_;
};

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
  if (!document) {
    Mistakes one;
    one.add(document.error());
    return fail(one.status().error());
  }
  return Reader(*document, file, seed_fields, types).read();
}

}  // namespace dovetail::pipeline
