#include "dialects/amounts.h"

#include <fmt/format.h>

#include "base/quantity.h"
#include "dialects/claim_form.h"

namespace heddle::dialects {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

std::string binary_hint(const std::string& value, std::optional<int64_t> bytes, AmountReader::Unit unit) {
  if (unit.bytes == 0) return fmt::format("\"{}\" has a suffix of bytes; write a plain whole number", value);
  if (!bytes || *bytes < unit.bytes) {
    return fmt::format("\"{}\": the unit is {}; write a plain number of {}", value, unit.word, unit.word);
  }
  const int64_t units = *bytes / unit.bytes + (*bytes % unit.bytes == 0 ? 0 : 1);
  return fmt::format("\"{}\": the unit is {}; write {}", value, unit.word, units);
}

// 16G reaches us as 16000000000: surely bytes were meant.
std::string too_large_hint(std::optional<int64_t> number, AmountReader::Unit unit) {
  if (unit.bytes == 0 || !number) return {};
  const int64_t units = *number / unit.bytes + (*number % unit.bytes == 0 ? 0 : 1);
  return fmt::format("; the unit is {}: for that many bytes write {}", unit.word, units);
}

}  // namespace

void AmountReader::refuse(std::string_view key, std::string_view message) const {
  const std::string_view list = resources_.limits.contains(std::string(key)) ? "limits" : "requests";
  refusals_.push_back({fmt::format("{}.{}[{}]", resources_.path, list, key),
                       fmt::format("{} (container {})", message, resources_.container)});
}

const std::string* AmountReader::text(std::string_view key) const {
  const std::string name(key);
  if (const auto it = resources_.limits.find(name); it != resources_.limits.end()) return &it->second;
  if (const auto it = resources_.requests.find(name); it != resources_.requests.end()) return &it->second;
  return nullptr;
}

std::string AmountReader::written(const std::vector<std::string>& names) const {
  std::string found;
  for (const std::string& name : names) {
    if (text(name) == nullptr) continue;
    if (!found.empty()) refuse(name, fmt::format("means the same as {}, which is written too; write only one", found));
    if (found.empty()) found = name;
  }
  return found;
}

std::optional<int64_t> AmountReader::number(const std::string& key, Unit unit) const {
  const std::string* value = text(key);
  if (value == nullptr) return std::nullopt;
  const auto no = [&](const std::string& message) {
    refuse(key, message);
    return std::nullopt;
  };
  const Result<Quantity> quantity = Quantity::parse(*value);
  if (!quantity) {
    return no(fmt::format("\"{}\" is not a number; write a whole number{}{}", *value, unit.bytes == 0 ? "" : " of ",
                          unit.word));
  }
  const std::optional<int64_t> number = quantity->value();
  if (quantity->format() == Quantity::Format::kBinarySi) return no(binary_hint(*value, number, unit));
  if (!quantity->is_integer()) return no(fmt::format("\"{}\" is a fraction; write a whole number", *value));
  if (quantity->sign() < 0) return no(fmt::format("\"{}\" is negative; write 0 or more", *value));
  if (!number || *number > kMaxUnits)
    return no(fmt::format("\"{}\" is above {}{}", *value, kMaxUnits, too_large_hint(number, unit)));
  return number;
}

std::optional<int64_t> AmountReader::mebibytes(const std::string& key, int64_t unit_bytes) const {
  const std::string* value = text(key);
  if (value == nullptr) return std::nullopt;
  const Result<Quantity> quantity = Quantity::parse(*value);
  if (!quantity) {
    refuse(key,
           fmt::format("\"{}\" is not a number; write a whole number of GiB, or bytes with a binary suffix, such as "
                       "512Mi",
                       *value));
    return std::nullopt;
  }
  const bool bytes = quantity->format() == Quantity::Format::kBinarySi;
  if (!bytes) {
    const std::optional<int64_t> units = number(key, {"GiB", unit_bytes});
    if (!units) return std::nullopt;
    if (*units > kMaxUnits / (unit_bytes / kMebibyte)) {
      refuse(key,
             fmt::format("\"{}\" is {} GiB, more than {} MiB; write a number of GiB, or bytes with a binary suffix, "
                         "such as 512Mi",
                         *value, *units, kMaxUnits));
      return std::nullopt;
    }
    return *units * (unit_bytes / kMebibyte);
  }
  const std::optional<int64_t> amount = quantity->value();
  const bool whole = quantity->is_integer() && amount && *amount >= 0 && *amount % kMebibyte == 0;
  if (!whole || *amount / kMebibyte > kMaxUnits) {
    refuse(key, fmt::format("\"{}\" is not a whole number of MiB up to {}; write one, such as 512Mi, or a plain number "
                            "of GiB",
                            *value, kMaxUnits));
    return std::nullopt;
  }
  return *amount / kMebibyte;
}

void AmountReader::check_agreement(const std::string& key) const {
  const auto limit = resources_.limits.find(key);
  const auto request = resources_.requests.find(key);
  if (limit == resources_.limits.end() || request == resources_.requests.end()) return;
  const Result<Quantity> a = Quantity::parse(limit->second);
  const Result<Quantity> b = Quantity::parse(request->second);
  if (a && b && *a == *b) return;
  refuse(key, fmt::format("limits say \"{}\" and requests say \"{}\"; the two must be equal: write it in limits only",
                          limit->second, request->second));
}

}  // namespace heddle::dialects
