// The engine: what exists and what is granted (State), and where a pending pod can go (place).
//
// Pure: no I/O, no clock, no threads, no unseeded randomness; the same calls give the same bytes. One owner thread.
// State is fed with objects as they change, from the API server or from SQLite, and with the engine's own decisions
// before they are confirmed (assume), so that two decisions in flight never take the same share.
//
// Cost: upsert and remove touch what changed only. place: with `packing` O(classes of equal nodes) and the exact search
// on the node that is taken; with the other policies, for what packing cannot express and for a "no" O(devices).
//
// Policies. Every one ranks; what fits is always for the exact allocator to say, so none makes a fit impossible.
// - packing (default): HeddlePolicy of src/placement, which keeps what the mix of workloads needs whole. A node is
//   ranked by its free cpu, memory and thousandths of each card (packing.h says of which devices and nodes); what that
//   view does not have, or a request that it cannot express (partitions, mode All, different shares at once), is placed
//   by best fit after all that it has.
// - best-fit: the node and the card that are left with the least free.
// - spread: the node with the fewest tenants for its cards, then the card with the fewest, then the emptiest.
// - least-loaded: the node that has the largest part of its devices free, then the card that has.
// Whole cards of one pod are taken close together whatever the policy (cards.h).
// A gang keeps to as few domains and nodes as can be; the policy chooses among the cards of a node.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "model/claim.h"
#include "model/device.h"
#include "model/placement_policy.h"
#include "model/pod.h"
#include "model/queue.h"
#include "model/volume.h"

namespace heddle::engine {

// Driver name, pool name, device name.
struct DeviceKey {
  std::string driver;
  std::string pool;
  std::string device;
  friend auto operator<=>(const DeviceKey&, const DeviceKey&) = default;
};

// One claim to allocate. `spec` is complete; percent shares are still opaque configuration (ShareConfig) and are
// lowered here, per candidate device.
struct ClaimRequest {
  std::string key;  // namespace/name, for explanations
  std::string uid;  // may be empty when the object is not created yet
  model::ClaimSpec spec;
};

struct TopologyLevel;
using model::ReserveUse;

// Nodes that a level of the topology reserves (reserve.h), as a request sees them.
enum class Reserve {
  kKept,    // left out, unless it fits nowhere else and the level lets that use them
  kNeeded,  // those are used
  kOpen,    // as any other: for what comes in the place of something that was lost
};

// A pod that waits, with the claims that still need devices. All are placed on one node, or none is.
struct PlacementRequest {
  const model::Pod* pod = nullptr;               // node constraints and plain resources; borrowed for the call
  std::vector<ClaimRequest> claims;              // in pod order
  std::optional<std::string> pinned_node;        // the node of claims that are allocated already
  std::optional<std::string> preferred_node;     // nominated by kube-scheduler
  std::vector<std::string> excluded_nodes;       // nodes that failed this pod before
  std::vector<model::VolumeReach> volumes = {};  // of the pod's bound volumes, where they are known
  std::set<std::string> held_nodes = {};         // room is being made there for other work
  std::set<std::string> whole_nodes = {};        // this work would break a box there that is guaranteed to others
  model::PlacementPolicy policy = model::PlacementPolicy::kPacking;
  bool name_holders = true;  // a "no" names who would have to end; false: the caller says so itself
  Reserve reserve = Reserve::kKept;
};

// Room for work that is to start when others have ended. For all requests it counts as taken, until free_room().
struct KeptRoom {
  std::string node;
  std::vector<model::Allocation> allocations;  // one a claim
  std::map<std::string, int64_t> usage = {};   // plain resources, as for upsert_pod_usage()
  std::vector<model::HostPort> ports = {};
  // Those that make it. What these still have of the same devices and of the node counts once, not twice: more than the
  // larger of the two is never taken.
  std::vector<std::string> claim_uids = {};
  std::vector<std::string> pod_uids = {};
  // Of work that nobody goes for, beside the room of another: while several plans are made, so that no two count on the
  // same. That it is free again lets nobody start.
  bool guest = false;
};

// Why a pod cannot start now. `code` is a stable word (Capacity, Selector, NodeFit, Excluded, Class, Taint, Quota ...),
// `message` names what is short, where and by how much, and what would make it fit.
struct Reason {
  std::string code;
  std::string message;
};

struct Assigned {
  std::string node;
  std::vector<model::Allocation> allocations;  // one a claim, in the order asked; without timestamp
};
// More nodes with which it would fit: as many empty ones as `count`, with what the node `like` is and has.
struct NodeNeed {
  std::string like;
  int64_t count = 1;
  std::string where = {};  // in which domain, "rack r1"; empty: anywhere
  // The node label that says so, where it is one.
  std::string label = {};
  std::string value = {};
  friend bool operator==(const NodeNeed&, const NodeNeed&) = default;
};
Reason needs_node(const NodeNeed& need);  // "NeedsNode", in words
struct Waiting {                          // would fit if running work ended
  std::vector<Reason> reasons;
  std::optional<NodeNeed> needs = {};  // where devices or plain resources are short; told as the reason NeedsNode
};
struct Infeasible {  // fits on no node of this fleet, even empty
  std::vector<Reason> reasons;
  std::optional<NodeNeed> needs = {};  // of a gang that is too large for the fleet
};
using Outcome = std::variant<Assigned, Waiting, Infeasible>;

// Equal texts: equal answers of place() to the same claims and volumes, as far as the pod itself decides.
std::string fit_signature(const model::Pod& pod);

// A device that is granted beyond its capacity, with the claims that hold it, oldest allocation first.
struct OverCommit {
  DeviceKey device;
  std::vector<std::string> claim_uids;
  std::string what;  // "memory: 81920Mi of 80000Mi", "held whole by two claims"
};

// The answer for tools and dashboards: who holds what of a device.
struct DeviceUse {
  DeviceKey device;
  std::string node;
  bool published = false;  // false when the device vanished but is still held
  struct Holder {
    std::string claim_uid;
    std::string claim_key;
    std::string share_id;
    std::map<std::string, Quantity> consumed;
  };
  std::vector<Holder> holders;
};

// Whether the API server and this version take a selector of a class or a request: it compiles, is not too long, and
// cannot cost too much. Errors: kInvalidArgument, kUnsupported.
Result<void> check_selector(std::string_view expression);

class State {
 public:
  explicit State(std::string managed_driver = "accelerator.heddle.dev");
  ~State();
  State(State&&) noexcept;
  State& operator=(State&&) noexcept;

  void upsert_node(model::Node node);
  void remove_node(const std::string& name);
  void upsert_slice(model::ResourceSlice slice);
  void remove_slice(const std::string& name);
  // Its taint is on the devices that it selects, beside those of their slices. Cost: each pool that it selects in is
  // read again.
  void upsert_taint_rule(model::DeviceTaintRule rule);
  void remove_taint_rule(const std::string& name);
  void upsert_class(model::DeviceClass device_class);
  void remove_class(const std::string& name);
  // A claim with an allocation is a grant; without one it only frees what it held. Keyed by uid.
  void upsert_claim(const model::ResourceClaim& claim);
  void remove_claim(const std::string& uid);
  // Plain resources (cpu, memory, ...) and ports of pods that are bound or assumed on a node. Keyed by pod uid.
  void upsert_pod_usage(const std::string& pod_uid, const std::string& node, std::map<std::string, int64_t> usage,
                        std::vector<model::HostPort> ports = {});
  void remove_pod_usage(const std::string& pod_uid);

  // id: whom it is kept for; what is known is replaced. It is no grant: over_commits() and device_uses() pass over it.
  void keep_room(const std::string& id, KeptRoom room);
  // Before it is placed there, or when it is not wanted any more.
  void free_room(const std::string& id);

  // The levels that reserve nodes, from now on. Those of place_gang() have to be the same.
  void keep_reserve(const std::vector<TopologyLevel>& levels);

  // A workload has come: once a pod, however often it is placed. `packing` learns from it what else will come. The
  // order does not matter, nor whether nodes are known yet. What is kept is bounded: of the last 131,072 arrivals or
  // so, the 1,024 most frequent kinds of them. After a restart it is made anew from the pods that exist: those that
  // have ended are forgotten, and what packing follows in steps (the estimate of the mix, the worth of rooms) starts
  // afresh from it, so that a controller that was never restarted may rank two nodes the other way round. Two that
  // start with the same objects decide the same, in whatever order these came.
  void arrive(const PlacementRequest& request);

  // Where the request can go, by its policy.
  // Errors: kInvalidArgument or kUnsupported for what cannot be meant (unknown class, bad selector): names the claim
  // and the field. kExhausted when the search was given up before an answer: neither yes nor no.
  [[nodiscard]] Result<Outcome> place(const PlacementRequest& request, SeededRandom& random) const;

  [[nodiscard]] std::vector<OverCommit> over_commits() const;
  [[nodiscard]] std::vector<DeviceUse> device_uses() const;
  // Raised by each change that could let a waiting pod start; a pod that was refused at this number stays refused.
  [[nodiscard]] uint64_t generation() const;

  struct Impl;  // known inside the engine only
  [[nodiscard]] const Impl& inside() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle::engine
