#include "dialects/names.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdint>

namespace heddle::dialects {
namespace {

constexpr size_t kLabelLimit = 63;
constexpr size_t kDigits = 10;

bool is_lower_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// FNV-1a: stable over versions and machines, which names need more than anything else.
uint64_t hash(std::string_view text) {
  uint64_t value = 14695981039346656037ULL;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return value;
}

std::string hash_digits(std::string_view text, size_t count) {
  return fmt::format("{:016x}", hash(text)).substr(0, count);
}

std::string to_label(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const char lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    out += is_lower_alnum(lower) ? lower : '-';
  }
  while (!out.empty() && out.back() == '-') out.pop_back();
  const size_t start = out.find_first_not_of('-');
  return start == std::string::npos ? std::string() : out.substr(start);
}

// Cut to `limit`; what is cut or rewritten carries a hash of the whole, so that different names stay different.
std::string fit(std::string_view text, size_t limit) {
  std::string label = to_label(text);
  if (label == text && label.size() <= limit) return label;
  constexpr size_t kHash = 7;  // "-" and six digits
  label = label.substr(0, limit - kHash);
  while (!label.empty() && label.back() == '-') label.pop_back();
  return label.empty() ? hash_digits(text, 6) : label + "-" + hash_digits(text, 6);
}

std::string uid_digits(std::string_view uid) {
  std::string out;
  for (const char c : uid) {
    if (c == '-') continue;
    const char lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (std::isxdigit(static_cast<unsigned char>(lower)) == 0) return hash_digits(uid, kDigits);
    out += lower;
    if (out.size() == kDigits) return out;
  }
  return hash_digits(uid, kDigits);
}

}  // namespace

std::string claim_ref_name(std::string_view container) {
  constexpr std::string_view kPrefix = "heddle-";
  return std::string(kPrefix) + fit(container, kLabelLimit - kPrefix.size());
}

std::string claim_object_name(std::string_view pod, std::string_view container, std::string_view request_uid) {
  const size_t room = kLabelLimit - kDigits - 1;
  const std::string tail = fit(container, 30) + "-" + uid_digits(request_uid);
  std::string base = to_label(pod).substr(0, room - (tail.size() - kDigits - 1) - 1);
  while (!base.empty() && base.back() == '-') base.pop_back();
  return base.empty() ? tail : base + "-" + tail;
}

std::string claim_template_name(std::string_view workload, std::string_view container) {
  const std::string tail = fit(container, 30);
  const std::string base = workload.empty() ? std::string() : fit(workload, kLabelLimit - tail.size() - 1);
  return base.empty() ? tail : base + "-" + tail;
}

bool is_dns_label(std::string_view text) {
  if (text.empty() || text.size() > kLabelLimit) return false;
  if (!is_lower_alnum(text.front()) || !is_lower_alnum(text.back())) return false;
  for (const char c : text) {
    if (!is_lower_alnum(c) && c != '-') return false;
  }
  return true;
}

}  // namespace heddle::dialects
