// The devices of one node from plain objects: slices gathered into pools as upstream's allocator does for a node, with
// what allocated claims hold. For tools that ask once; the engine keeps its own inventory up to date instead.
//
// Differences from k8s.io/dynamic-resource-allocation v0.37.2, see docs/decisions: a pool is judged over all nodes, so
// a pool name that several nodes use by accident, or slices that disagree about their number, make it incomplete; and a
// device that vanished from its pool is unknown here, as it is there.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "allocator/device.h"
#include "allocator/features.h"
#include "base/result.h"
#include "model/claim.h"
#include "model/pod.h"

namespace heddle::allocator {

// Whether devices of this scope are within reach of the node; a scope that each device states for itself is not.
[[nodiscard]] bool sees(const model::Node& node, const model::NodeScope& scope);

struct NodeInput {
  const model::Node* node = nullptr;
  std::vector<const model::ResourceSlice*> slices;
  std::vector<const model::Allocation*> allocated;
  Features features;
};

class NodePools {
 public:
  // The objects are borrowed and must outlive this. Errors: kInvalidArgument for a counter beyond 10^28.
  static Result<std::unique_ptr<NodePools>> make(const NodeInput& input);
  NodePools(const NodePools&) = delete;
  NodePools& operator=(const NodePools&) = delete;

  [[nodiscard]] const NodeView& view() const { return view_; }
  // Whether the node sees a pool whose slices contradict each other.
  [[nodiscard]] bool any_invalid() const;

 private:
  friend class PoolGatherer;
  NodePools() = default;

  NodeView view_;
  std::deque<PoolInfo> pools_;
  std::deque<PublishedDevice> published_;
  std::deque<DeviceInfo> devices_;
};

}  // namespace heddle::allocator
