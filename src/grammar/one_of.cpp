#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "grammar/determinize.h"
#include "grammar/schema_compiler.h"
#include "grammar/schema_facts.h"

namespace dovetail::grammar {
namespace {

constexpr int kMaxDepth = 8;
// Instances count here, not how they are written, so the specification's reading.
constexpr SchemaOptions kLiteral = {true};

bool apart(const Bound& high, const Bound& low) {
  const int order = compare(high.value, low.value);
  return order < 0 || (order == 0 && (high.exclusive || low.exclusive));
}

// Whether no value satisfies both of two schemas, as far as can be shown.
class Disjointness {
 public:
  Disjointness(SchemaReader& reader, Work& work) : reader_(reader), work_(work) {}

  Result<bool> of(const std::vector<SchemaRef>& a, const std::vector<SchemaRef>& b, int depth) {
    if (depth > kMaxDepth) return false;
    const auto left = reader_.flatten(a);
    if (!left) return fail(left.error());
    const auto right = reader_.flatten(b);
    if (!right) return fail(right.error());
    for (const Bundle& x : *left) {
      for (const Bundle& y : *right) {
        const auto good = bundles(x, y, depth);
        if (!good || !*good) return good;
      }
    }
    return true;
  }

 private:
  Result<bool> bundles(const Bundle& a, const Bundle& b, int depth) {
    const auto left = read_facts(a, kLiteral, work_);
    if (!left) return fail(left.error());
    const auto right = read_facts(b, kLiteral, work_);
    if (!right) return fail(right.error());
    if (left->values) return values(*left, *right);
    if (right->values) return values(*right, *left);
    const std::uint32_t common = left->types & right->types;
    if ((common & (kNull | kBoolean)) != 0) return false;
    if ((common & kNumber) != 0) {
      const NumberRange& x = left->numbers;
      const NumberRange& y = right->numbers;
      if (!(x.high && y.low && apart(*x.high, *y.low)) &&
          !(y.high && x.low && apart(*y.high, *x.low))) {
        return false;
      }
    }
    if ((common & kString) != 0) {
      const auto good = strings(*left, *right);
      if (!good || !*good) return good;
    }
    if ((common & kArray) != 0) {
      const Counts& x = left->items;
      const Counts& y = right->items;
      if (!(x.max && *x.max < y.min) && !(y.max && *y.max < x.min)) return false;
    }
    if ((common & kObject) != 0) return objects(a, b, depth);
    return true;
  }

  // Whether none of a list of values is among the others.
  Result<bool> values(const Facts& list, const Facts& other) {
    for (const Json* value : *list.values) {
      work_.spend(1 + (other.values ? other.values->size() : 0));
      if (const Status enough = work_.check(list.where); !enough) return fail(enough.error());
      const auto own = allows(list, *value, work_);
      if (!own) return own;
      if (!*own) continue;
      if (other.values && std::none_of(other.values->begin(), other.values->end(),
                                       [&](const Json* v) { return *v == *value; })) {
        // Objects are compared with their order, so what differs in it may yet be equal.
        if (type_of(*value) != kObject && type_of(*value) != kArray) continue;
        if (std::none_of(other.values->begin(), other.values->end(), [&](const Json* v) {
              return type_of(*v) == type_of(*value) && v->size() == value->size();
            })) {
          continue;
        }
        return false;
      }
      const auto good = allows(other, *value, work_);
      if (!good) return good;
      if (*good) return false;
    }
    return true;
  }

  Result<bool> strings(const Facts& a, const Facts& b) {
    const auto left = string_language(a, Spelling::kPlain, work_);
    if (!left) return fail(left.error());
    const auto right = string_language(b, Spelling::kPlain, work_);
    if (!right) return fail(right.error());
    const auto both = intersection(*left, *right, a.where, work_);
    if (!both) return fail(both.error());
    return both->empty();
  }

  // A member that both need, with values that differ; or that one needs and the other forbids.
  Result<bool> objects(const Bundle& a, const Bundle& b, int depth) {
    const auto left = read_members(a, kLiteral, work_);
    if (!left) return fail(left.error());
    const auto right = read_members(b, kLiteral, work_);
    if (!right) return fail(right.error());
    work_.spend(left->named.size() * right->named.size());
    const std::string_view where = a.empty() ? "#" : std::string_view(a[0].where);
    if (const Status enough = work_.check(where); !enough) return fail(enough.error());
    for (const NamedMember& x : left->named) {
      for (const NamedMember& y : right->named) {
        if (x.name != y.name || !(x.required || y.required)) continue;
        if (x.required && y.required) {
          const auto good = of(x.value, y.value, depth + 1);
          if (!good || *good) return good;
        }
      }
    }
    for (const auto& [needs, forbids, bundle] :
         {std::tuple(&*left, &*right, &b), std::tuple(&*right, &*left, &a)}) {
      for (const NamedMember& member : needs->named) {
        if (!member.required) continue;
        const auto good = forbidden(member.name, *forbids, *bundle);
        if (!good || *good) return good;
      }
    }
    return false;
  }

  // Whether objects of the bundle cannot have the member.
  Result<bool> forbidden(const std::string& name, const Members& members, const Bundle& bundle) {
    std::vector<SchemaRef> value;
    const auto named = std::find_if(members.named.begin(), members.named.end(),
                                    [&](const NamedMember& m) { return m.name == name; });
    if (named != members.named.end()) {
      value = named->value;
    } else {
      const bool patterns = std::any_of(bundle.begin(), bundle.end(), [](const SchemaRef& s) {
        return s.find("patternProperties") != nullptr;
      });
      if (patterns) return false;  // not looked into
      for (const SchemaRef& schema : bundle) {
        if (schema.find("additionalProperties") != nullptr) {
          value.push_back(schema.child("additionalProperties"));
        }
      }
    }
    const auto any = reader_.flatten(value);
    if (!any) return fail(any.error());
    return any->empty();
  }

  SchemaReader& reader_;
  Work& work_;
};

}  // namespace

Status check_one_of(SchemaReader& reader, const OneOf& one_of, Work& work) {
  const SchemaRef& branches = one_of.branches;
  const auto branch = [&](std::size_t index) {
    std::vector<SchemaRef> out = one_of.beside;
    out.push_back(branches.child(index));
    return out;
  };
  for (std::size_t i = 0; i < branches.at->size(); ++i) {
    for (std::size_t j = i + 1; j < branches.at->size(); ++j) {
      const auto good = Disjointness(reader, work).of(branch(i), branch(j), 0);
      if (!good) return fail(good.error());
      if (!*good) {
        return fail(
            ErrorKind::kUnsupported,
            "{}: \"oneOf\" is not supported unless its branches exclude each other by type, "
            "values or a required member; {} and {} may both hold",
            branches.where, i, j);
      }
    }
  }
  return {};
}

}  // namespace dovetail::grammar
