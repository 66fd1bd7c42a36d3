// A recursive-descent parser for the grammar of CEL. Depth is bounded, so hostile input cannot exhaust the stack.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "cel/lexer.h"
#include "cel/syntax.h"

namespace heddle::cel {

namespace {

constexpr std::array<std::string_view, 21> kReserved = {
    "as",  "break", "const",   "continue",  "else", "false",  "for",  "function", "if",   "import", "in",
    "let", "loop",  "package", "namespace", "null", "return", "true", "var",      "void", "while"};

bool is_reserved(std::string_view name) {
  return std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
}

class Parser {
 public:
  Parser(std::string_view source, std::vector<Token> tokens, SyntaxTree& tree)
      : source_(source), tokens_(std::move(tokens)), tree_(tree) {}

  Result<Node*> run() {
    HEDDLE_TRY(Node * root, expression());
    if (current().kind != TokenKind::kEnd) return unexpected();
    return root;
  }

 private:
  // Counts nesting for as long as it lives.
  class Depth {
   public:
    explicit Depth(int& depth) : depth_(depth) { ++depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    ~Depth() { --depth_; }

   private:
    int& depth_;
  };

  [[nodiscard]] const Token& current() const { return tokens_[next_]; }
  [[nodiscard]] bool at(std::string_view op) const {
    return current().kind == TokenKind::kOperator && current().text == op;
  }
  [[nodiscard]] bool at_word(std::string_view word) const {
    return current().kind == TokenKind::kIdentifier && current().text == word;
  }
  bool accept(std::string_view op) {
    if (!at(op)) return false;
    ++next_;
    return true;
  }

  tl::unexpected<Error> error_at(uint32_t offset, std::string_view what) const {
    return fail(Code::kInvalidArgument, fmt::format("{} at {}", what, location_text(source_, offset)));
  }
  tl::unexpected<Error> unexpected() const {
    if (current().kind == TokenKind::kEnd)
      return error_at(current().offset, "Syntax error: unexpected end of expression");
    return error_at(current().offset, fmt::format("Syntax error: unexpected '{}'", current().text));
  }
  Result<void> expect(std::string_view op) {
    if (accept(op)) return {};
    if (current().kind == TokenKind::kEnd)
      return error_at(current().offset, fmt::format("Syntax error: expected '{}' before the end", op));
    return error_at(current().offset, fmt::format("Syntax error: expected '{}' before '{}'", op, current().text));
  }
  Result<void> check_depth(int depth) const {
    if (depth <= kMaxDepth) return {};
    return error_at(current().offset, fmt::format("expression recursion limit exceeded: {}", kMaxDepth));
  }

  Node* call(std::string_view function, uint32_t offset, std::vector<Node*> args) {
    Node* node = tree_.make(NodeKind::kCall, offset);
    node->text = function;
    node->children = std::move(args);
    return node;
  }

  Result<Node*> expression() {
    Depth depth(depth_);
    HEDDLE_CHECK_OK(check_depth(depth_));
    HEDDLE_TRY(Node * condition, logical("||", "_||_"));
    uint32_t offset = current().offset;
    if (!accept("?")) return condition;
    HEDDLE_TRY(Node * truthy, logical("||", "_||_"));
    HEDDLE_CHECK_OK(expect(":"));
    HEDDLE_TRY(Node * falsy, expression());
    return call("_?_:_", offset, {condition, truthy, falsy});
  }

  // Chains of one logical operator are one node with many children, so that their length costs no depth.
  Result<Node*> logical(std::string_view op, std::string_view function) {
    auto operand = [&]() -> Result<Node*> { return op == "||" ? logical("&&", "_&&_") : relation(); };
    HEDDLE_TRY(Node * first, operand());
    if (!at(op)) return first;
    Node* node = call(function, current().offset, {first});
    while (accept(op)) {
      HEDDLE_TRY(Node * next, operand());
      node->children.push_back(next);
    }
    return node;
  }

  [[nodiscard]] std::string_view relation_function() const {
    if (at_word("in")) return "@in";
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kRelations = {
        {{"==", "_==_"}, {"!=", "_!=_"}, {"<=", "_<=_"}, {">=", "_>=_"}, {"<", "_<_"}, {">", "_>_"}}};
    for (const auto& [op, function] : kRelations)
      if (at(op)) return function;
    return {};
  }

  Result<Node*> relation() {
    HEDDLE_TRY(Node * left, additive());
    for (int chain = 1;; ++chain) {
      std::string_view function = relation_function();
      if (function.empty()) return left;
      HEDDLE_CHECK_OK(check_depth(depth_ + chain));
      uint32_t offset = current().offset;
      ++next_;
      HEDDLE_TRY(Node * right, additive());
      left = call(function, offset, {left, right});
    }
  }

  Result<Node*> additive() {
    HEDDLE_TRY(Node * left, multiplicative());
    for (int chain = 1; at("+") || at("-"); ++chain) {
      HEDDLE_CHECK_OK(check_depth(depth_ + chain));
      Token token = current();
      ++next_;
      HEDDLE_TRY(Node * right, multiplicative());
      left = call(token.text == "+" ? "_+_" : "_-_", token.offset, {left, right});
    }
    return left;
  }

  Result<Node*> multiplicative() {
    HEDDLE_TRY(Node * left, unary());
    for (int chain = 1; at("*") || at("/") || at("%"); ++chain) {
      HEDDLE_CHECK_OK(check_depth(depth_ + chain));
      Token token = current();
      ++next_;
      HEDDLE_TRY(Node * right, unary());
      left = call(fmt::format("_{}_", token.text), token.offset, {left, right});
    }
    return left;
  }

  Result<Node*> unary() {
    Token token = current();
    if (!at("!") && !at("-")) return member();
    size_t count = 0;
    while (accept(token.text)) ++count;
    bool number = current().kind == TokenKind::kInt || current().kind == TokenKind::kDouble;
    if (token.text == "-" && number) {
      // The sign belongs to the literal, so that the smallest int can be written.
      negative_ = true;
      --count;
    }
    HEDDLE_TRY(Node * operand, member());
    if (count % 2 == 0) return operand;
    return call(token.text == "!" ? "!_" : "-_", token.offset, {operand});
  }

  Result<Node*> member() {
    HEDDLE_TRY(Node * node, primary());
    for (int chain = 1;; ++chain) {
      HEDDLE_CHECK_OK(check_depth(depth_ + chain));
      uint32_t offset = current().offset;
      if (accept(".")) {
        HEDDLE_TRY(node, select(node, offset));
      } else if (accept("[")) {
        bool optional = accept("?");
        HEDDLE_TRY(Node * index, expression());
        HEDDLE_CHECK_OK(expect("]"));
        node = call(optional ? "_[?_]" : "_[_]", offset, {node, index});
      } else {
        return node;
      }
    }
  }

  Result<Node*> select(Node* operand, uint32_t offset) {
    bool optional = accept("?");
    Token name = current();
    if (name.kind != TokenKind::kIdentifier && name.kind != TokenKind::kEscapedIdentifier) return unexpected();
    ++next_;
    std::string field(name.text);
    if (name.kind == TokenKind::kEscapedIdentifier) return error_at(name.offset, "unsupported syntax '`'");
    if (optional) {
      Node* constant = tree_.make(NodeKind::kConstant, name.offset);
      constant->constant = Value::string(tree_.constants.copy(field));
      return call("_?._", offset, {operand, constant});
    }
    if (accept("(")) return call_with_macros(operand, field, name.offset);
    Node* node = tree_.make(NodeKind::kSelect, offset);
    node->text = field;
    node->children = {operand};
    return node;
  }

  Result<Node*> call_with_macros(Node* target, std::string_view function, uint32_t offset) {
    Node* node = call(function, offset, {});
    node->member = target != nullptr;
    if (target != nullptr) node->children.push_back(target);
    while (!at(")")) {
      HEDDLE_TRY(Node * argument, expression());
      node->children.push_back(argument);
      if (!accept(",")) break;
      if (at(")")) return unexpected();
    }
    HEDDLE_CHECK_OK(expect(")"));
    auto expanded = expand_macro(tree_, node);
    if (!expanded) return error_at(offset, expanded.error().message);
    return *expanded == nullptr ? node : *expanded;
  }

  Result<Node*> primary() {
    bool negative = std::exchange(negative_, false);
    Token token = current();
    switch (token.kind) {
      case TokenKind::kInt:
      case TokenKind::kUint:
      case TokenKind::kDouble:
        ++next_;
        return number(token, negative);
      case TokenKind::kString:
      case TokenKind::kBytes:
        ++next_;
        return quoted(token);
      case TokenKind::kIdentifier:
        return identifier(false);
      case TokenKind::kOperator:
        break;
      default:
        return unexpected();
    }
    if (accept(".")) return current().kind == TokenKind::kIdentifier ? identifier(true) : Result<Node*>(unexpected());
    if (accept("(")) {
      HEDDLE_TRY(Node * inner, expression());
      HEDDLE_CHECK_OK(expect(")"));
      return inner;
    }
    if (accept("[")) return list(token.offset);
    if (accept("{")) return map(token.offset);
    return unexpected();
  }

  Result<Node*> identifier(bool leading_dot) {
    Token token = current();
    ++next_;
    if (!leading_dot) {
      if (token.text == "true" || token.text == "false") return constant(token, Value::boolean(token.text == "true"));
      if (token.text == "null") return constant(token, Value::null());
      if (token.text == "in") return error_at(token.offset, "Syntax error: unexpected 'in'");
    }
    if (accept("(")) {
      if (is_reserved(token.text)) return error_at(token.offset, fmt::format("reserved identifier: {}", token.text));
      return call_with_macros(nullptr, token.text, token.offset);
    }
    if (is_reserved(token.text)) return error_at(token.offset, fmt::format("reserved identifier: {}", token.text));
    if (size_t length = message_name_length(); length > 0) return message(token, length);
    Node* node = tree_.make(NodeKind::kIdent, token.offset);
    node->text = token.text;
    node->absolute = leading_dot;
    return node;
  }

  // Tokens up to the "{" of a.b.c{...}; 0 when this is no message literal.
  [[nodiscard]] size_t message_name_length() const {
    size_t i = next_;
    auto is_op = [&](size_t at, std::string_view op) {
      return tokens_[at].kind == TokenKind::kOperator && tokens_[at].text == op;
    };
    while (is_op(i, ".") && tokens_[i + 1].kind == TokenKind::kIdentifier) i += 2;
    return is_op(i, "{") ? i - next_ + 1 : 0;
  }

  Result<Node*> message(const Token& first, size_t length) {
    Node* node = tree_.make(NodeKind::kMessage, first.offset);
    node->text = first.text;
    for (size_t i = 0; i + 1 < length; ++i) node->text += tokens_[next_ + i].text;
    next_ += length;
    while (!at("}")) {
      accept("?");
      if (current().kind != TokenKind::kIdentifier) return unexpected();
      ++next_;
      HEDDLE_CHECK_OK(expect(":"));
      HEDDLE_TRY(Node * value, expression());
      node->children.push_back(value);
      if (!accept(",")) break;
    }
    HEDDLE_CHECK_OK(expect("}"));
    return node;
  }

  Node* constant(const Token& token, Value value) {
    Node* node = tree_.make(NodeKind::kConstant, token.offset);
    node->constant = value;
    return node;
  }

  Result<Node*> number(const Token& token, bool negative) {
    std::string text(token.text);
    if (token.kind == TokenKind::kDouble) {
      double value = std::strtod(text.c_str(), nullptr);
      return constant(token, Value::real(negative ? -value : value));
    }
    if (token.kind == TokenKind::kUint) text.pop_back();
    bool hex = text.size() > 2 && text[1] == 'x';
    uint64_t value = 0;
    const char* begin = text.data() + (hex ? 2 : 0);
    auto [end, error] = std::from_chars(begin, text.data() + text.size(), value, hex ? 16 : 10);
    bool whole = error == std::errc() && end == text.data() + text.size();
    if (token.kind == TokenKind::kUint) {
      if (!whole) return error_at(token.offset, "invalid uint literal");
      return constant(token, Value::unsigned_integer(value));
    }
    constexpr uint64_t kLargest = static_cast<uint64_t>(INT64_MAX);
    if (!whole || value > kLargest + (negative ? 1U : 0U)) return error_at(token.offset, "invalid int literal");
    if (negative) return constant(token, Value::integer(static_cast<int64_t>(0 - value)));
    return constant(token, Value::integer(static_cast<int64_t>(value)));
  }

  Result<Node*> quoted(const Token& token) {
    auto text = unescape_literal(token.text);
    if (!text) return error_at(token.offset, text.error().message);
    std::string_view kept = tree_.constants.copy(*text);
    return constant(token, token.kind == TokenKind::kString ? Value::string(kept) : Value::bytes(kept));
  }

  Result<Node*> list(uint32_t offset) {
    Node* node = tree_.make(NodeKind::kList, offset);
    while (!at("]")) {
      node->optional.push_back(accept("?"));
      HEDDLE_TRY(Node * element, expression());
      node->children.push_back(element);
      if (!accept(",")) break;
    }
    HEDDLE_CHECK_OK(expect("]"));
    return node;
  }

  Result<Node*> map(uint32_t offset) {
    Node* node = tree_.make(NodeKind::kMap, offset);
    while (!at("}")) {
      node->optional.push_back(accept("?"));
      HEDDLE_TRY(Node * key, expression());
      HEDDLE_CHECK_OK(expect(":"));
      HEDDLE_TRY(Node * value, expression());
      node->children.push_back(key);
      node->children.push_back(value);
      if (!accept(",")) break;
    }
    HEDDLE_CHECK_OK(expect("}"));
    return node;
  }

  std::string_view source_;
  std::vector<Token> tokens_;
  SyntaxTree& tree_;
  size_t next_ = 0;
  int depth_ = 0;
  bool negative_ = false;  // the next primary is a number behind a minus sign
};

}  // namespace

Result<void> parse(std::string_view expression, SyntaxTree& tree) {
  if (const int64_t size = code_points(expression); size > kMaxCodePoints)
    return fail(Code::kInvalidArgument,
                fmt::format("expression code point size exceeds limit: size: {}, limit {}", size, kMaxCodePoints));
  HEDDLE_TRY(std::vector<Token> tokens, tokenize(expression));
  HEDDLE_TRY(tree.root, Parser(expression, std::move(tokens), tree).run());
  return {};
}

}  // namespace heddle::cel
