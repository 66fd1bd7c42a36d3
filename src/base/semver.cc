#include "base/semver.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace heddle {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_identifier(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
}
bool all_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), is_digit);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t start = 0;;) {
    size_t end = text.find(separator, start);
    parts.push_back(text.substr(start, end == std::string_view::npos ? end : end - start));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

// The first two dots separate; what follows the second belongs to the patch with its suffixes.
std::vector<std::string_view> split_numbers(std::string_view text) {
  std::vector<std::string_view> parts;
  while (parts.size() < 2) {
    size_t dot = text.find('.');
    if (dot == std::string_view::npos) break;
    parts.push_back(text.substr(0, dot));
    text.remove_prefix(dot + 1);
  }
  parts.push_back(text);
  return parts;
}

Result<uint64_t> parse_number(std::string_view text, std::string_view what) {
  if (text.empty() || !all_digits(text))
    return fail(Code::kInvalidArgument, fmt::format("Invalid character(s) found in {} number \"{}\"", what, text));
  if (text.size() > 1 && text[0] == '0')
    return fail(Code::kInvalidArgument, fmt::format("{} number must not contain leading zeroes \"{}\"", what, text));
  uint64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    return fail(Code::kInvalidArgument, fmt::format("{} number \"{}\" is out of range", what, text));
  return number;
}

Result<Semver::Identifier> parse_identifier(std::string_view text) {
  if (text.empty()) return fail(Code::kInvalidArgument, "Prerelease is empty");
  Semver::Identifier identifier;
  if (all_digits(text)) {
    HEDDLE_TRY(identifier.number, parse_number(text, "Prerelease"));
    identifier.numeric = true;
    return identifier;
  }
  if (!std::all_of(text.begin(), text.end(), is_identifier))
    return fail(Code::kInvalidArgument, fmt::format("Invalid character(s) found in prerelease \"{}\"", text));
  identifier.text = text;
  return identifier;
}

int compare_identifiers(const Semver::Identifier& a, const Semver::Identifier& b) {
  if (a.numeric != b.numeric) return a.numeric ? -1 : 1;
  if (!a.numeric) return a.text.compare(b.text) < 0 ? -1 : (a.text == b.text ? 0 : 1);
  if (a.number == b.number) return 0;
  return a.number < b.number ? -1 : 1;
}

std::string without_leading_zeros(std::string_view part) {
  if (part.size() <= 1) return std::string(part);
  size_t kept = std::min(part.find_first_not_of('0'), part.size());
  std::string_view rest = part.substr(kept);
  if (rest.empty() || !is_digit(rest[0])) return "0" + std::string(rest);
  return std::string(rest);
}

}  // namespace

Result<Semver> Semver::parse(std::string_view text) {
  if (text.empty()) return fail(Code::kInvalidArgument, "Version string empty");
  auto parts = split_numbers(text);
  if (parts.size() != 3) return fail(Code::kInvalidArgument, "No Major.Minor.Patch elements found");
  Semver version;
  HEDDLE_TRY(version.major_, parse_number(parts[0], "Major"));
  HEDDLE_TRY(version.minor_, parse_number(parts[1], "Minor"));
  std::string_view patch = parts[2];
  std::vector<std::string_view> build;
  std::vector<std::string_view> pre;
  if (size_t plus = patch.find('+'); plus != std::string_view::npos) {
    build = split(patch.substr(plus + 1), '.');
    patch = patch.substr(0, plus);
  }
  if (size_t dash = patch.find('-'); dash != std::string_view::npos) {
    pre = split(patch.substr(dash + 1), '.');
    patch = patch.substr(0, dash);
  }
  HEDDLE_TRY(version.patch_, parse_number(patch, "Patch"));
  for (std::string_view part : pre) {
    HEDDLE_TRY(auto identifier, parse_identifier(part));
    version.pre_.push_back(std::move(identifier));
  }
  for (std::string_view part : build) {
    if (part.empty()) return fail(Code::kInvalidArgument, "Build meta data is empty");
    if (!std::all_of(part.begin(), part.end(), is_identifier))
      return fail(Code::kInvalidArgument, fmt::format("Invalid character(s) found in build meta data \"{}\"", part));
    version.build_.emplace_back(part);
  }
  return version;
}

Result<Semver> Semver::parse_normalized(std::string_view text) {
  if (!text.empty() && text[0] == 'v') text.remove_prefix(1);
  auto parts = split_numbers(text);
  std::array<std::string, 3> numbers = {"0", "0", "0"};
  if (parts.size() < 3 && parts.back().find_first_of("+-") != std::string_view::npos)
    return fail(Code::kInvalidArgument, "short version cannot contain PreRelease/Build meta data");
  for (size_t i = 0; i < parts.size(); ++i) numbers[i] = without_leading_zeros(parts[i]);
  return parse(numbers[0] + "." + numbers[1] + "." + numbers[2]);
}

std::string Semver::to_string() const {
  std::string text = fmt::format("{}.{}.{}", major_, minor_, patch_);
  char separator = '-';
  for (const Identifier& identifier : pre_) {
    text += separator;
    text += identifier.numeric ? std::to_string(identifier.number) : identifier.text;
    separator = '.';
  }
  separator = '+';
  for (const std::string& part : build_) {
    text += separator;
    text += part;
    separator = '.';
  }
  return text;
}

int Semver::compare(const Semver& other) const {
  if (major_ != other.major_) return major_ < other.major_ ? -1 : 1;
  if (minor_ != other.minor_) return minor_ < other.minor_ ? -1 : 1;
  if (patch_ != other.patch_) return patch_ < other.patch_ ? -1 : 1;
  if (pre_.empty() || other.pre_.empty()) return pre_.empty() == other.pre_.empty() ? 0 : (pre_.empty() ? 1 : -1);
  for (size_t i = 0; i < std::min(pre_.size(), other.pre_.size()); ++i)
    if (int order = compare_identifiers(pre_[i], other.pre_[i]); order != 0) return order;
  if (pre_.size() == other.pre_.size()) return 0;
  return pre_.size() < other.pre_.size() ? -1 : 1;
}

}  // namespace heddle
