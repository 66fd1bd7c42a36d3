// The inside of State, shared by the files of this folder.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "allocator/allocator.h"
#include "allocator/prepare.h"
#include "engine/card_order.h"
#include "engine/engine.h"
#include "engine/inventory.h"
#include "engine/ledger.h"
#include "engine/packing.h"
#include "engine/reserve.h"

namespace heddle::engine {

struct PodUsage {
  std::string node;
  std::map<std::string, int64_t> usage;
  std::vector<model::HostPort> ports;
  int64_t pods = 1;  // as how many it counts
};

struct State::Impl {
  explicit Impl(std::string driver);

  void index_extended_resources();
  void leave_node(const std::string& uid, const std::string& node);
  void charge_pod(const std::string& uid, const PodUsage& usage, int64_t sign);
  void put_pod(const std::string& uid, PodUsage usage);
  void drop_pod(const std::string& uid);
  // What is kept on a node beside what those still have that make the room.
  void settle_room(const std::string& id);
  void settle_rooms_of(const std::string& pod_uid);

  std::string managed_driver;
  allocator::Options options;
  // What requests select is remembered between calls of place(); one owner thread.
  mutable allocator::QueryCache cache;
  Ledger ledger;
  Inventory inventory;
  allocator::ClassMap classes;
  std::set<std::string> extended_resources;  // that classes stand for
  std::map<std::string, PodUsage> pods;
  std::map<std::string, std::set<std::string>> pods_of_node;  // whether the node is known or not
  std::map<std::string, KeptRoom> rooms;                      // by whom they are kept for
  std::map<std::string, std::set<std::string>> making;        // pod -> rooms that it makes
  std::set<std::string> spacious;                             // rooms whose makers leave more devices than are kept
  uint64_t generation = 1;
  Packing packing;
  ReserveKeeper reserve;
};

// Why a node is out of the question for a pod, whatever its devices.
enum class Bar {
  kNone,
  kPinned,    // other claims of the pod are on another node
  kSelector,  // nodeSelector or required affinity
  kVolume,    // a bound volume of the pod cannot be reached
  kTaint,
  kCordoned,
  kNotReady,
  kExcluded,
  kHeld,
  kKeptWhole,
  kReserved,
};

// True for what no running work and no operator's help on that node would change for this pod.
[[nodiscard]] bool is_final(Bar bar);

// Closed for now by who operates it or by its state: cordoned, not ready.
[[nodiscard]] bool is_closed(Bar bar);
// kOpened: as if no node were closed; to find out whether that would help.
enum class Doors { kAsTheyAre, kOpened };

struct Shortage {
  std::string resource;
  int64_t needed = 0;
  int64_t free = 0;
  int64_t allocatable = 0;
};

// One call of place(): the request with what is computed from it once.
struct Placement {
  const State::Impl& state;
  const PlacementRequest& request;
  std::vector<allocator::PreparedClaim> claims;
  std::map<std::string, int64_t> needs;  // plain resources of the pod
  std::vector<model::HostPort> ports;    // of the node, that the pod takes
  CardOrder policy;
  // Made at the first question, and borrows from here: a Placement is not moved after that.
  std::optional<allocator::Solver> solver = {};
  Doors doors = Doors::kAsTheyAre;
  Reserve reserve = request.reserve;

  [[nodiscard]] Bar bar_of(const NodeEntry& node) const;
  // The first plain resource that is short; nothing when all fit. With empty_node the pods on it are not counted.
  [[nodiscard]] std::optional<Shortage> shortage_of(const NodeEntry& node, bool empty_node) const;
  // The same, or a port in use, when these pods of the node have ended.
  [[nodiscard]] bool plainly_fits_without(const NodeEntry& node, const std::vector<std::string>& pod_uids) const;
  [[nodiscard]] bool served_by_devices(const NodeEntry& node, const std::string& resource) const;
  // The first port that another pod of the node has, one of those that have ended apart.
  [[nodiscard]] std::optional<model::HostPort> port_conflict_on(const NodeEntry& node,
                                                                const std::set<std::string>& ended = {}) const;
  [[nodiscard]] Result<bool> devices_fit(const NodeEntry& node, const allocator::Assumption& assumption);
  // The same for requests that fill modules (modules.h), if dies of any modules would do. False: there is no such node.
  [[nodiscard]] bool fits_in_parts(const NodeEntry& node, const allocator::Assumption& assumption);
  // What the solver is told in place of the assumption, so that such requests get whole modules; nothing: the same.
  [[nodiscard]] std::optional<allocator::Assumption> seen_on(const NodeEntry& node,
                                                             const allocator::Assumption& assumption) const;
  // One a claim; nothing: they do not fit.
  [[nodiscard]] Result<std::optional<std::vector<model::Allocation>>> allocations_on(
      const NodeEntry& node, const allocator::Assumption& assumption, SeededRandom& random);
};

// request is borrowed.
Result<Placement> make_placement(const State::Impl& state, const PlacementRequest& request);

// What is free on the node's devices; remembered there.
int64_t free_millionths(const NodeEntry& node);
// The same under an assumption; not remembered.
int64_t free_millionths(const NodeEntry& node, const allocator::Assumption& assumption);

// How the devices of one node stand for one request alone.
struct RequestOutlook {
  int64_t fitting = 0;    // devices that could serve it now
  int64_t best_rank = 0;  // of those; meaningless without any
  bool enough = false;
};
Result<RequestOutlook> outlook_of(const NodeEntry& node, allocator::Alternative& alternative,
                                  const allocator::Policy& policy, const allocator::Assumption& assumption);

// Why the request cannot be placed now: the outcome is Waiting or Infeasible.
Result<Outcome> explain(Placement& placement);

}  // namespace heddle::engine
