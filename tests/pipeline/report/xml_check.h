#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dovetail::pipeline {

// What is wrong with a page as XML: tags that do not match, attributes without quotes or given
// twice, entities that XML does not know, "<" in texts, characters that are not allowed, a second
// root, bytes that are no UTF-8. Absent: it is well-formed. Reads what a report uses of XML:
// elements, texts, a doctype; neither comments nor sections of CDATA.
std::optional<std::string> xml_fault(std::string_view page);

}  // namespace dovetail::pipeline
