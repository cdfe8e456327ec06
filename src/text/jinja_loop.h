#pragma once

#include <functional>
#include <memory>

#include "text/jinja_builtins.h"
#include "text/jinja_value.h"

namespace dovetail::text::jinja {

// Where a loop is. The interpreter moves `index` on; the `loop` variable reads it.
struct LoopState {
  Items items;
  size_t index = 0;
  int64_t level = 1;
  // What loop.changed() saw last. A namespace, since the loop itself may be among it.
  std::shared_ptr<Namespace> last_changed;
};

// The `loop` variable. `recurse` is empty unless the loop is recursive. Refers to `context`.
Value make_loop(const std::shared_ptr<LoopState>& state, std::function<Value(Arguments&)> recurse,
                Context& context);

}  // namespace dovetail::text::jinja
