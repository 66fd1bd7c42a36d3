// The search for a gang's place, shared by the placing and the explaining. Inside the engine only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/boxes.h"
#include "engine/eviction.h"
#include "engine/gang_room.h"

namespace heddle::engine {

// Nodes that lie together, by their position in the order of names.
struct GangDomain {
  std::optional<size_t> level;  // nothing: the whole fleet
  std::string name;
  std::vector<size_t> nodes;
  int64_t free = 0;
};

struct GangSpot {
  size_t node = 0;
  size_t group = 0;
  allocator::Solution solution;
};

// Members that lie in one domain of GangRequest::segment_level.
struct GangSegment {
  int64_t number = 0;
  std::map<size_t, std::vector<size_t>> parts;  // members by group
};

struct GangAttempt {
  std::vector<std::optional<GangSpot>> members;  // as asked
  int64_t placed = 0;
  bool enough = false;
};

// What the search for a place found.
struct GangFound {
  std::optional<std::pair<GangDomain, GangAttempt>> best;  // enough of it
  std::optional<GangDomain> closest;                       // with nothing found: where most would fit
};

// Equal texts: a node has room for either member alike.
std::string alike_key(const GangMember& member);

class GangSearch {
 public:
  static Result<std::unique_ptr<GangSearch>> make(const State& state, const std::vector<TopologyLevel>& levels,
                                                  const GangRequest& request, Doors doors = Doors::kAsTheyAre);

  // first: the domain that is tried before all others.
  Result<GangOutcome> run(SeededRandom& random, const std::optional<GangDomain>& first);
  Result<GangFound> find();  // gang_reserve.cc
  // From now on as if these had ended; what was assumed before holds no more.
  void assume_gone(const std::vector<const VictimHoldings*>& gone);  // gang_eviction.cc
  [[nodiscard]] const std::string& node_name(size_t node) const { return nodes_[node]->view.node; }

 private:
  GangSearch(const State& state, std::vector<TopologyLevel> levels, const GangRequest& request, Topology topology,
             BoxKeeper boxes);

  // gang.cc
  Result<GangFound> find_among();
  Result<void> make_groups(Doors doors);
  [[nodiscard]] std::vector<std::optional<size_t>> levels_to_try() const;
  [[nodiscard]] std::vector<GangDomain> domains_of(std::optional<size_t> level) const;
  Result<int64_t> bound_of(const GangDomain& domain);
  Result<GangAttempt> attempt(const GangDomain& domain, const std::vector<bool>& wanted);
  enum class Boxes { kForgotten, kKept };
  Result<GangAttempt> fill_domain(const GangDomain& domain, const std::vector<bool>& wanted, Boxes boxes);
  Result<GangAttempt> best_attempt(const GangDomain& domain);
  Result<std::vector<std::pair<size_t, int64_t>>> distribute(size_t level, size_t group,
                                                             const std::vector<size_t>& nodes, int64_t wanted);
  Result<int64_t> room_on(size_t node, size_t group);
  [[nodiscard]] int64_t free_on(size_t node) const;
  [[nodiscard]] std::vector<bool> the_minimum() const;
  [[nodiscard]] bool enough(const GangAttempt& made) const;
  Result<GangOutcome> assigned(const GangDomain& domain, GangAttempt made, SeededRandom& random);

  Result<void> take_members(size_t group, size_t level, const std::vector<size_t>& nodes,
                            const std::vector<size_t>& members, GangAttempt& made);

  // gang_close.cc
  [[nodiscard]] std::vector<const allocator::DeviceInfo*> close_cards(size_t node, size_t group,
                                                                      const Overlay& overlay) const;
  Result<void> bring_together(GangAttempt& made);

  // gang_reserve.cc
  void keep_reserve();
  Result<std::optional<Reason>> reserve_short();

  // gang_segments.cc
  [[nodiscard]] Result<void> check_segments() const;
  [[nodiscard]] bool segmented_in(const GangDomain& domain) const;
  [[nodiscard]] std::vector<GangSegment> segments_of(const std::vector<bool>& wanted) const;
  [[nodiscard]] std::vector<GangDomain> segment_domains(const std::vector<size_t>& nodes) const;
  [[nodiscard]] std::string home_of(int64_t segment) const;
  Result<void> take_segment(const GangSegment& segment, const GangDomain& domain, GangAttempt& made);
  Result<int64_t> segments_in(const GangDomain& domain, const GangSegment& like, int64_t limit);
  [[nodiscard]] std::vector<std::pair<size_t, int64_t>> spread(size_t level, const std::vector<GangDomain>& domains,
                                                               const std::vector<int64_t>& rooms,
                                                               const std::vector<size_t>& among, int64_t wanted) const;
  Result<void> place_alike(const GangDomain& domain, const std::vector<GangDomain>& parts,
                           const std::vector<const GangSegment*>& segments, GangAttempt& made);
  Result<void> fill_segments(const GangDomain& domain, const std::vector<bool>& wanted, GangAttempt& made);
  [[nodiscard]] std::string segments_text() const;
  Result<std::optional<Reason>> segments_never();
  Result<std::optional<Reason>> segments_short(const GangDomain& domain);

  // gang_boxes.cc
  [[nodiscard]] bool held_by_nobody(size_t node, const allocator::DeviceInfo& device) const;
  [[nodiscard]] BoxCounts opened_on(size_t node, const Overlay& overlay) const;
  [[nodiscard]] BoxCounts broken_so_far() const;
  Result<std::vector<BoxCounts>> prices_on(size_t node, size_t group);
  enum class Spare { kUsed, kLeft };  // whether any boxes are broken
  Result<void> ration(size_t group, const std::vector<size_t>& nodes, int64_t wanted, Spare spare);
  Result<std::optional<Reason>> boxes_short(const GangDomain& domain, int64_t fitting);

  // gang_explain.cc
  Result<GangOutcome> explain(const GangDomain& closest);
  Result<int64_t> count(const GangDomain& domain, size_t group, Leave leave);
  Result<int64_t> count_all(const GangDomain& domain, Leave leave);
  Result<std::optional<GangOutcome>> infeasible();
  [[nodiscard]] std::string place_text(const GangDomain& domain) const;
  [[nodiscard]] std::string ask_text() const;
  Result<std::string> shortage_text(const GangDomain& domain, int64_t missing);
  [[nodiscard]] std::string plain_shortage(const GangDomain& domain, size_t group) const;
  Result<std::string> change_text(const GangDomain& domain, int64_t fitting);
  Result<std::optional<NodeNeed>> need(const GangDomain& closest, int64_t missing);
  [[nodiscard]] int64_t missing_spares(const GangDomain& domain) const;
  void tell_where(const GangDomain& domain, const NodeEntry& like, NodeNeed& need) const;
  struct Opened {
    GangDomain domain;
    std::map<std::string, Bar> closed;  // nodes that are, and that would be used
  };
  Result<int64_t> room_behind_doors(int64_t missing);
  Result<std::optional<Opened>> behind_doors(const std::set<std::string>& left_out);
  Result<std::optional<Reason>> closed(const GangDomain& closest, int64_t fitting);

  const State& state_;
  std::vector<TopologyLevel> levels_;
  const GangRequest& request_;
  Topology topology_;
  std::vector<const NodeEntry*> nodes_;             // by name, as the topology's
  std::vector<std::unique_ptr<GangGroup>> groups_;  // large members first
  std::map<size_t, Overlay> freed_;                 // by node: what has ended, as is assumed
  std::map<size_t, Overlay> taken_;                 // of the attempt under way, by node; and what is freed
  BoxKeeper boxes_;
  // By group and node: how many members the node takes at most, so that boxes last. A group that is not there: no
  // bound.
  std::map<size_t, std::map<size_t, int64_t>> rations_;
  std::map<size_t, ReserveUse> reserved_;  // nodes that are not there for now
};

}  // namespace heddle::engine
