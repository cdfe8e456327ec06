#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
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
  const std::set<const Json*>* left_out = nullptr;  // values of keywords; null: none

  SchemaRef child(std::string_view key) const;  // a member that is there
  SchemaRef child(std::size_t index) const;
  // Null unless an object with this member that is not left out.
  const Json* find(std::string_view key) const;
};

// Schemas of which all must hold, none of them true or false and each once. Their own keywords
// count; $ref, allOf, anyOf and oneOf have been followed.
using Bundle = std::vector<SchemaRef>;

// The bundles' schemas sorted, to find bundles that are the same.
std::vector<const Json*> key_of(const Bundle& bundle);

// A "oneOf" with branches that are schemas, and what holds beside each of them.
struct OneOf {
  SchemaRef branches;
  std::vector<SchemaRef> beside;
};

class SchemaReader {
 public:
  // `where` names the document's root. `lenient`: keywords that cannot be kept are left out.
  SchemaReader(const Json& document, std::string where, bool lenient, Work& work)
      : document_(document), where_(std::move(where)), lenient_(lenient), work_(work) {}
  SchemaReader(const SchemaReader&) = delete;
  SchemaReader& operator=(const SchemaReader&) = delete;

  SchemaRef root() const { return {&document_, where_, &left_out_values_}; }
  // What a JSON pointer leads to; nothing if it leads nowhere.
  std::optional<SchemaRef> follow(std::string_view pointer) const;

  // Alternatives that together are what all of `schemas` allow; none if one of them is false.
  // Errors: keywords that are not supported or that have the wrong type, by pointer; references
  // that lead nowhere or to themselves; too many combinations.
  Result<std::vector<Bundle>> flatten(const std::vector<SchemaRef>& schemas);

  // The oneOf keywords met by flatten(), each once. Their branches are treated as alternatives,
  // which is right only where no two can hold at once.
  const std::vector<OneOf>& one_ofs() const { return one_ofs_; }

  // What to do about a keyword that cannot be kept, which its pointer names: it is left out, or
  // `error` is returned where that is not wanted (or comes of the bounds).
  Status leave_out(const std::string& where, const Error& error);
  // The pointers of all keywords left out.
  const std::set<std::string>& left_out() const { return left_out_; }

 private:
  Status check(const SchemaRef& schema);
  // What the "discriminator" beside alternatives asks of each, where all have the property.
  std::vector<SchemaRef> tag(const SchemaRef& schema, const std::vector<Bundle>& bundles);
  Result<std::vector<Bundle>> flatten_one(const SchemaRef& schema, std::vector<const Json*>& path);
  Result<SchemaRef> resolve(const SchemaRef& schema, const Json& reference) const;

  const Json& document_;
  std::string where_;
  bool lenient_;
  Work& work_;
  std::vector<OneOf> one_ofs_;
  std::set<const Json*> checked_;
  std::set<const Json*> left_out_values_;
  std::set<std::string> left_out_;
  std::map<const Json*, Json> tags_;  // schemas, by discriminator
};

}  // namespace dovetail::grammar
