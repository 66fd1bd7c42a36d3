// Strings (cel-go v0.29.2 ext/strings.go version 2) and regular expressions (RE2, as upstream's regexp package).
// Positions count code points.
#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>

#include "cel/functions.h"

namespace heddle::cel {

namespace {

using Args = std::span<const Value>;

bool strings(Args args) {
  return std::all_of(args.begin(), args.end(), [](const Value& v) { return v.is(Kind::kString); });
}

size_t rune_length(char first) {
  auto byte = static_cast<unsigned char>(first);
  if (byte < 0x80) return 1;
  if (byte < 0xE0) return 2;
  return byte < 0xF0 ? 3 : 4;
}

// Byte position of a code point; npos when it lies beyond the end.
size_t byte_offset(std::string_view text, int64_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += std::min(rune_length(text[at]), text.size() - at);
  return index == 0 ? at : std::string_view::npos;
}

Value out_of_range(Evaluation& e, int64_t index) {
  return e.error(fmt::format("index out of range: {}", index));
}

Value char_at(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kString) || !args[1].is(Kind::kInt)) return e.no_overload();
  std::string_view text = args[0].as_text();
  int64_t index = args[1].as_int();
  size_t at = index < 0 ? std::string_view::npos : byte_offset(text, index);
  if (at == std::string_view::npos) return out_of_range(e, index);
  return Value::string(at == text.size() ? std::string_view() : text.substr(at, rune_length(text[at])));
}

Value list_index_of(Evaluation& e, Args args) {
  if (args.size() != 2) return e.no_overload();
  const List& list = args[0].as_list();
  for (size_t i = 0; i < list.size; ++i)
    if (equal(list.items[i], args[1])) return Value::integer(static_cast<int64_t>(i));
  return Value::integer(-1);
}

Value list_last_index_of(Evaluation& e, Args args) {
  if (args.size() != 2) return e.no_overload();
  const List& list = args[0].as_list();
  for (size_t i = list.size; i > 0; --i)
    if (equal(list.items[i - 1], args[1])) return Value::integer(static_cast<int64_t>(i - 1));
  return Value::integer(-1);
}

Value index_of(Evaluation& e, Args args) {
  if (args[0].is(Kind::kList)) return list_index_of(e, args);
  if (!strings(args.first(2)) || (args.size() == 3 && !args[2].is(Kind::kInt))) return e.no_overload();
  std::string_view text = args[0].as_text();
  int64_t start = args.size() == 3 ? args[2].as_int() : 0;
  if (start < 0) return out_of_range(e, start);
  if (args[1].as_text().empty()) return Value::integer(std::min(start, code_points(text)));
  size_t from = byte_offset(text, start);
  if (from == std::string_view::npos) return Value::integer(-1);
  size_t at = text.find(args[1].as_text(), from);
  return Value::integer(at == std::string_view::npos ? -1 : code_points(text.substr(0, at)));
}

Value last_index_of(Evaluation& e, Args args) {
  if (args[0].is(Kind::kList)) return list_last_index_of(e, args);
  if (!strings(args.first(2)) || (args.size() == 3 && !args[2].is(Kind::kInt))) return e.no_overload();
  std::string_view text = args[0].as_text();
  const int64_t length = code_points(text);
  int64_t last = args.size() == 3 ? args[2].as_int() : length;
  if (last < 0) return out_of_range(e, last);
  if (args[1].as_text().empty()) return Value::integer(std::min(last, length));
  if (args.size() == 3 && last >= length) return Value::integer(-1);  // as upstream, not the last place of all
  size_t from = byte_offset(text, last);
  size_t at = text.rfind(args[1].as_text(), from);
  return Value::integer(at == std::string_view::npos ? -1 : code_points(text.substr(0, at)));
}

Value ascii_case(Evaluation& e, Args args, char from, char to, int shift) {
  if (!args[0].is(Kind::kString)) return e.no_overload();
  std::string text(args[0].as_text());
  for (char& c : text)
    if (c >= from && c <= to) c = static_cast<char>(c + shift);
  return e.text(text);
}
Value lower_ascii(Evaluation& e, Args args) {
  return ascii_case(e, args, 'A', 'Z', 32);
}
Value upper_ascii(Evaluation& e, Args args) {
  return ascii_case(e, args, 'a', 'z', -32);
}

Value replace(Evaluation& e, Args args) {
  if (!strings(args.first(3)) || (args.size() == 4 && !args[3].is(Kind::kInt))) return e.no_overload();
  std::string_view text = args[0].as_text();
  std::string_view from = args[1].as_text();
  int64_t left = args.size() == 4 ? args[3].as_int() : -1;
  std::string out;
  size_t at = 0;
  while (left != 0) {
    size_t found = text.find(from, at);
    if (found == std::string_view::npos) break;
    out += text.substr(at, found - at);
    out += args[2].as_text();
    at = found + from.size();
    --left;
    if (!from.empty()) continue;
    // Between any two code points, and at both ends.
    if (found == text.size()) return e.text(out);
    size_t length = std::min(rune_length(text[found]), text.size() - found);
    out += text.substr(found, length);
    at = found + length;
  }
  out += text.substr(std::min(at, text.size()));
  return e.text(out);
}

Value split(Evaluation& e, Args args) {
  if (!strings(args.first(2)) || (args.size() == 3 && !args[2].is(Kind::kInt))) return e.no_overload();
  std::string_view text = args[0].as_text();
  std::string_view separator = args[1].as_text();
  int64_t limit = args.size() == 3 ? args[2].as_int() : -1;
  std::vector<Value> parts;
  if (limit == 0) return e.list(parts);
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit - 1) {
    size_t length = 0;
    size_t found = std::string_view::npos;
    if (separator.empty()) {
      if (!text.empty()) found = std::min(rune_length(text[0]), text.size());
      if (found == text.size()) found = std::string_view::npos;
    } else {
      found = text.find(separator);
      length = separator.size();
    }
    if (found == std::string_view::npos) break;
    parts.push_back(Value::string(text.substr(0, found)));
    text.remove_prefix(found + length);
  }
  if (!separator.empty() || !text.empty()) parts.push_back(Value::string(text));
  return e.list(parts);
}

Value substring(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kString) || !args[1].is(Kind::kInt) || (args.size() == 3 && !args[2].is(Kind::kInt)))
    return e.no_overload();
  std::string_view text = args[0].as_text();
  int64_t start = args[1].as_int();
  int64_t end = args.size() == 3 ? args[2].as_int() : code_points(text);
  if (start > end && args.size() == 3)
    return e.error(fmt::format("invalid substring range. start: {}, end: {}", start, end));
  size_t from = start < 0 ? std::string_view::npos : byte_offset(text, start);
  if (from == std::string_view::npos) return out_of_range(e, start);
  size_t to = end < 0 ? std::string_view::npos : byte_offset(text, end);
  if (to == std::string_view::npos) return out_of_range(e, end);
  return Value::string(text.substr(from, to - from));
}

// Length of the blank at the start of the text (Unicode White_Space); 0 when there is none.
size_t blank_length(std::string_view text) {
  static constexpr std::array<std::string_view, 25> kBlanks = {" ",
                                                               "\t",
                                                               "\n",
                                                               "\v",
                                                               "\f",
                                                               "\r",
                                                               "\xC2\x85",
                                                               "\xC2\xA0",
                                                               "\xE1\x9A\x80",
                                                               "\xE2\x80\x80",
                                                               "\xE2\x80\x81",
                                                               "\xE2\x80\x82",
                                                               "\xE2\x80\x83",
                                                               "\xE2\x80\x84",
                                                               "\xE2\x80\x85",
                                                               "\xE2\x80\x86",
                                                               "\xE2\x80\x87",
                                                               "\xE2\x80\x88",
                                                               "\xE2\x80\x89",
                                                               "\xE2\x80\x8A",
                                                               "\xE2\x80\xA8",
                                                               "\xE2\x80\xA9",
                                                               "\xE2\x80\xAF",
                                                               "\xE2\x81\x9F",
                                                               "\xE3\x80\x80"};
  for (std::string_view blank : kBlanks)
    if (text.substr(0, blank.size()) == blank) return blank.size();
  return 0;
}

Value trim(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kString)) return e.no_overload();
  std::string_view text = args[0].as_text();
  while (size_t length = blank_length(text)) text.remove_prefix(length);
  for (bool again = true; again;) {
    again = false;
    for (size_t length = 1; length <= 3 && length <= text.size(); ++length) {
      if (blank_length(text.substr(text.size() - length)) != length) continue;
      text.remove_suffix(length);
      again = true;
      break;
    }
  }
  return Value::string(text);
}

Value join(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kList) || (args.size() == 2 && !args[1].is(Kind::kString))) return e.no_overload();
  std::string out;
  const List& list = args[0].as_list();
  for (size_t i = 0; i < list.size; ++i) {
    if (!list.items[i].is(Kind::kString)) return e.no_overload();
    if (i > 0 && args.size() == 2) out += args[1].as_text();
    out += list.items[i].as_text();
  }
  return e.text(out);
}

Value quote(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kString)) return e.no_overload();
  std::string out = "\"";
  static constexpr std::string_view kRaw = "\a\b\f\n\r\t\v\\\"";
  static constexpr std::string_view kNames = "abfnrtv\\\"";
  for (char c : args[0].as_text()) {
    size_t at = kRaw.find(c);
    if (at == std::string_view::npos) {
      out += c;
    } else {
      out += '\\';
      out += kNames[at];
    }
  }
  return e.text(out + "\"");
}

Value contains(Evaluation& e, Args args) {
  return strings(args) ? Value::boolean(args[0].as_text().find(args[1].as_text()) != std::string_view::npos)
                       : e.no_overload();
}
Value starts_with(Evaluation& e, Args args) {
  return strings(args) ? Value::boolean(args[0].as_text().substr(0, args[1].as_text().size()) == args[1].as_text())
                       : e.no_overload();
}
Value ends_with(Evaluation& e, Args args) {
  if (!strings(args)) return e.no_overload();
  std::string_view text = args[0].as_text();
  std::string_view end = args[1].as_text();
  return Value::boolean(text.size() >= end.size() && text.substr(text.size() - end.size()) == end);
}

re2::StringPiece piece(std::string_view text) {
  return {text.data(), text.size()};
}

// The messages of Go's package for the codes of RE2, which was made from the same rules.
std::string_view go_message(RE2::ErrorCode code) {
  switch (code) {
    case RE2::ErrorBadEscape:
      return "invalid escape sequence";
    case RE2::ErrorBadCharClass:
      return "invalid character class";
    case RE2::ErrorBadCharRange:
      return "invalid character class range";
    case RE2::ErrorMissingBracket:
      return "missing closing ]";
    case RE2::ErrorMissingParen:
      return "missing closing )";
    case RE2::ErrorTrailingBackslash:
      return "trailing backslash at end of expression";
    case RE2::ErrorRepeatArgument:
      return "missing argument to repetition operator";
    case RE2::ErrorRepeatSize:
      return "invalid repeat count";
    case RE2::ErrorRepeatOp:
      return "invalid nested repetition operator";
    case RE2::ErrorBadPerlOp:
      return "invalid or unsupported Perl syntax";
    case RE2::ErrorBadUTF8:
      return "invalid UTF-8";
    case RE2::ErrorBadNamedCapture:
      return "invalid named capture";
    case RE2::ErrorPatternTooLarge:
      return "expression too large";
    default:
      return "unexpected )";
  }
}

bool pattern_arguments(Args args) {
  return strings(args.first(2)) && (args.size() < 3 || args[2].is(Kind::kInt));
}

Value matches_with(Evaluation& e, const Pattern& pattern, Args args) {
  if (!pattern_arguments(args)) return e.no_overload();
  return Value::boolean(RE2::PartialMatch(piece(args[0].as_text()), pattern.expression()));
}

Value find_with(Evaluation& e, const Pattern& pattern, Args args) {
  if (!pattern_arguments(args)) return e.no_overload();
  std::string_view text = args[0].as_text();
  re2::StringPiece found;
  if (!pattern.expression().Match(piece(text), 0, text.size(), RE2::UNANCHORED, &found, 1)) return Value::string("");
  return Value::string({found.data(), found.size()});
}

Value find_all_with(Evaluation& e, const Pattern& pattern, Args args) {
  if (!pattern_arguments(args)) return e.no_overload();
  std::string_view text = args[0].as_text();
  int64_t limit = args.size() == 3 ? args[2].as_int() : -1;
  std::vector<Value> found;
  for (size_t at = 0; at <= text.size() && (limit < 0 || static_cast<int64_t>(found.size()) < limit);) {
    re2::StringPiece match;
    if (!pattern.expression().Match(piece(text), at, text.size(), RE2::UNANCHORED, &match, 1)) break;
    auto start = static_cast<size_t>(match.data() - text.data());
    found.push_back(Value::string(text.substr(start, match.size())));
    at = start + std::max<size_t>(match.size(), start < text.size() ? rune_length(text[start]) : 1);
    if (!match.empty()) at = start + match.size();
  }
  return e.list(found);
}

// For patterns that are not constant: compiled for this one call.
template <PatternImplementation kRun>
Value compile_and_run(Evaluation& e, Args args, std::string_view prefix) {
  if (!pattern_arguments(args)) return e.no_overload();
  const auto pattern = Pattern::compile(args[1].as_text());
  if (!pattern) return e.error(fmt::format("{}{}", prefix, pattern.error().message));
  return kRun(e, **pattern, args);
}
Value matches(Evaluation& e, Args args) {
  return compile_and_run<matches_with>(e, args, "");
}
Value find(Evaluation& e, Args args) {
  return compile_and_run<find_with>(e, args, "Illegal regex: ");
}
Value find_all(Evaluation& e, Args args) {
  return compile_and_run<find_all_with>(e, args, "Illegal regex: ");
}

constexpr std::array<FunctionEntry, 17> kFunctions = {{
    {"charAt", char_at, CostRule::kOne},
    {"indexOf", index_of, CostRule::kElements},
    {"lastIndexOf", last_index_of, CostRule::kElements},
    {"lowerAscii", lower_ascii, CostRule::kTraverseFirst},
    {"upperAscii", upper_ascii, CostRule::kTraverseFirst},
    {"replace", replace, CostRule::kTraverseFirstTwice},
    {"split", split, CostRule::kTraverseFirstTwice},
    {"substring", substring, CostRule::kTraverseFirst},
    {"trim", trim, CostRule::kTraverseFirst},
    {"join", join, CostRule::kTraverseResult},
    {"strings.quote", quote, CostRule::kTraverseFirst},
    {"contains", contains, CostRule::kContains},
    {"startsWith", starts_with, CostRule::kTraverseSecond},
    {"endsWith", ends_with, CostRule::kTraverseSecond},
    {"matches", matches, CostRule::kRegex, matches_with},
    {"find", find, CostRule::kRegex, find_with},
    {"findAll", find_all, CostRule::kRegex, find_all_with},
}};

}  // namespace

Pattern::Pattern(std::unique_ptr<re2::RE2> expression) : expression_(std::move(expression)) {}
Pattern::~Pattern() = default;

Result<std::unique_ptr<const Pattern>> Pattern::compile(std::string_view text) {
  RE2::Options options;
  options.set_log_errors(false);
  auto expression = std::make_unique<RE2>(piece(text), options);
  if (!expression->ok())
    return fail(Code::kInvalidArgument, fmt::format("error parsing regexp: {}: `{}`",
                                                    go_message(expression->error_code()), expression->error_arg()));
  return std::unique_ptr<const Pattern>(new Pattern(std::move(expression)));
}

std::span<const FunctionEntry> text_functions() {
  return kFunctions;
}

}  // namespace heddle::cel
