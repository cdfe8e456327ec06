#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "pipeline/report/report_data.h"

namespace dovetail::pipeline {

// A report as one file that needs nothing else: style and drawings are inside, there is no script,
// and a policy in its head forbids it to load anything. It is well-formed XHTML (that HTML parsers
// read, too); whatever came from data or models is escaped.
std::string html_report(const ReportData& data);

// Writes it beside its place and renames, so that no half report is ever there. Errors name the
// file.
Status write_html_report(const ReportData& data, const std::filesystem::path& file);

}  // namespace dovetail::pipeline
