#include "pipeline/config/figures_section.h"

#include <utility>

namespace dovetail::pipeline {

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

}  // namespace dovetail::pipeline
