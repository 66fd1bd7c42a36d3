// Which pod a process belongs to, by the names that kubelet gives its control groups. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace heddle::agent {

struct CgroupOwner {
  std::string pod_uid;       // with dashes
  std::string container_id;  // empty when the process is not in a container's own group
  friend bool operator==(const CgroupOwner&, const CgroupOwner&) = default;
};

// The text of /proc/<pid>/cgroup: any line of version 1 or 2, drivers cgroupfs and systemd. Nothing when the process is
// in no pod. The outermost pod counts: what a container nests inside has names that it chose itself.
std::optional<CgroupOwner> parse_cgroup(std::string_view text);

}  // namespace heddle::agent
