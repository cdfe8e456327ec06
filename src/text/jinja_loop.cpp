#include "text/jinja_loop.h"

#include <algorithm>

namespace dovetail::text::jinja {
namespace {

Value method(std::string_view name, int depth, std::function<Value(Arguments&)> function) {
  Object object;
  object.type = "method";
  object.name = name;
  object.depth = depth;
  object.call = std::move(function);
  return Value::object(std::move(object));
}

Value cycle(const LoopState& state, Arguments& arguments) {
  if (arguments.positional.empty()) raise("loop.cycle: expected at least one value to cycle");
  return arguments.positional[state.index % arguments.positional.size()];
}

Value changed(LoopState& state, const Arguments& arguments, Context& context) {
  constexpr std::string_view kSeen = "seen";
  const Value now = Value::tuple(arguments.positional);
  if (state.last_changed == nullptr) {
    state.last_changed = std::make_shared<Namespace>();
    context.namespaces.push_back(state.last_changed);
  } else if (equal(now, *state.last_changed->find(kSeen), context.budget)) {
    return Value::of(false);
  }
  state.last_changed->set(kSeen, now);
  return Value::of(true);
}

}  // namespace

Value make_loop(const std::shared_ptr<LoopState>& state, std::function<Value(Arguments&)> recurse,
                Context& context) {
  Object object;
  object.type = "LoopContext";
  object.name = "loop";
  for (const Value& item : state->items) object.depth = std::max(object.depth, item.depth() + 1);
  const int depth = object.depth + 1;
  object.call = std::move(recurse);
  object.attribute = [state, depth, &context](std::string_view name) -> std::optional<Value> {
    const size_t index = state->index;
    const size_t size = state->items.size();
    if (name == "index") return Value::of(index + 1);
    if (name == "index0") return Value::of(index);
    if (name == "revindex") return Value::of(size - index);
    if (name == "revindex0") return Value::of(size - index - 1);
    if (name == "first") return Value::of(index == 0);
    if (name == "last") return Value::of(index + 1 == size);
    if (name == "length") return Value::of(size);
    if (name == "depth") return Value::of(state->level);
    if (name == "depth0") return Value::of(state->level - 1);
    if (name == "previtem") {
      return index == 0 ? Value::undefined("there is no previous item") : state->items[index - 1];
    }
    if (name == "nextitem") {
      return index + 1 >= size ? Value::undefined("there is no next item")
                               : state->items[index + 1];
    }
    if (name == "cycle") {
      return method("cycle", depth, [state](Arguments& given) { return cycle(*state, given); });
    }
    if (name == "changed") {
      return method("changed", depth, [state, &context](Arguments& given) {
        return changed(*state, given, context);
      });
    }
    return std::nullopt;
  };
  return Value::object(std::move(object));
}

}  // namespace dovetail::text::jinja
