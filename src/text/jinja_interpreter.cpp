#include "text/jinja_interpreter.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "text/jinja_builtins.h"

namespace dovetail::text::jinja {
namespace {

// Frames of evaluation and execution on the stack at once.
constexpr int kMaxFrames = 1000;
constexpr int kMaxMacroDepth = 100;

enum class Flow { kNext, kBreak, kContinue };

struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string_view, Value>> names;  // views into the tree or literals

  const Value* find(std::string_view name) const {
    for (const auto& [held, value] : names) {
      if (held == name) return &value;
    }
    return nullptr;
  }
  void set(std::string_view name, Value value) {
    for (auto& [held, slot] : names) {
      if (held == name) {
        slot = std::move(value);
        return;
      }
    }
    names.emplace_back(name, std::move(value));
  }
};
using ScopePtr = std::shared_ptr<Scope>;

// Where a loop is. The interpreter moves `index` on; the `loop` variable reads it.
struct LoopState {
  Items items;
  size_t index = 0;
};

Value make_loop(const std::shared_ptr<LoopState>& state) {
  Object object;
  object.type = "LoopContext";
  object.name = "loop";
  for (const Value& item : state->items) object.depth = std::max(object.depth, item.depth() + 1);
  object.attribute = [state](std::string_view name) -> std::optional<Value> {
    const size_t index = state->index;
    const size_t size = state->items.size();
    if (name == "index") return Value::of(index + 1);
    if (name == "index0") return Value::of(index);
    if (name == "revindex") return Value::of(size - index);
    if (name == "revindex0") return Value::of(size - index - 1);
    if (name == "first") return Value::of(index == 0);
    if (name == "last") return Value::of(index + 1 == size);
    if (name == "length") return Value::of(size);
    if (name == "previtem") {
      return index == 0 ? Value::undefined("there is no previous item") : state->items[index - 1];
    }
    if (name == "nextitem") {
      return index + 1 >= size ? Value::undefined("there is no next item")
                               : state->items[index + 1];
    }
    return std::nullopt;
  };
  return Value::object(std::move(object));
}

class Interpreter {
 public:
  Interpreter(const Template& parsed, const RenderOptions& options) : template_(parsed) {
    context_.now = options.now;
  }

  // Macros and namespaces may refer to themselves: what holds them is emptied by hand.
  ~Interpreter() {
    for (const ScopePtr& scope : closures_) scope->names.clear();
    for (const auto& space : context_.namespaces) space->attributes.clear();
  }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  MarkedText run(const nlohmann::ordered_json& variables, const Mark& mark) {
    if (!variables.is_object()) {
      raise("the variables are {}: expected an object", variables.type_name());
    }
    for (const auto& [name, value] : variables.items()) {
      variables_.emplace(name, Value::from_json(value, mark, Place{name, 0, {}, 0}));
    }
    scope_ = std::make_shared<Scope>();
    execute(template_.body);
    return std::move(out_);
  }

  size_t offset() const { return at_; }

 private:
  // Counts frames, so that no template can exhaust the stack.
  class Frame {
   public:
    Frame(int& depth, int most, std::string_view what) : depth_(depth) {
      if (depth_ >= most) raise("{} nest deeper than {}", what, most);
      ++depth_;
    }
    ~Frame() { --depth_; }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    int& depth_;
  };

  // Swaps in a scope for as long as it lives.
  class Inside {
   public:
    Inside(Interpreter& interpreter, ScopePtr scope)
        : interpreter_(interpreter), outer_(std::exchange(interpreter.scope_, std::move(scope))) {}
    ~Inside() { interpreter_.scope_ = std::move(outer_); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Interpreter& interpreter_;
    ScopePtr outer_;
  };

  ScopePtr inner_scope() const { return std::make_shared<Scope>(Scope{scope_, {}}); }

  // Names -------------------------------------------------------------------------------------

  Value look_up(const std::string& name) {
    for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
      context_.budget.charge(scope->names.size() / 16);
      if (const Value* found = scope->find(name)) return *found;
    }
    if (const auto found = variables_.find(name); found != variables_.end()) return found->second;
    if (auto function = find_function(context_, name)) return *std::move(function);
    return Value::undefined(fmt::format("'{}' is undefined", name));
  }

  void assign(const Target& target, const Value& value) {
    at_ = target.offset;
    switch (target.kind) {
      case Target::Kind::kName:
        scope_->set(target.name, value);
        return;
      case Target::Kind::kAttribute: {
        Namespace* space = look_up(target.name).name_space();
        if (space == nullptr) {
          raise("cannot assign attribute '{}': '{}' is no namespace", target.attribute,
                target.name);
        }
        context_.budget.charge(space->attributes.size() / 16);
        space->set(target.attribute, value);
        return;
      }
      case Target::Kind::kTuple:
        break;
    }
    const Items items = iterate(value, context_.budget);
    if (items.size() != target.items.size()) {
      raise("cannot unpack {} values into {} names", items.size(), target.items.size());
    }
    for (size_t i = 0; i < items.size(); ++i) assign(target.items[i], items[i]);
  }

  // Expressions -------------------------------------------------------------------------------

  Value evaluate(const Expr& expr) {
    at_ = expr.offset;
    const Frame frame(frames_, kMaxFrames, "evaluations");
    context_.budget.charge(1);
    return std::visit([&](const auto& node) { return evaluate(node, expr.offset); }, expr.node);
  }

  // Steps that making a text takes.
  static uint64_t cost(const MarkedText& text) {
    return text.text.size() / 64 + text.untrusted.size() / 4;
  }

  // Charges for a value that an operation made, then hands it on.
  Value made(Value value) {
    const MarkedText* text = value.marked();
    context_.budget.charge(text != nullptr ? cost(*text) : weight(value));
    return value;
  }

  Value evaluate(const ConstantExpr& node, size_t) { return node.value; }
  Value evaluate(const NameExpr& node, size_t) { return look_up(node.name); }
  Value evaluate(const BlockBodyExpr&, size_t) { return block_bodies_.back(); }

  Items evaluate_all(const std::vector<ExprPtr>& exprs) {
    Items items;
    items.reserve(exprs.size());
    for (const ExprPtr& expr : exprs) items.push_back(evaluate(*expr));
    return items;
  }

  Value evaluate(const SequenceExpr& node, size_t offset) {
    Items items = evaluate_all(node.items);
    at_ = offset;
    return node.is_tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
  }

  Value evaluate(const DictExpr& node, size_t offset) {
    std::vector<std::pair<Value, Value>> entries;
    for (const auto& [key, value] : node.entries) {
      Value evaluated_key = evaluate(*key);
      entries.emplace_back(std::move(evaluated_key), evaluate(*value));
    }
    at_ = offset;
    return Value::dict(std::move(entries), context_.budget);
  }

  Value evaluate(const AttributeExpr& node, size_t offset) {
    const Value object = evaluate(*node.object);
    at_ = offset;
    return get_attribute(context_, object, node.name);
  }

  Value evaluate(const ItemExpr& node, size_t offset) {
    const Value object = evaluate(*node.object);
    const Value key = evaluate(*node.key);
    at_ = offset;
    return get_item(context_, object, key);
  }

  Value evaluate(const SliceExpr& node, size_t offset) {
    const Value object = evaluate(*node.object);
    const auto bound = [&](const ExprPtr& expr) {
      return expr == nullptr ? Value::none() : evaluate(*expr);
    };
    const Value start = bound(node.start);
    const Value stop = bound(node.stop);
    const Value step = bound(node.step);
    at_ = offset;
    context_.budget.charge(weight(object));
    return made(slice(object, start, stop, step));
  }

  Arguments evaluate_arguments(const CallArguments& given) {
    Arguments arguments;
    arguments.positional = evaluate_all(given.positional);
    for (const auto& [name, expr] : given.named) {
      arguments.named.emplace_back(name, evaluate(*expr));
    }
    return arguments;
  }

  Value evaluate(const CallExpr& node, size_t offset) {
    const Value callee = evaluate(*node.callee);
    Arguments arguments = evaluate_arguments(node.arguments);
    at_ = offset;
    return made(call(callee, arguments));
  }

  Value evaluate(const FilterExpr& node, size_t offset) {
    const Value input = evaluate(*node.input);
    Arguments arguments = evaluate_arguments(node.arguments);
    at_ = offset;
    context_.budget.charge(weight(input));
    return made(apply_filter(context_, node.name, input, arguments));
  }

  Value evaluate(const TestExpr& node, size_t offset) {
    // 'x is defined' and the like take what is missing; anything else evaluates as usual.
    const Value input = evaluate(*node.input);
    Arguments arguments = evaluate_arguments(node.arguments);
    at_ = offset;
    return Value::of(apply_test(context_, node.name, input, arguments));
  }

  Value evaluate(const NotExpr& node, size_t) {
    return Value::of(!truthy(evaluate(*node.operand)));
  }

  Value evaluate(const SignExpr& node, size_t offset) {
    const Value operand = evaluate(*node.operand);
    at_ = offset;
    if (node.negative) return negate(operand);
    if (operand.number()) return operand.boolean() ? Value::of(*operand.integer()) : operand;
    raise("bad operand type for unary +: '{}'", type_name(operand));
  }

  Value evaluate(const BinaryExpr& node, size_t offset) {
    const Value left = evaluate(*node.left);
    const Value right = evaluate(*node.right);
    at_ = offset;
    context_.budget.charge(weight(left) + weight(right));
    return made(arithmetic(node.op, left, right));
  }

  Value evaluate(const LogicExpr& node, size_t) {
    Value left = evaluate(*node.left);
    if (truthy(left) != node.is_and) return left;
    return evaluate(*node.right);
  }

  bool compare(CompareOp op, const Value& left, const Value& right) {
    Budget& budget = context_.budget;
    budget.charge(std::min(weight(left), weight(right)));
    switch (op) {
      case CompareOp::kEqual:
        return equal(left, right, budget);
      case CompareOp::kNotEqual:
        return !equal(left, right, budget);
      case CompareOp::kLess:
        return less(left, right, budget);
      case CompareOp::kGreater:
        return less(right, left, budget, ">");
      case CompareOp::kLessEqual:
        return less(left, right, budget, "<=") || equal(left, right, budget);
      case CompareOp::kGreaterEqual:
        return less(right, left, budget, ">=") || equal(left, right, budget);
      case CompareOp::kIn:
        return contains(right, left, budget);
      case CompareOp::kNotIn:
        return !contains(right, left, budget);
    }
    return false;
  }

  Value evaluate(const CompareExpr& node, size_t offset) {
    Value left = evaluate(*node.first);
    for (const auto& [op, operand] : node.rest) {
      Value right = evaluate(*operand);
      at_ = offset;
      if (!compare(op, left, right)) return Value::of(false);
      left = std::move(right);
    }
    return Value::of(true);
  }

  Value evaluate(const ConcatExpr& node, size_t offset) {
    MarkedText text;
    for (const ExprPtr& part : node.parts) {
      const Value value = evaluate(*part);
      at_ = offset;
      if (const MarkedText* held = value.marked()) {
        text.append(*held);
      } else {
        text.append(to_text(value));
      }
      check_size(text.text.size());
    }
    return made(Value::of(std::move(text)));
  }

  Value evaluate(const ConditionalExpr& node, size_t) {
    if (truthy(evaluate(*node.condition))) return evaluate(*node.then);
    if (node.otherwise != nullptr) return evaluate(*node.otherwise);
    return Value::undefined("the inline if has no else, and its condition is false");
  }

  // Statements --------------------------------------------------------------------------------

  Flow execute(const Body& body) {
    for (const Statement& statement : body) {
      at_ = statement.offset;
      context_.budget.charge(1);
      const Frame frame(frames_, kMaxFrames, "statements");
      const Flow flow = std::visit([&](const auto& node) { return execute(node); }, statement.node);
      if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  void check_output(size_t bytes) {
    if (out_.text.size() + bytes > kMaxStringBytes) {
      raise("the output is longer than {} bytes", kMaxStringBytes);
    }
  }

  void write(const MarkedText& text) {
    check_output(text.text.size());
    context_.budget.charge(cost(text));
    out_.append(text);
  }

  // Renders a body into a string of its own, in a scope of its own.
  MarkedText capture(const Body& body, ScopePtr scope) {
    const Inside inside(*this, std::move(scope));
    MarkedText outer = std::exchange(out_, {});
    execute(body);
    return std::exchange(out_, std::move(outer));
  }

  Flow execute(const DataStatement& node) {
    check_output(node.text.size());
    context_.budget.charge(node.text.size() / 64);
    out_.append_trusted(node.text);
    return Flow::kNext;
  }

  Flow execute(const PrintStatement& node) {
    const Value value = evaluate(*node.value);
    at_ = node.value->offset;
    if (const MarkedText* text = value.marked()) {
      write(*text);
    } else {
      write(to_text(value));
    }
    return Flow::kNext;
  }

  Flow execute(const SetStatement& node) {
    assign(node.target, evaluate(*node.value));
    return Flow::kNext;
  }

  // The value of filters around a body.
  Value filtered(const Body& body, const Expr& filters) {
    block_bodies_.push_back(made(Value::of(capture(body, inner_scope()))));
    Value value = evaluate(filters);
    block_bodies_.pop_back();
    return value;
  }

  Flow execute(const SetBlockStatement& node) {
    assign(node.target, filtered(node.body, *node.value));
    return Flow::kNext;
  }

  Flow execute(const FilterStatement& node) {
    write(to_text(filtered(node.body, *node.value)));
    return Flow::kNext;
  }

  Flow execute(const BreakStatement&) { return Flow::kBreak; }
  Flow execute(const ContinueStatement&) { return Flow::kContinue; }

  Flow execute(const ScopeStatement& node) {
    const Inside inside(*this, inner_scope());
    return execute(node.body);
  }

  Flow execute(const IfStatement& node) {
    for (const auto& [condition, body] : node.branches) {
      if (truthy(evaluate(*condition))) return execute(body);
    }
    return execute(node.otherwise);
  }

  Flow execute(const ForStatement& node) {
    const Value items = evaluate(*node.items);
    at_ = node.items->offset;
    run_loop(node, iterate(items, context_.budget));
    return Flow::kNext;
  }

  void run_loop(const ForStatement& node, Items items) {
    if (node.condition != nullptr) {
      const Inside inside(*this, inner_scope());
      std::erase_if(items, [&](const Value& item) {
        assign(node.target, item);
        return !truthy(evaluate(*node.condition));
      });
    }
    if (items.empty()) {
      const Inside inside(*this, inner_scope());
      execute(node.otherwise);
      return;
    }
    auto state = std::make_shared<LoopState>();
    state->items = std::move(items);
    const Value loop = make_loop(state);
    for (state->index = 0; state->index < state->items.size(); ++state->index) {
      context_.budget.charge(1);
      const Inside inside(*this, inner_scope());
      scope_->set("loop", loop);
      assign(node.target, state->items[state->index]);
      if (execute(node.body) == Flow::kBreak) break;
    }
  }

  // Macros ------------------------------------------------------------------------------------

  Flow execute(const MacroStatement& node) {
    closures_.push_back(scope_);
    Object object;
    object.type = "Macro";
    object.name = node.name;
    const ScopePtr scope = scope_;
    object.call = [this, &node, scope](Arguments& arguments) {
      return call_macro(node, scope, arguments);
    };
    scope_->set(node.name, Value::object(std::move(object)));
    return Flow::kNext;
  }

  Value call_macro(const MacroStatement& node, const ScopePtr& closure, Arguments& arguments) {
    const Frame frame(macro_depth_, kMaxMacroDepth, "macro calls");
    const size_t call_offset = at_;
    auto scope = std::make_shared<Scope>(Scope{closure, {}});
    const Inside inside(*this, scope);
    const size_t count = node.parameters.size();
    if (arguments.positional.size() > count) {
      raise("macro '{}' takes not more than {} argument(s)", node.name, count);
    }
    std::vector<std::optional<Value>> given(arguments.positional.begin(),
                                            arguments.positional.end());
    given.resize(count);
    for (const auto& argument : arguments.named) {
      const std::string& name = argument.first;
      const Value& value = argument.second;
      const auto parameter =
          std::find_if(node.parameters.begin(), node.parameters.end(),
                       [&](const Parameter& candidate) { return candidate.name == name; });
      if (parameter == node.parameters.end()) {
        raise("macro '{}' takes no keyword argument '{}'", node.name, name);
      }
      auto& slot = given[static_cast<size_t>(parameter - node.parameters.begin())];
      if (slot) raise("macro '{}' got multiple values for argument '{}'", node.name, name);
      slot = value;
    }
    for (size_t i = 0; i < count; ++i) {
      const Parameter& parameter = node.parameters[i];
      if (given[i]) {
        scope->set(parameter.name, *std::move(given[i]));
      } else if (parameter.otherwise != nullptr) {
        scope->set(parameter.name, evaluate(*parameter.otherwise));
      } else {
        scope->set(parameter.name, Value::undefined(fmt::format("parameter '{}' was not provided",
                                                                parameter.name)));
      }
    }
    Value text = Value::of(capture(node.body, scope));
    at_ = call_offset;
    return text;
  }

  const Template& template_;
  Context context_;
  std::unordered_map<std::string, Value> variables_;
  ScopePtr scope_;
  MarkedText out_;
  std::vector<Value> block_bodies_;
  std::vector<ScopePtr> closures_;  // scopes that macros refer to
  int frames_ = 0;
  int macro_depth_ = 0;
  size_t at_ = 0;  // where an error would be
};

}  // namespace

Result<MarkedText> render_template(const Template& parsed, const nlohmann::ordered_json& variables,
                                   const RenderOptions& options) {
  Interpreter interpreter(parsed, options);
  try {
    return interpreter.run(variables, options.mark);
  } catch (JinjaError& error) {
    if (!error.offset) error.offset = interpreter.offset();
    return fail(locate(error, parsed.name, parsed.source));
  }
}

}  // namespace dovetail::text::jinja
