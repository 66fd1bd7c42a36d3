// The tori of a fleet: which host lies where. Labels of nodes or attributes of their devices say it (slice.h).
// Pure. Cost: one look at each node and its devices.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "placement/cuboid.h"

namespace heddle::engine {

struct TorusHost {
  std::string node;
  placement::Extent at = {0, 0, 0};
};

struct NamedTorus {
  std::string name;
  placement::Extent host = {1, 1, 1};  // chips of one host
  placement::Torus torus;              // in hosts; `usable` is for who asks
  std::vector<TorusHost> hosts;        // in the order of their nodes' names
  std::vector<bool> there;             // positions that have a host
  int64_t usable = 0;

  // Null: there is none.
  [[nodiscard]] const TorusHost* find(const placement::Extent& at) const;
};

// The labels that say it, by position of the host, the last axis fastest. shape and host: chips, such as "4x4x8" and
// "2x2x1". Errors: kInvalidArgument for what is no shape, with its field, and for a shape of no whole hosts or too
// many.
struct TorusPlan {
  std::string name;
  std::string shape;
  std::string host;
  bool wraps = false;
};
Result<std::vector<std::map<std::string, std::string>>> torus_labels(const TorusPlan& plan);

// By name; those with hosts. Errors: those of Topology::make().
Result<std::vector<NamedTorus>> find_tori(const State& state);

}  // namespace heddle::engine
