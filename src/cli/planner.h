// The inside of plan_fleet(), shared by its source files. Not for others.
//
// The order, quota and who gives way are those of queueing::Queues, as the controller has them: what runs is taken
// over, what waits is submitted, and passes of offers are made until nothing more starts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/random.h"
#include "catalog/catalog.h"
#include "catalog/requests.h"
#include "cli/fleet.h"
#include "cli/planning.h"
#include "controller/gang_shape.h"
#include "controller/ledger.h"
#include "controller/quota.h"
#include "controller/running.h"
#include "controller/units.h"
#include "dialects/translate.h"
#include "engine/box_rooms.h"
#include "engine/demand.h"
#include "engine/eviction.h"
#include "engine/gang.h"
#include "queueing/preemption.h"
#include "queueing/queueing.h"

namespace heddle::cli {

// One claim of a pod, as it is or as it would be made.
struct Want {
  std::string key;
  model::ResourceClaim claim;
  bool known = false;  // in the ledger
};

struct Wants {
  std::vector<Want> claims;
  std::optional<engine::Reason> blocked;
};

// What queues know as one: a pod alone, the members that a gang cannot start without, or a further one by itself.
struct PlannedWork {
  std::string id;
  std::string unit;  // of a gang; empty: a pod alone
  bool core = false;
  bool growth = false;
  std::vector<std::string> waiting;  // pod keys, by rank
  std::vector<std::string> holders;  // pod keys of those with a node or devices
  bool decided = false;              // it was tried, and will not be again
  bool hopeless = false;             // fits no empty fleet

  [[nodiscard]] bool one_of_gang() const { return !core && !unit.empty(); }
};

class Planner {
 public:
  Planner(std::shared_ptr<const catalog::Requests> rules, catalog::Catalog hardware, Fleet fleet, Time now);
  Result<Plan> run();

 private:
  using Reasons = std::vector<engine::Reason>;
  struct Translated {
    std::vector<dialects::ContainerRequest> requests;
    Reasons refusals;
  };
  struct Asked {
    engine::PlacementRequest request;
    controller::DeviceUsage least;
    std::string shape;
    bool common = true;  // equal shapes get equal answers
    bool torn = false;   // its claims are on different nodes
  };
  struct Answer {
    Reasons reasons;
    bool hopeless = false;
  };
  enum class Standing { kWaits, kHolds, kBoth };
  enum class Portions { kHeld, kAll };  // kAll: also what it asks for and has not been given
  // Members that could be decided, with copies of their pods that the request borrows.
  struct Gang {
    std::vector<std::unique_ptr<model::Pod>> pods;
    std::vector<std::vector<Want>> wants;
    std::vector<std::unique_ptr<model::Pod>> later;
    engine::GangRequest request;
    controller::DeviceUsage least;
    int64_t placed = 0;  // before
  };

  // planning.cc
  void load();
  Result<void> note_arrivals();
  void pend(const model::Pod& pod, Reasons reasons);
  void sort_pending();
  void add_notes();
  void note_unseen(const FleetPod& entry);
  [[nodiscard]] static bool waits(const model::Pod& pod);

  // planning_claims.cc: what pods want
  Result<void> translate(const std::string& key, FleetPod& entry);
  static Result<void> apply(const dialects::Translation& translation, FleetPod& entry);
  std::optional<std::vector<Want>> prepare(const FleetPod& entry);
  Wants wants_of(const model::Pod& pod, const std::vector<dialects::ContainerRequest>& requests);
  void add_want(const model::Pod& pod, const model::PodResourceClaim& entry,
                const std::vector<dialects::ContainerRequest>& requests, Wants& wants);
  void add_extended(const model::Pod& pod, Wants& wants);
  [[nodiscard]] std::string class_for(const std::string& resource) const;
  [[nodiscard]] const model::ResourceClaim* claim_of(const std::string& key) const;
  [[nodiscard]] std::vector<model::VolumeReach> volumes_of(const model::Pod& pod) const;

  // planning_placing.cc: devices and nodes. True, or nothing: it has started
  Asked ask_for(model::Pod& pod, const std::vector<Want>& wants, const std::string& work);
  // False when the pod is tied to another node already.
  static bool tie_to(const model::Allocation& allocation, model::Pod& pod, engine::PlacementRequest& request);
  bool place(PlannedWork& work, model::Pod pod, std::vector<Want> wants);
  void gather(const controller::Unit& unit, const PlannedWork& work, Gang& gang);
  void add_later(const controller::Unit& unit, const PlannedWork& work, Gang& gang);
  void pend_gang(const Gang& gang, const Reasons& reasons);
  bool decide_gang(const controller::Unit& unit, PlannedWork& work);
  bool place_gang(const controller::Unit& unit, PlannedWork& work, Gang& gang);
  std::optional<engine::Reason> gang_assigned(const controller::Unit& unit, const PlannedWork& work, Gang& gang,
                                              engine::GangAssigned& assigned);
  static engine::Reason incomplete(const controller::Unit& unit, int64_t missing);
  static controller::DeviceUsage usage_of(const std::vector<Want>& wants, const engine::Assigned& assigned);
  [[nodiscard]] std::optional<engine::Reason> over_quota(const model::Pod& pod,
                                                         const controller::DeviceUsage& ask) const;
  bool avoid_kinds(const std::vector<Want>& wants, const engine::Assigned& assigned,
                   std::set<std::string>& closed) const;
  void grant(const model::Pod& pod, std::vector<Want>& wants, engine::Assigned assigned);

  // planning_queues.cc: the order, and what quota says
  Result<void> build_queues();
  void form_works();
  void form_gang(const controller::Unit& unit);
  void join(const std::string& pod_key, const PlannedWork& work, Standing standing);
  Result<void> adopt_all();
  void note_victim(const PlannedWork& work, const queueing::Workload& workload, Time since);
  void note_plain_victims();
  void submit(PlannedWork& work);
  bool submit_growth();
  void tell(PlannedWork& work, const Reasons& reasons);
  void place_started();
  void decide(PlannedWork& work);
  void pass_until_nothing_starts();
  void tell_not_offered();
  void number_positions();
  void tell_positions();
  [[nodiscard]] std::optional<Time> holds_since(const model::Pod& pod);
  // The queue for work without one, and the error beside it, where it names one that is not for it.
  [[nodiscard]] std::pair<queueing::Workload, std::optional<Error>> workload_of(const PlannedWork& work);
  [[nodiscard]] std::vector<queueing::Portion> demand_of(const model::Pod& pod, Portions which);
  // A claim for Heddle's devices; one of several pods counts for the first.
  [[nodiscard]] bool counts(const model::Pod& pod, const model::ResourceClaim& claim) const;
  [[nodiscard]] std::vector<queueing::Portion> granted_to(const model::Pod& pod, const std::vector<Want>& wants,
                                                          const engine::Assigned& assigned) const;
  // What quota says to these devices; nothing: the work has started.
  std::optional<engine::Reason> admit(const std::string& work, std::vector<queueing::Portion> demand);
  void look_at_boxes();
  [[nodiscard]] queueing::Amounts boxes_kept(const std::string& work);

  // planning_outlook.cc: who would have to go, or to end
  void plan_evictions();
  bool plan_eviction(const PlannedWork& work);
  void would_evict(const PlannedWork& work, queueing::Eviction eviction, const std::set<std::string>& sites);
  [[nodiscard]] std::string likeness(const PlannedWork& work);
  [[nodiscard]] std::string work_name(const std::string& id) const;
  void look_out();
  [[nodiscard]] std::optional<std::string> ends_for(const PlannedWork& work, const controller::RunningTable& running);
  controller::RunningTable running_table();

  std::shared_ptr<const catalog::Requests> rules_;
  catalog::Catalog hardware_;
  Fleet fleet_;
  Time now_;
  controller::Ledger ledger_;
  controller::QuotaTable quotas_;
  controller::UnitTable units_;
  engine::TopologyTable topologies_;
  SeededRandom random_{1};
  std::map<std::string, Translated> translated_;        // pods without a node
  std::set<std::string> plugin_resources_;              // that some node has
  std::set<std::string> our_classes_;                   // of Heddle's devices
  std::map<std::string, model::ResourceClaim> claims_;  // of placed pods, allocated
  std::map<std::string, Answer> answers_;               // "no" by what was asked
  std::map<std::string, std::string> placed_nodes_;     // by pod key

  std::vector<engine::FleetPart> parts_;
  Time before_all_;
  std::optional<queueing::Queues> queues_;
  std::optional<queueing::Preemptions> preemptions_;
  std::map<std::string, engine::VictimHoldings> holdings_;       // by work that runs, or plain pod
  std::map<std::string, PlannedWork> works_;                     // by id
  std::map<std::string, std::string> work_of_;                   // pod key -> work
  std::vector<std::string> without_room_;                        // works, in the order of decisions
  std::set<std::string> held_nodes_;                             // where others would give way to a gang
  std::map<std::string, std::set<std::string>> claims_of_work_;  // that have devices
  std::map<std::string, std::string> positions_;                 // in words, by work
  engine::BoxRooms rooms_;
  bool rooms_stale_ = true;
  Plan plan_;
};

}  // namespace heddle::cli
