#include "cel/lexer.h"

#include <fmt/format.h>

#include <array>

#include "cel/syntax.h"

namespace heddle::cel {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_quote(char c) {
  return c == '"' || c == '\'';
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Result<std::vector<Token>> run() {
    std::vector<Token> tokens;
    for (;;) {
      skip_blanks();
      start_ = position_;
      if (position_ == source_.size()) {
        tokens.push_back({TokenKind::kEnd, {}, static_cast<uint32_t>(position_)});
        return tokens;
      }
      HEDDLE_TRY(TokenKind kind, next());
      tokens.push_back({kind, source_.substr(start_, position_ - start_), static_cast<uint32_t>(start_)});
    }
  }

 private:
  [[nodiscard]] char peek(size_t ahead = 0) const {
    return position_ + ahead < source_.size() ? source_[position_ + ahead] : '\0';
  }

  void skip_blanks() {
    while (position_ < source_.size()) {
      char c = source_[position_];
      if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f') {
        ++position_;
      } else if (c == '/' && peek(1) == '/') {
        while (position_ < source_.size() && source_[position_] != '\n') ++position_;
      } else {
        return;
      }
    }
  }

  tl::unexpected<Error> error(std::string_view what) const {
    return fail(Code::kInvalidArgument,
                fmt::format("Syntax error: {} at {}", what, location_text(source_, static_cast<uint32_t>(start_))));
  }

  Result<TokenKind> next() {
    char c = peek();
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return number();
    if (is_quote(c)) return string(TokenKind::kString, 0);
    if (auto prefix = string_prefix(); prefix > 0)
      return string(bytes_ ? TokenKind::kBytes : TokenKind::kString, prefix);
    if (is_letter(c)) {
      while (is_letter(peek()) || is_digit(peek())) ++position_;
      return TokenKind::kIdentifier;
    }
    if (c == '`') return escaped_identifier();
    return punctuation();
  }

  // Length of r, R, b, B, br, ... before a quote; 0 when this is no literal.
  size_t string_prefix() {
    size_t length = 0;
    bytes_ = false;
    raw_ = false;
    if (peek() == 'b' || peek() == 'B') {
      bytes_ = true;
      ++length;
    }
    if (peek(length) == 'r' || peek(length) == 'R') {
      raw_ = true;
      ++length;
    }
    return length > 0 && is_quote(peek(length)) ? length : 0;
  }

  Result<TokenKind> string(TokenKind kind, size_t prefix) {
    bool raw = prefix > 0 && raw_;
    position_ += prefix;
    char quote = peek();
    bool triple = peek(1) == quote && peek(2) == quote;
    position_ += triple ? 3 : 1;
    while (position_ < source_.size()) {
      char c = peek();
      if (c == quote && (!triple || (peek(1) == quote && peek(2) == quote))) {
        position_ += triple ? 3 : 1;
        return kind;
      }
      if (!triple && (c == '\n' || c == '\r')) break;
      position_ += c == '\\' && !raw ? 2 : 1;
    }
    return error("string without an end");
  }

  Result<TokenKind> number() {
    if (peek() == '0' && peek(1) == 'x' && is_hex(peek(2))) {
      position_ += 2;
      while (is_hex(peek())) ++position_;
      return unsigned_suffix(TokenKind::kInt);
    }
    TokenKind kind = TokenKind::kInt;
    while (is_digit(peek())) ++position_;
    if (peek() == '.' && is_digit(peek(1))) {
      kind = TokenKind::kDouble;
      ++position_;
      while (is_digit(peek())) ++position_;
    }
    size_t sign = peek(1) == '+' || peek(1) == '-' ? 2 : 1;
    if ((peek() == 'e' || peek() == 'E') && is_digit(peek(sign))) {
      kind = TokenKind::kDouble;
      position_ += sign;
      while (is_digit(peek())) ++position_;
    }
    return unsigned_suffix(kind);
  }

  TokenKind unsigned_suffix(TokenKind kind) {
    if (kind != TokenKind::kInt || (peek() != 'u' && peek() != 'U')) return kind;
    ++position_;
    return TokenKind::kUint;
  }

  Result<TokenKind> escaped_identifier() {
    ++position_;
    while (is_letter(peek()) || is_digit(peek()) || peek() == '.' || peek() == '-' || peek() == '/' || peek() == ' ')
      ++position_;
    if (peek() != '`' || position_ - start_ < 2) return error("identifier in back quotes without an end");
    ++position_;
    return TokenKind::kEscapedIdentifier;
  }

  Result<TokenKind> punctuation() {
    static constexpr std::array<std::string_view, 6> kPairs = {"==", "!=", "<=", ">=", "&&", "||"};
    for (std::string_view pair : kPairs) {
      if (source_.substr(position_, 2) == pair) {
        position_ += 2;
        return TokenKind::kOperator;
      }
    }
    if (std::string_view("[]{}().,-!?:+*/%<>").find(peek()) == std::string_view::npos)
      return error(fmt::format("token recognition error at: '{}'", peek()));
    ++position_;
    return TokenKind::kOperator;
  }

  std::string_view source_;
  size_t position_ = 0;
  size_t start_ = 0;
  bool bytes_ = false;
  bool raw_ = false;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view expression) {
  return Lexer(expression).run();
}

std::string location_text(std::string_view expression, uint32_t offset) {
  size_t line = 1;
  size_t start = 0;
  for (size_t i = 0; i < offset && i < expression.size(); ++i) {
    if (expression[i] != '\n') continue;
    ++line;
    start = i + 1;
  }
  return fmt::format("{}:{}", line, offset - start + 1);
}

}  // namespace heddle::cel
