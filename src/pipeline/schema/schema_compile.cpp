#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "base/near_match.h"
#include "pipeline/sample/fields.h"
#include "pipeline/sample/mistakes.h"
#include "pipeline/schema/json_schema.h"
#include "pipeline/schema/schema_program.h"

namespace dovetail::pipeline {
namespace {

constexpr std::size_t kMostNodes = 100'000;
constexpr std::size_t kMostMistakes = 100;  // that are told; one schema may add some
// Schemas that one value is checked against by way of each other.
constexpr std::size_t kDeepestChain = 100;

constexpr std::array kReadOver = {"title",    "description", "default",  "examples", "deprecated",
                                  "readOnly", "writeOnly",   "$comment", "$schema"};
constexpr std::array kUnsupported = {
    "unevaluatedProperties", "unevaluatedItems", "additionalItems",
    "dependencies",          "$anchor",          "$dynamicAnchor",
    "$dynamicRef",           "$recursiveRef",    "$recursiveAnchor",
    "$vocabulary",           "contentEncoding",  "contentMediaType",
    "contentSchema",         "nullable"};

// "#/$defs/a%20b" as a JSON pointer; nothing where the escapes are wrong.
std::optional<std::string> unescaped(std::string_view fragment) {
  std::string text;
  for (std::size_t i = 0; i < fragment.size(); ++i) {
    if (fragment[i] != '%') {
      text += fragment[i];
      continue;
    }
    unsigned byte = 0;
    const char* first = fragment.data() + i + 1;
    if (i + 3 > fragment.size()) return std::nullopt;
    const auto [end, error] = std::from_chars(first, first + 2, byte, 16);
    if (error != std::errc() || end != first + 2) return std::nullopt;
    text += static_cast<char>(byte);
    i += 2;
  }
  return text;
}

class SchemaCompiler {
 public:
  SchemaCompiler(const Json& schema, std::string_view pointer)
      : base_(pointer), program_(std::make_shared<SchemaProgram>()) {
    program_->source = schema;
  }

  Result<std::shared_ptr<const SchemaProgram>> compile() {
    node_of(program_->source, base_);
    // Schemas are put in line as they are found, so that neither depth nor references recurse.
    for (NodeId id = 0; id < waiting_.size() && mistakes_.size() < kMostMistakes; ++id) {
      if (id >= kMostNodes) {
        wrong(base_, "more than {} schemas within one", kMostNodes);
        break;
      }
      read(id);
    }
    if (mistakes_.empty()) check_chains();
    if (mistakes_.empty()) {
      for (NodeId id = 0; id < program_->nodes.size() && mistakes_.size() < kMostMistakes; ++id) {
        check_possible(id);
      }
    }
    if (mistakes_.size() >= kMostMistakes) wrong(base_, "there may be more mistakes");
    if (const Status ok = mistakes_.status(); !ok) return fail(ok.error());
    return std::shared_ptr<const SchemaProgram>(program_);
  }

 private:
  template <class... Args>
  void wrong(const std::string& pointer, fmt::format_string<Args...> format, Args&&... args) {
    note(ErrorKind::kInvalid, pointer, fmt::format(format, std::forward<Args>(args)...));
  }
  void note(ErrorKind kind, const std::string& pointer, const std::string& message) {
    mistakes_.add(Error{kind, pointer.empty() ? message : pointer + ": " + message});
  }

  NodeId node_of(const Json& schema, const std::string& pointer) {
    const auto [found, is_new] = known_.emplace(&schema, program_->nodes.size());
    if (is_new) {
      program_->nodes.emplace_back().pointer = pointer;
      waiting_.push_back(&schema);
    }
    return found->second;
  }

  // Readers of the value of one keyword.
  std::optional<std::uint64_t> count(const Json& value, const std::string& pointer) {
    if (value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0))
      return value.get<std::uint64_t>();
    wrong(pointer, "{} is no whole number, 0 or more", shown(value));
    return std::nullopt;
  }
  std::optional<Json> number(const Json& value, const std::string& pointer) {
    if (value.is_number()) return value;
    wrong(pointer, "{} is no number", shown(value));
    return std::nullopt;
  }
  std::optional<Regex> regex(const std::string& text, const std::string& pointer) {
    auto compiled = Regex::compile(text);
    if (compiled) return *std::move(compiled);
    wrong(pointer, "{}", compiled.error().message);
    return std::nullopt;
  }
  NodeId schema(const Json& value, const std::string& pointer) { return node_of(value, pointer); }
  std::vector<NodeId> schemas(const Json& value, const std::string& pointer) {
    std::vector<NodeId> ids;
    if (!value.is_array() || value.empty()) {
      wrong(pointer, "expected a list of schemas, at least one");
      return ids;
    }
    for (std::size_t i = 0; i < value.size(); ++i) {
      ids.push_back(node_of(value[i], pointer_to(pointer, i)));
    }
    return ids;
  }
  std::vector<std::pair<std::string, NodeId>> schema_map(const Json& value,
                                                         const std::string& pointer) {
    std::vector<std::pair<std::string, NodeId>> ids;
    if (!value.is_object()) {
      wrong(pointer, "{} is no mapping of names to schemas", shown(value));
      return ids;
    }
    for (const auto& [name, one] : value.items()) {
      ids.emplace_back(name, node_of(one, pointer_to(pointer, name)));
    }
    return ids;
  }
  std::vector<std::string> names(const Json& value, const std::string& pointer) {
    std::vector<std::string> result;
    const bool fits = value.is_array() && std::all_of(value.begin(), value.end(),
                                                      [](auto& name) { return name.is_string(); });
    if (!fits) {
      wrong(pointer, "{} is no list of names", shown(value));
      return result;
    }
    for (const Json& name : value) result.push_back(name.get<std::string>());
    return result;
  }

  std::optional<std::uint8_t> types(const Json& value, const std::string& pointer) {
    const Json& names = value.is_array() ? value : Json::array({value});
    if (names.empty()) wrong(pointer, "no type at all");
    std::uint8_t bits = 0;
    for (const Json& name : names) {
      const std::uint8_t bit = name.is_string() ? type_bit(name.get<std::string>()) : 0;
      if (bit == 0) {
        wrong(pointer,
              "{} is no type; there are null, boolean, integer, number, string, array and object",
              shown(name));
      }
      bits |= bit;
    }
    return bits;
  }

  std::optional<NodeId> reference(const Json& value, const std::string& pointer) {
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    const bool local = text == "#" || text.starts_with("#/");
    const auto path = local ? unescaped(std::string_view(text).substr(1)) : std::nullopt;
    if (!path) {
      note(ErrorKind::kUnsupported, pointer,
           fmt::format("{} is no reference within this schema, such as \"#/$defs/name\"",
                       shown(value)));
      return std::nullopt;
    }
    const Json* target = find(*path);
    if (target == nullptr) {
      wrong(pointer, "there is nothing at {}", shown(value));
      return std::nullopt;
    }
    return node_of(*target, base_ + *path);
  }

  const Json* find(const std::string& path) const {
    try {
      const Json::json_pointer pointer(path);
      return program_->source.contains(pointer) ? &program_->source.at(pointer) : nullptr;
    } catch (const Json::exception&) {
      return nullptr;
    }
  }

  void read(NodeId id) {
    const Json& schema = *waiting_[id];
    SchemaNode node;
    node.pointer = program_->nodes[id].pointer;
    if (schema.is_boolean()) {
      node.fixed = schema.get<bool>();
    } else if (!schema.is_object()) {
      wrong(node.pointer, "{} is no schema: expected a mapping, true or false", shown(schema));
    } else {
      for (const auto& [keyword, value] : schema.items()) {
        read(node, keyword, value, pointer_to(node.pointer, keyword), id);
      }
    }
    program_->nodes[id] = std::move(node);
  }

  using Reader = void (*)(SchemaCompiler&, SchemaNode&, const Json&, const std::string&);

  static const std::map<std::string_view, Reader>& readers() {
    using C = SchemaCompiler;
    using N = SchemaNode;
    using S = const std::string&;
    static const std::map<std::string_view, Reader> all = {
        {"type", [](C& c, N& n, const Json& v, S p) { n.types = c.types(v, p); }},
        {"enum", [](C& c, N& n, const Json& v, S p) { c.read_enum(n, v, p); }},
        {"const", [](C& c, N& n, const Json& v, S p) { c.add_values(n, {v}, p); }},
        {"minimum", [](C& c, N& n, const Json& v, S p) { n.minimum = c.number(v, p); }},
        {"maximum", [](C& c, N& n, const Json& v, S p) { n.maximum = c.number(v, p); }},
        {"exclusiveMinimum",
         [](C& c, N& n, const Json& v, S p) { n.exclusive_minimum = c.number(v, p); }},
        {"exclusiveMaximum",
         [](C& c, N& n, const Json& v, S p) { n.exclusive_maximum = c.number(v, p); }},
        {"multipleOf",
         [](C& c, N& n, const Json& v, S p) {
           n.multiple_of = c.number(v, p);
           if (n.multiple_of && number_of(*n.multiple_of) <= 0) c.wrong(p, "{} is not above 0", v.dump());
         }},
        {"minLength", [](C& c, N& n, const Json& v, S p) { n.min_length = c.count(v, p); }},
        {"maxLength", [](C& c, N& n, const Json& v, S p) { n.max_length = c.count(v, p); }},
        {"pattern", [](C& c, N& n, const Json& v, S p) { c.read_pattern(n, v, p); }},
        {"format", [](C& c, N& n, const Json& v, S p) { c.read_format(n, v, p); }},
        {"minItems", [](C& c, N& n, const Json& v, S p) { n.min_items = c.count(v, p); }},
        {"maxItems", [](C& c, N& n, const Json& v, S p) { n.max_items = c.count(v, p); }},
        {"uniqueItems",
         [](C& c, N& n, const Json& v, S p) {
           if (!v.is_boolean()) c.wrong(p, "{} is neither true nor false", shown(v));
           n.unique_items = v == Json(true);
         }},
        {"items",
         [](C& c, N& n, const Json& v, S p) {
           if (v.is_array()) return c.wrong(p, "a list of schemas is spelled prefixItems");
           n.items = c.schema(v, p);
         }},
        {"prefixItems", [](C& c, N& n, const Json& v, S p) { n.prefix_items = c.schemas(v, p); }},
        {"contains", [](C& c, N& n, const Json& v, S p) { n.contains = c.schema(v, p); }},
        {"minContains", [](C& c, N& n, const Json& v, S p) { n.min_contains = c.count(v, p); }},
        {"maxContains", [](C& c, N& n, const Json& v, S p) { n.max_contains = c.count(v, p); }},
        {"properties",
         [](C& c, N& n, const Json& v, S p) {
           n.properties = c.schema_map(v, p);
           n.property.insert(n.properties.begin(), n.properties.end());
         }},
        {"patternProperties",
         [](C& c, N& n, const Json& v, S p) {
           for (const auto& [name, id] : c.schema_map(v, p)) {
             auto regex = c.regex(name, pointer_to(p, name));
             if (regex) n.pattern_properties.emplace_back(*std::move(regex), id);
           }
         }},
        {"additionalProperties",
         [](C& c, N& n, const Json& v, S p) { n.additional_properties = c.schema(v, p); }},
        {"propertyNames",
         [](C& c, N& n, const Json& v, S p) { n.property_names = c.schema(v, p); }},
        {"required", [](C& c, N& n, const Json& v, S p) { n.required = c.names(v, p); }},
        {"minProperties", [](C& c, N& n, const Json& v, S p) { n.min_properties = c.count(v, p); }},
        {"maxProperties", [](C& c, N& n, const Json& v, S p) { n.max_properties = c.count(v, p); }},
        {"dependentRequired",
         [](C& c, N& n, const Json& v, S p) {
           if (!v.is_object()) return c.wrong(p, "{} is no mapping", shown(v));
           for (const auto& [name, needed] : v.items()) {
             n.dependent_required.emplace_back(name, c.names(needed, pointer_to(p, name)));
           }
         }},
        {"dependentSchemas",
         [](C& c, N& n, const Json& v, S p) { n.dependent_schemas = c.schema_map(v, p); }},
        {"allOf", [](C& c, N& n, const Json& v, S p) { n.all_of = c.schemas(v, p); }},
        {"anyOf", [](C& c, N& n, const Json& v, S p) { n.any_of = c.schemas(v, p); }},
        {"oneOf", [](C& c, N& n, const Json& v, S p) { n.one_of = c.schemas(v, p); }},
        {"not", [](C& c, N& n, const Json& v, S p) { n.negated = c.schema(v, p); }},
        {"if", [](C& c, N& n, const Json& v, S p) { n.condition = c.schema(v, p); }},
        {"then", [](C& c, N& n, const Json& v, S p) { n.consequence = c.schema(v, p); }},
        {"else", [](C& c, N& n, const Json& v, S p) { n.alternative = c.schema(v, p); }},
        {"$ref", [](C& c, N& n, const Json& v, S p) { n.ref = c.reference(v, p); }},
        // Their schemas are read even where nothing refers to them: a slip there is one, too.
        {"$defs", [](C& c, N&, const Json& v, S p) { c.schema_map(v, p); }},
        {"definitions", [](C& c, N&, const Json& v, S p) { c.schema_map(v, p); }},
    };
    return all;
  }

  void read(SchemaNode& node, const std::string& keyword, const Json& value,
            const std::string& pointer, NodeId id) {
    if (std::find(kReadOver.begin(), kReadOver.end(), keyword) != kReadOver.end()) return;
    if (keyword == "$id" && id == 0) return;
    const auto found = readers().find(keyword);
    if (found != readers().end()) return found->second(*this, node, value, pointer);
    if (keyword == "$id" ||
        std::find(kUnsupported.begin(), kUnsupported.end(), keyword) != kUnsupported.end()) {
      return note(ErrorKind::kUnsupported, pointer, "this keyword is not supported");
    }
    std::vector<std::string> known;
    for (const auto& [name, reader] : readers()) known.emplace_back(name);
    const auto near = near_matches(keyword, known);
    note(ErrorKind::kUnsupported, pointer,
         near.empty() ? "unknown keyword"
                      : fmt::format("unknown keyword, did you mean {}?", fmt::join(near, " or ")));
  }

  void read_enum(SchemaNode& node, const Json& value, const std::string& pointer) {
    if (!value.is_array() || value.empty()) {
      return wrong(pointer, "expected a list of values, at least one");
    }
    add_values(node, {value.begin(), value.end()}, pointer);
  }

  // enum and const together leave what both allow.
  void add_values(SchemaNode& node, std::vector<Json> values, const std::string& pointer) {
    if (node.values) {
      std::erase_if(values, [&](const Json& value) {
        return std::none_of(node.values->begin(), node.values->end(),
                            [&](const Json& other) { return same_value(value, other); });
      });
      if (values.empty()) wrong(pointer, "const is none of enum: nothing can fit");
    }
    node.values = std::move(values);
  }

  void read_pattern(SchemaNode& node, const Json& value, const std::string& pointer) {
    if (!value.is_string()) return wrong(pointer, "{} is no text", shown(value));
    node.pattern = regex(value.get<std::string>(), pointer);
  }

  void read_format(SchemaNode& node, const Json& value, const std::string& pointer) {
    if (!value.is_string()) return wrong(pointer, "{} is no text", shown(value));
    node.format = value.get<std::string>();
    node.format_check = format_check(node.format);
    if (node.format_check == nullptr) {
      note(ErrorKind::kUnsupported, pointer,
           fmt::format("the format {} is not checked; those that are: {}", shown(value),
                       fmt::join(checked_formats(), ", ")));
    }
  }

  // The schemas that the same value is checked against.
  static std::vector<NodeId> same_value_schemas(const SchemaNode& node) {
    std::vector<NodeId> ids;
    for (const auto& one :
         {node.ref, node.negated, node.condition, node.consequence, node.alternative}) {
      if (one) ids.push_back(*one);
    }
    for (const auto* list : {&node.all_of, &node.any_of, &node.one_of}) {
      ids.insert(ids.end(), list->begin(), list->end());
    }
    for (const auto& [name, id] : node.dependent_schemas) ids.push_back(id);
    return ids;
  }

  // A schema that is checked by way of itself on the same value never ends (Kahn's algorithm).
  void check_chains() {
    const auto& nodes = program_->nodes;
    std::vector<std::size_t> users(nodes.size()), length(nodes.size());
    for (const SchemaNode& node : nodes) {
      for (const NodeId id : same_value_schemas(node)) ++users[id];
    }
    std::vector<NodeId> order;
    for (NodeId id = 0; id < nodes.size(); ++id) {
      if (users[id] == 0) order.push_back(id);
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (const NodeId id : same_value_schemas(nodes[order[i]])) {
        length[id] = std::max(length[id], length[order[i]] + 1);
        if (length[id] > kDeepestChain) {
          return wrong(nodes[id].pointer, "more than {} schemas in a row for one value",
                       kDeepestChain);
        }
        if (--users[id] == 0) order.push_back(id);
      }
    }
    const auto left =
        std::find_if(users.begin(), users.end(), [](auto count) { return count > 0; });
    if (left != users.end()) {
      wrong(nodes[static_cast<std::size_t>(left - users.begin())].pointer,
            "the schema refers to itself without a value in between");
    }
  }

  // What one schema alone says must leave some value of some type.
  void check_possible(NodeId id) {
    const std::size_t before = mistakes_.size();
    const SchemaNode& node = program_->nodes[id];
    const auto at = [&](std::string_view keyword) { return pointer_to(node.pointer, keyword); };
    if (id == 0 && node.fixed == false) wrong(node.pointer, "the schema false: nothing can fit");
    check_bounds(node);
    // No value fits bounds that no number fits.
    if (mistakes_.size() > before) return;
    if (node.values && std::none_of(node.values->begin(), node.values->end(),
                                    [&](const Json& value) { return fits_alone(node, value); })) {
      wrong(node.pointer, "none of the listed values has the type and bounds that are asked for");
    }
    const bool only_objects = node.types == std::uint8_t{kObjects};
    for (std::size_t i = 0; i < node.required.size() && only_objects; ++i) {
      const std::string& name = node.required[i];
      const auto found = node.property.find(name);
      const bool closed = node.additional_properties &&
                          program_->nodes[*node.additional_properties].fixed == false &&
                          node.pattern_properties.empty();
      if (found == node.property.end() ? closed : program_->nodes[found->second].fixed == false) {
        wrong(pointer_to(at("required"), i),
              "the property {} is required and not allowed: nothing can fit", shown(Json(name)));
      }
    }
    if (node.max_properties && only_objects && node.required.size() > *node.max_properties) {
      wrong(at("maxProperties"), "{} properties are required: nothing can fit",
            node.required.size());
    }
  }

  void check_bounds(const SchemaNode& node) {
    const auto in_order = [&](const auto& least, const auto& most, std::string_view keyword,
                              bool equal_fits = true) {
      if (!least || !most) return;
      const auto low = number_of(Json(*least)), high = number_of(Json(*most));
      if (equal_fits ? low <= high : low < high) return;
      wrong(pointer_to(node.pointer, keyword),
            "{} is too small for the lower bound {}: nothing can fit", Json(*most).dump(),
            Json(*least).dump());
    };
    in_order(node.minimum, node.maximum, "maximum");
    in_order(node.minimum, node.exclusive_maximum, "exclusiveMaximum", false);
    in_order(node.exclusive_minimum, node.maximum, "maximum", false);
    in_order(node.exclusive_minimum, node.exclusive_maximum, "exclusiveMaximum", false);
    in_order(node.min_length, node.max_length, "maxLength");
    in_order(node.min_items, node.max_items, "maxItems");
    in_order(node.min_contains, node.max_contains, "maxContains");
    in_order(node.min_properties, node.max_properties, "maxProperties");
  }

  std::string base_;
  std::shared_ptr<SchemaProgram> program_;
  std::map<const Json*, NodeId> known_;
  std::vector<const Json*> waiting_;  // by node
  Mistakes mistakes_;
};

}  // namespace

Result<JsonSchema> JsonSchema::compile(const Json& schema, std::string_view pointer) {
  auto program = SchemaCompiler(schema, pointer).compile();
  if (!program) return fail(program.error());
  JsonSchema result;
  result.program_ = *std::move(program);
  return result;
}

const Json& JsonSchema::source() const { return program_->source; }

}  // namespace dovetail::pipeline
