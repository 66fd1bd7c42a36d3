// How many pods of one shape fit on a node, beside what the gang has taken there already. Inside the engine only.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/gang.h"
#include "engine/state_impl.h"

namespace heddle::engine {

// What the members that are placed so far take of a node. Where others are taken to have ended, amounts can be below
// zero: that much comes free.
struct Overlay {
  allocator::Assumption assumption;
  std::map<std::string, int64_t> used;
  int64_t pods = 0;
  std::vector<model::HostPort> ports;
  std::set<std::string> ended;  // uids of pods
};

// What is left out of account, to find what is short. kPlain: cpu, memory, ports ...; kTaken: all that others hold.
enum class Leave { kNothing, kPlain, kTaken };

// Members that ask for the same.
class GangGroup {
 public:
  static Result<std::unique_ptr<GangGroup>> make(const State::Impl& state, PlacementRequest request,
                                                 Doors doors = Doors::kAsTheyAre);

  std::vector<size_t> members;  // of GangRequest, in rank order

  // The node may be used at all, for now (kTaken: ever).
  [[nodiscard]] bool open(const NodeEntry& node, Leave leave) const;
  // Where one copy after the other goes; at most `limit`. What is taken is added to the overlay.
  Result<std::vector<allocator::Solution>> take(const NodeEntry& node, Overlay& overlay, int64_t limit, Leave leave);
  // One copy, these devices first. Nothing: there is no room for it.
  Result<std::optional<allocator::Solution>> take_of(const NodeEntry& node, Overlay& overlay,
                                                     std::vector<const allocator::DeviceInfo*> first);
  // How many copies, on a node where the gang has taken nothing; remembered. At most as many as there are members.
  Result<int64_t> room(const NodeEntry& node);

  [[nodiscard]] Placement& placement() { return *placement_; }
  // Of one member, for explanations and to take large ones first.
  [[nodiscard]] int64_t devices() const { return devices_; }
  // Devices that several nodes see make what was remembered of one node wrong when another takes them.
  [[nodiscard]] bool spanning() const { return spanning_; }

 private:
  explicit GangGroup(PlacementRequest request) : request_(std::move(request)) {}

  [[nodiscard]] int64_t plain_copies(const NodeEntry& node, const Overlay& overlay, int64_t limit, Leave leave) const;
  void charge(const NodeEntry& node, const allocator::Solution& solution, Overlay& overlay);
  Result<std::vector<allocator::Solution>> take_together(const NodeEntry& node, const Overlay& overlay, int64_t copies);

  PlacementRequest request_;
  std::unique_ptr<Placement> placement_;
  std::map<std::string, int64_t> room_;  // by node
  int64_t devices_ = 0;
  bool one_by_one_ = true;  // taking the best for one copy never costs another its place
  bool spanning_ = false;
};

}  // namespace heddle::engine
