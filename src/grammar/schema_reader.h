#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "grammar/work.h"

namespace dovetail::grammar {

// A schema within the document, and where it stands (a JSON pointer that begins with #, or with the
// place of the document where there are several).
struct SchemaRef {
  const Json* at = nullptr;
  std::string where;

  SchemaRef child(std::string_view key) const;  // a member that is there
  SchemaRef child(std::size_t index) const;
  const Json* find(std::string_view key) const;  // null unless an object with this member
};

// Schemas of which all must hold, none of them true or false and each once. Their own keywords
// count; $ref, allOf, anyOf and oneOf have been followed.
using Bundle = std::vector<SchemaRef>;

// The bundles' schemas sorted, to find bundles that are the same.
std::vector<const Json*> key_of(const Bundle& bundle);

class SchemaReader {
 public:
  // `where` names the document's root.
  SchemaReader(const Json& document, std::string where, Work& work)
      : document_(document), where_(std::move(where)), work_(work) {}

  SchemaRef root() const { return {&document_, where_}; }
  // What a JSON pointer leads to; nothing if it leads nowhere.
  std::optional<SchemaRef> follow(std::string_view pointer) const;

  // Alternatives that together are what all of `schemas` allow; none if one of them is false.
  // Errors: keywords that are not supported or that have the wrong type, by pointer; references
  // that lead nowhere or to themselves; too many combinations.
  Result<std::vector<Bundle>> flatten(const std::vector<SchemaRef>& schemas);

  // The oneOf keywords met by flatten(), each once. Their branches are treated as alternatives,
  // which is right only where no two can hold at once.
  const std::vector<SchemaRef>& one_ofs() const { return one_ofs_; }

 private:
  Result<std::vector<Bundle>> flatten_one(const SchemaRef& schema, std::vector<const Json*>& path);
  Result<SchemaRef> resolve(const SchemaRef& schema, const Json& reference) const;

  const Json& document_;
  std::string where_;
  Work& work_;
  std::vector<SchemaRef> one_ofs_;
  std::map<const Json*, bool> checked_;
};

}  // namespace dovetail::grammar
