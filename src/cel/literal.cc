// Quoted literals, unescaped as GoogleSQL does (cel-go parser/unescape.go).
#include <algorithm>

#include "cel/syntax.h"

namespace heddle::cel {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append_utf8(std::string& out, uint32_t rune) {
  auto push = [&out](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (rune < 0x80) {
    push(rune);
  } else if (rune < 0x800) {
    push(0xC0 | rune >> 6);
    push(0x80 | (rune & 0x3F));
  } else if (rune < 0x10000) {
    push(0xE0 | rune >> 12);
    push(0x80 | (rune >> 6 & 0x3F));
    push(0x80 | (rune & 0x3F));
  } else {
    push(0xF0 | rune >> 18);
    push(0x80 | (rune >> 12 & 0x3F));
    push(0x80 | (rune >> 6 & 0x3F));
    push(0x80 | (rune & 0x3F));
  }
}

bool valid_rune(uint32_t rune) {
  return rune <= 0x10FFFF && (rune < 0xD800 || rune > 0xDFFF);
}

tl::unexpected<Error> bad(std::string_view what) {
  return fail(Code::kInvalidArgument, std::string(what));
}

class Unescaper {
 public:
  Unescaper(std::string_view text, bool bytes) : text_(text), bytes_(bytes) {}

  Result<std::string> run() {
    while (position_ < text_.size()) {
      char c = text_[position_++];
      if (c == '\\') {
        HEDDLE_CHECK_OK(escape());
      } else {
        out_.push_back(c);
      }
    }
    return std::move(out_);
  }

 private:
  Result<void> escape() {
    if (position_ == text_.size()) return bad("unable to unescape string, found '\\' as last character");
    char c = text_[position_++];
    static constexpr std::string_view kNames = "abfnrtv\\'\"`?";
    static constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"`?";
    if (size_t at = kNames.find(c); at != std::string_view::npos) {
      out_.push_back(kValues[at]);
      return {};
    }
    if (c == 'x' || c == 'X') return number(2, 16, 0);
    if (c == 'u' && !bytes_) return number(4, 16, 0);
    if (c == 'U' && !bytes_) return number(8, 16, 0);
    if (c >= '0' && c <= '3') return number(2, 8, static_cast<uint32_t>(c - '0'));
    return bad("unable to unescape string");
  }

  Result<void> number(int digits, int base, uint32_t value) {
    for (int i = 0; i < digits; ++i) {
      int digit = position_ < text_.size() ? hex_digit(text_[position_++]) : -1;
      if (digit < 0 || digit >= base) return bad("unable to unescape string");
      value = value * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit);
    }
    if (bytes_) {
      out_.push_back(static_cast<char>(value));
      return {};
    }
    if (!valid_rune(value)) return bad("invalid unicode code point");
    append_utf8(out_, value);
    return {};
  }

  std::string_view text_;
  bool bytes_;
  size_t position_ = 0;
  std::string out_;
};

// All strings normalise newlines to \n.
std::string normalize_newlines(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      out.push_back(text[i]);
    } else if (i + 1 == text.size() || text[i + 1] != '\n') {
      out.push_back('\n');
    }
  }
  return out;
}

}  // namespace

Result<std::string> unescape_literal(std::string_view literal) {
  bool bytes = false;
  bool raw = false;
  while (!literal.empty() && literal[0] != '"' && literal[0] != '\'') {
    bytes |= literal[0] == 'b' || literal[0] == 'B';
    raw |= literal[0] == 'r' || literal[0] == 'R';
    literal.remove_prefix(1);
  }
  size_t quotes = literal.size() >= 6 && literal[1] == literal[0] && literal[2] == literal[0] ? 3 : 1;
  if (literal.size() < 2 * quotes) return bad("unable to unescape string");
  std::string text = normalize_newlines(literal.substr(quotes, literal.size() - 2 * quotes));
  if (raw || text.find('\\') == std::string::npos) return text;
  return Unescaper(text, bytes).run();
}

}  // namespace heddle::cel
