#include "agent/cgroup.h"

#include <algorithm>
#include <vector>

namespace heddle::agent {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool is_hex(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// "pod<uid>", "kubepods-burstable-pod<uid with underscores>.slice". A uid is a UUID, or for pods from files a hash
// of 32.
std::string pod_uid_of(std::string_view segment) {
  std::string_view uid;
  if (segment.starts_with("pod")) {
    uid = segment.substr(3);
  } else if (segment.starts_with("kubepods") && segment.ends_with(".slice")) {
    const size_t at = segment.find("-pod");
    if (at == std::string_view::npos) return {};
    uid = segment.substr(at + 4, segment.size() - at - 4 - std::string_view(".slice").size());
  }
  std::string result(uid);
  std::ranges::replace(result, '_', '-');
  std::string digits = result;
  std::erase(digits, '-');
  return digits.size() == 32 && is_hex(digits) ? result : std::string();
}

// "<64 hex>", "cri-containerd-<64 hex>.scope", "crio-<64 hex>.scope"
std::string container_id_of(std::string_view segment) {
  if (segment.ends_with(".scope")) {
    segment.remove_suffix(std::string_view(".scope").size());
    const size_t dash = segment.rfind('-');
    if (dash != std::string_view::npos) segment.remove_prefix(dash + 1);
  }
  return segment.size() == 64 && is_hex(segment) ? std::string(segment) : std::string();
}

}  // namespace

std::optional<CgroupOwner> parse_cgroup(std::string_view text) {
  for (const std::string_view line : split(text, '\n')) {
    // "<id>:<controllers>:<path>"
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::vector<std::string_view> segments = split(line.substr(second + 1), '/');
    for (size_t i = 0; i < segments.size(); ++i) {
      std::string uid = pod_uid_of(segments[i]);
      if (uid.empty()) continue;
      CgroupOwner owner{std::move(uid), {}};
      if (i + 1 < segments.size()) owner.container_id = container_id_of(segments[i + 1]);
      return owner;
    }
  }
  return std::nullopt;
}

}  // namespace heddle::agent
