// The syntax tree of one expression, macros already expanded, and the parser that makes it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cel/arena.h"
#include "cel/type.h"
#include "cel/value.h"

namespace heddle::cel {

enum class NodeKind : uint8_t {
  kConstant,       // constant
  kIdent,          // text
  kSelect,         // children[0].text
  kHas,            // has(children[0].text)
  kCall,           // text(children...); member: children[0] is the target. && and || take two and more children.
  kList,           // children, those marked in `optional` are ?elements
  kMap,            // children: key, value, key, value; `optional` has one mark an entry
  kMessage,        // text{...}: there are no messages here, so the checker refuses it by name
  kComprehension,  // children: range, init, condition, step, result
};

struct FunctionEntry;
struct Overload;
class Pattern;

struct Node {
  NodeKind kind = NodeKind::kConstant;
  uint32_t offset = 0;  // bytes from the start of the expression
  bool member = false;
  bool absolute = false;         // of an identifier: written ".x", which no variable of a macro hides
  bool uncharged = false;        // by the planner: a call that costs nothing
  bool append_in_place = false;  // a macro's accumulator + element: nobody else sees the accumulator
  std::string text;
  std::string iter_var, iter_var2, accu_var;
  Value constant;
  std::vector<Node*> children;
  std::vector<bool> optional;

  const Type* type = nullptr;               // by the checker
  std::vector<const Overload*> overloads;   // by the checker, for calls: of the environment, those that may be meant
  const FunctionEntry* function = nullptr;  // by the planner, for calls
  const Pattern* pattern = nullptr;         // by the planner: the second argument, when it is a constant pattern
  int slot = -1;                            // by the planner: of an identifier; -1 is the device or a type name
  int iter_slot = -1, iter2_slot = -1, accu_slot = -1;
};

// Owns the nodes and the constants of one expression.
struct SyntaxTree {
  std::deque<Node> nodes;
  Arena constants;
  Node* root = nullptr;

  Node* make(NodeKind kind, uint32_t offset) {
    Node& node = nodes.emplace_back();
    node.kind = kind;
    node.offset = offset;
    return &node;
  }
};

inline constexpr int64_t kMaxCodePoints = 100'000;  // of the language; the API server takes 10 KiB at most
inline constexpr int kMaxDepth = 250;

// The accumulator of macros; no user can write this name.
inline constexpr std::string_view kAccumulator = "@result";

// Errors: kInvalidArgument "Syntax error: ... at 1:7". Fills tree.root.
Result<void> parse(std::string_view expression, SyntaxTree& tree);

// The macro of this name and shape, expanded; null when there is none, so that it stays a call.
// args are nodes of tree; target is null for a global call. Errors: kInvalidArgument.
Result<Node*> expand_macro(SyntaxTree& tree, Node* call);

// "1:7" of a byte offset.
std::string location_text(std::string_view expression, uint32_t offset);

// Escapes of a quoted literal of the given source text (with its prefix and quotes). Errors: kInvalidArgument.
Result<std::string> unescape_literal(std::string_view literal);

}  // namespace heddle::cel
