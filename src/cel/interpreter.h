// Walks a planned tree. Internal to cel: program.h is what others use.
#pragma once

#include <vector>

#include "cel/device.h"
#include "cel/functions.h"
#include "cel/syntax.h"

namespace heddle::cel {

class Interpreter {
 public:
  // device may be null while constants are folded.
  Interpreter(Evaluation& evaluation, const DeviceView* device, std::vector<Value>& slots)
      : evaluation_(evaluation), device_(device), slots_(slots) {}

  Value evaluate(const Node& node);

 private:
  Value call(const Node& node);
  Value strict_call(const Node& node);
  Value logical(const Node& node, bool stop_at);
  Value conditional(const Node& node);
  Value append(const Node& node);
  Value insert(const Node& node);
  Value list(const Node& node);
  Value map(const Node& node);
  Value select(const Value& operand, std::string_view field);
  Value has(const Node& node);
  Value index(const Value& operand, const Value& key);
  Value optional_index(const Value& operand, const Value& key);
  Value comprehension(const Node& node);
  Value no_such_key(const Value& key);
  Value type_of(const Value& value);
  bool iterate(const Node& node, const Value& range, size_t at);

  Evaluation& evaluation_;
  const DeviceView* device_;
  std::vector<Value>& slots_;
};

// Length of a list or map; nothing to iterate over otherwise.
struct Range {
  bool iterable = false;
  size_t size = 0;
};
Range range_of(const Value& value);

}  // namespace heddle::cel
