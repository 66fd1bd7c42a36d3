// The inside of the Reconciler, shared by its source files. Not for others.
#pragma once

#include <functional>
#include <tuple>

#include "controller/gang_shape.h"
#include "controller/provisioning.h"
#include "controller/queued.h"
#include "controller/reconciler.h"
#include "controller/running.h"
#include "controller/units.h"
#include "engine/gang.h"
#include "kube/paths.h"

namespace heddle::controller {

// What was last said about a pod, to the user and to `heddle explain`.
struct Telling {
  std::string outcome;  // Allocated, Waiting, Infeasible, Refused, Repair
  std::vector<engine::Reason> reasons;
  std::optional<engine::NodeNeed> needs = {};
};

// Of the ProvisioningRequest for a pod: whether there is one. kUnknown: the pod waited before this process began.
enum class Asked { kNo, kUnknown, kYes };

struct PodRecord {
  model::Pod pod;
  // From the annotation; empty for pods whose claims are all the user's own.
  std::vector<dialects::ContainerRequest> requests;
  std::optional<Error> bad_request;
  std::string signature;  // equal ones get equal outcomes from the engine

  int in_flight = 0;             // writes of the ledger and of this pod that have no answer yet
  std::set<std::string> reread;  // claims whose state is unknown after a failed write
  bool reread_pod = false;
  bool clearing = false;     // every allocation of the pod must go before it is placed again
  std::string granted_node;  // claims written and the gate gone, for this node
  std::string nominated;     // the node that we have told kube-scheduler, or tried to
  std::vector<std::string> failed_nodes;
  int tries = 0;                 // of repair
  int failures = 0;              // of writes, in a row
  int64_t retry_at = 0;          // monotonic
  int64_t release_at = 0;        // a claim that someone deletes is let go
  uint64_t refused_version = 0;  // of placement_version(); place() said no at this number

  Telling telling;
  model::PodCondition told;  // what the API server has, as far as known
  int64_t told_at = 0;
  bool telling_now = false;  // a condition is on its way
  bool tell_again = false;   // and another one after it
  int64_t retell_at = 0;     // a newer message waits for its turn

  bool arrived = false;  // the engine knows that it has come

  int64_t needs_since = 0;  // monotonic: more nodes would let it start, since then; 0: they would not
  Asked nodes_asked = Asked::kNo;
};

// One claim that a pod needs from us.
struct Want {
  std::string key;
  std::string ref;                                      // its name in the pod's spec.resourceClaims
  const dialects::ContainerRequest* request = nullptr;  // null: the user made the claim
  const model::ResourceClaim* claim = nullptr;          // null: not created yet
  [[nodiscard]] bool allocated() const { return claim != nullptr && claim->allocation.has_value(); }
};

struct Wants {
  std::vector<Want> ours;
  std::optional<std::string> foreign_node;  // where an allocated claim that is not ours binds the pod
  std::optional<Telling> blocked;           // what has to change before anything can be decided
  std::vector<std::string> deleted;         // claims made by us that someone deletes
};

// What is known of a gang besides its pods. Made again from what the API server shows, as each member is advanced.
struct GangState {
  std::set<std::string> planned;  // members with an allocation that is decided and not written
  std::set<std::string> whole;    // members with all their claims allocated, whether their gate is gone or not
  std::set<std::string> held;     // whole ones that wait with their gate for the others
  int64_t without_devices = 0;    // members that ask Heddle for nothing
  int64_t short_since = 0;        // monotonic: started once, and below its minimum since then; 0: it is not
  std::string place;              // "rack r1": where it was put
};

struct GangRef {
  const Unit* unit = nullptr;
  GangState* state = nullptr;  // null: the pod is in no gang
};

// Where a member stands in its gang.
enum class Stand { kNone, kPlanned, kWhole };

// A gang as the engine is asked for it.
struct GangAsk {
  struct Member {
    PodRecord* record = nullptr;
    std::vector<Want> open;
  };
  engine::GangRequest request;
  std::vector<Member> members;  // as request.members
  DeviceUsage least;            // what all of it counts at least
  int64_t missing = 0;          // of the minimum, beside what waits and what has its devices
};

// What the objects say of a work.
struct StatedWork {
  queueing::Workload workload;   // in the queue for work without one where it is refused
  std::optional<Error> refused;  // its label names a queue that is not for it
};

// What is known of who would have to end for the waiting ones to start.
struct Outlooks {
  struct Answer {
    uint64_t version = 0;  // of placement_version()
    std::string text;      // empty: nobody was found
    std::vector<std::string> units;
  };
  std::map<std::string, Answer> answers;  // by what is asked
  std::set<std::string> due;              // pods whose answer is of an earlier version
  int64_t next_at = 0;                    // monotonic; no answer is made before
  RunningTable running;
  uint64_t running_version = 0;
};
enum class Haste { kInTurn, kNow };

// What is asked of an autoscaler.
struct Provisioning {
  std::map<std::string, std::map<std::string, std::string>> node_labels;  // by node
  std::set<std::string> due;                                              // pods that need nodes and have not asked
  std::map<std::string, NodesAsked> asked;                                // by pod: requests that have no answer yet
  std::map<std::string, int64_t> open;                                    // pods with a request; monotonic, since when
  size_t version = 0;                                                     // of the API, of those that are known
  int64_t served_at = 0;  // monotonic; nothing is asked before: no version is served
};

struct Reconciler::Impl {
  Impl(ReconcilerOptions the_options, const Clock& the_clock, const Logger& the_log)
      : options(std::move(the_options)), clock(the_clock), log(the_log), random(options.seed), ledger(options.driver) {}

  // events.cc: objects and answers
  void upsert_pod(model::Pod pod);
  void remove_pod(const std::string& key, const std::string& uid);
  void account_usage(const model::Pod& pod);
  void set_usage(const model::Pod& pod, const std::string& node);
  void forget_usage(const std::string& uid);
  void notice_plain_pod(const model::Pod& pod);
  void index_claims(const PodRecord& record);
  void drop_claim_index(const PodRecord& record);
  void upsert_claim(model::ResourceClaim claim);
  void claim_changed(const std::string& key);
  void finish(uint64_t id, Result<std::string> answer);
  void accept(PodRecord* record, WriteKind kind, const std::string& claim_key, const std::string& body);
  void reject(PodRecord& record, WriteKind kind, const std::string& claim_key, const Error& error);
  void resign();

  // advance.cc: one pod, the next write that is missing
  void advance(PodRecord& record);
  void note_arrival(PodRecord& record, const Wants& wants);
  void settle(PodRecord& record);
  void drop_plans(PodRecord& record);
  Wants wants_of(const PodRecord& record) const;
  void add_want(const PodRecord& record, const model::PodResourceClaim& entry, Wants& wants) const;
  [[nodiscard]] std::optional<Telling> claims_that_clash(const model::Pod& pod, const Wants& wants) const;
  bool ask_again(PodRecord& record);
  bool move_away(PodRecord& record, const Wants& wants);
  bool clear_claims(PodRecord& record, const Wants& wants);
  void release_deleted(PodRecord& record, const Wants& wants);
  [[nodiscard]] bool can_clear(const PodRecord& record, const Wants& wants) const;
  bool write_planned(PodRecord& record, const Wants& wants);
  void grant(PodRecord& record, const Wants& wants);
  bool nominate(PodRecord& record, const std::string& node, Telling telling);
  void back_off(PodRecord& record);

  // gang_placing.cc: units, and gangs among them
  void units_changed();
  void check_stalled();
  void check_short_gangs();
  // work: the one of its works that is tried.
  void place_gang(const Unit& unit, const Work& work, std::map<std::string, engine::Outcome>& answers);
  void gang_is_told(const Unit& unit, const Work& work, const engine::Outcome& no);
  std::optional<GangAsk> gang_ask(const Unit& unit, const Work* work);
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> placed_members(const GangState& gang);
  std::optional<engine::GangMember> gang_member(const PodRecord& record, std::vector<Want>& open);
  // What its queue says to these devices; nothing: they are planned, or told why not.
  std::optional<engine::Reason> gang_assigned(const Unit& unit, const Work& work, GangAsk& ask,
                                              engine::GangAssigned& outcome);
  bool avoid_kind_of_gang(const engine::GangAssigned& outcome, GangAsk& ask) const;
  void gang_refused(const Unit& unit, const Work& work, const Telling& telling);
  void tell_gang(const Unit& unit, const Work* work, const Telling& telling);
  void take_back(const Unit& unit);
  void end_gang(const Unit& unit);
  bool released(PodRecord& record);
  void stand(const PodRecord& record, Stand now);
  GangRef gang_of_pod(const std::string& pod_key);
  // In rank order; work: those of this one only.
  [[nodiscard]] std::vector<PodRecord*> waiting_members(const Unit& unit, const Work* work);
  [[nodiscard]] int64_t whole_members(const Unit& unit, const GangState& gang) const;
  [[nodiscard]] bool gang_may_start(const Unit& unit, const GangState& gang) const;
  [[nodiscard]] bool gang_started(const Unit& unit) const;
  [[nodiscard]] bool gang_waits(const Unit& unit) const;
  [[nodiscard]] std::string claims_node(const PodRecord& record) const;

  // placing.cc: the waiting pods, and what must be taken back
  void place(PodRecord& record, std::map<std::string, engine::Outcome>& answers);
  [[nodiscard]] DeviceUsage used_of(const Quota& quota) const;
  [[nodiscard]] std::optional<engine::Reason> over_quota(const model::Pod& pod, const DeviceUsage& ask) const;
  // What its queue says to these devices; nothing: it is planned, or told why not.
  std::optional<engine::Reason> assigned(PodRecord& record, const std::vector<Want>& open,
                                         const engine::Assigned& outcome);
  void audit();
  void check_vanished();
  void take_down_orphans();
  void take_down(const std::string& key, int64_t now);
  [[nodiscard]] uint64_t placement_version() const {
    return ledger.state().generation() + quotas.version() + queued.version;
  }
  // What is asked of the engine for a pod, and the claims that still need devices.
  [[nodiscard]] engine::PlacementRequest request_of(const PodRecord& record, const Wants& wants,
                                                    std::vector<Want>& open);

  // boxes.cc: quota by shape
  void look_at_boxes();
  [[nodiscard]] queueing::Amounts boxes_kept(const std::string& work);
  [[nodiscard]] std::vector<engine::BoxBudget> boxes_for(const std::string& work);
  void keep_boxes(const PodRecord& record, engine::PlacementRequest& request);

  // works.cc: units as the works that queues know
  void form_works(const std::string& unit_id);
  void form_due();
  [[nodiscard]] std::set<std::string> core_of(const Unit& unit);
  Work* work_of(const PodRecord& record);
  [[nodiscard]] std::string work_id(const PodRecord& record) const;
  void join(const std::string& pod_key, const std::string& id, const std::string& unit, bool has_core);
  void leave_work(const std::string& pod_key);
  void leave_queue(const PodRecord& record);
  void claim_of_ghost_changed(const std::string& key);
  [[nodiscard]] std::vector<PodRecord*> waiting_of(const Work& work);
  [[nodiscard]] std::vector<PodRecord*> holders_of(const Work& work);
  [[nodiscard]] std::string work_name(const std::string& id) const;
  [[nodiscard]] static bool counts_for(const PodRecord& record, const Want& want);
  [[nodiscard]] std::vector<queueing::Portion> demand_of(const PodRecord& record, bool only_held);
  [[nodiscard]] std::optional<Time> holds_since(const PodRecord& record) const;
  [[nodiscard]] std::optional<Time> work_since(const Work& work) const;
  StatedWork workload_of(const Work& work);
  void keep_for_the_dead(const Unit& unit, const Work& core, std::vector<queueing::Portion>& demand) const;
  void count_as_one(const Unit& unit, const Work& core, std::vector<queueing::Portion>& demand) const;
  [[nodiscard]] bool may_queue(const Work& work, const std::vector<PodRecord*>& waiting);

  // queued.cc: works in their queues
  void refresh_queues();
  void rebuild_works(queueing::Queues tree);
  void drop_queues();
  void sync_queues(const std::set<std::string>& pod_keys);
  void sync_work(const std::string& id);
  void sync_waiting(const Work& work, queueing::Workload workload);
  void sync_running(const Work& work, queueing::Workload workload, Time since);
  void take_in(const Result<void>& answer) const;
  void note_victim(const Work& work);
  void end_work(const std::string& id);
  // What quota says to the devices that are chosen for all of a work; when nothing, it has started.
  std::optional<engine::Reason> admit(const std::string& id, std::vector<queueing::Portion> demand);
  std::optional<engine::Reason> over_queue(const PodRecord& record, const std::vector<Want>& open,
                                           const engine::Assigned& outcome);
  std::optional<engine::Reason> gang_over_queue(const Work& work, const GangAsk& ask,
                                                const engine::GangAssigned& outcome);
  void add_granted(const PodRecord& record, const std::vector<Want>& open, const engine::Assigned& outcome,
                   std::vector<queueing::Portion>& demand);
  bool avoid_kind(const engine::Assigned& outcome, const std::vector<Want>& open,
                  engine::PlacementRequest& request) const;
  void close_nodes(const PodRecord& record, engine::PlacementRequest& request);
  void add_position(const PodRecord& record, Telling& telling) const;
  void number_positions();
  void place_pending();
  void place_work(const Work& work, std::map<std::string, engine::Outcome>& answers);
  std::vector<std::string> place_started();
  void invite_growth(const Work& core);
  // Writes of it are under way, or it waits for a time.
  [[nodiscard]] bool busy(const Work& work);
  // It was not refused since something changed.
  [[nodiscard]] bool worth_trying(const Work& work);
  void tell_not_offered(const std::set<std::string>& offered, std::vector<std::string>& without_room);
  void wake_for_queues();
  void queue_timer();

  // preempting.cc: making room
  void note_plain_pod(const model::Pod& pod);
  void forget_plain_pod(const std::string& key);
  void room_made(const std::string& preemptor);
  void place_held();
  void plan_evictions(const std::vector<std::string>& without_room);
  bool plan_eviction(const Work& work);
  bool plan_gang_eviction(const Unit& unit, const Work& work);
  [[nodiscard]] bool lost_a_member(const Work& work);
  void begin_eviction(const Work& work, queueing::Eviction eviction, const std::set<std::string>& sites);
  [[nodiscard]] std::set<std::string> refused_victims(const Work& work) const;
  void add_growth(std::vector<std::string>& victims) const;
  void forget_refusals(const PodRecord& record);
  void resume_holds();
  void drop_hold(const std::string& id);
  void ask_to_go(const std::string& victim, const std::string& why, const std::string& cause);
  void ask_next_to_go(const std::string& victim);
  void drop_departure(const std::string& pod_key);
  void ask_pod_to_go(const std::string& pod_key);
  void ask_again_to_go();
  void eviction_answered(const std::string& pod_key, const Result<std::string>& answer);
  // result: of the plan, as ReconcilerStats::plans has it.
  void give_up_hold(const std::string& id, const char* result);
  void victim_stays(const std::string& victim, const std::string& why);
  void tell_evicted(const std::string& pod_key, const Departure& departure);
  // Where the pod counts: of a work in its queue, else empty.
  [[nodiscard]] std::string queue_of(const std::string& work) const;
  void note_admitted(const std::string& work, Time submitted);

  // queue_status.cc
  void write_queue_status();
  [[nodiscard]] std::string queue_status(const std::string& name, const QueueObject& object) const;
  void write_status(std::string_view plural, const std::string& name, const QueueTable::Fault* fault,
                    const std::string& rest, int64_t generation);

  // topology_status.cc
  void topology_changed(bool levels_changed);
  void write_topology_status();
  void topology_untold(const std::string& name);

  // provisioning.cc: asking for nodes that are not there
  void note_need(PodRecord& record);
  void ask_for_nodes();
  void ask_for_nodes_of(PodRecord& record);
  void need_no_nodes(PodRecord& record);
  void provision_answered(const std::string& subject, const Result<std::string>& answer);
  void taken_away(const std::string& subject, const Result<std::string>& answer);

  // outlook.cc: who would have to end
  void refresh_running();
  [[nodiscard]] std::string outlook_key(const PodRecord& record) const;
  std::optional<RunningTable::Found> who_has_to_end(PodRecord& record);
  const Outlooks::Answer* look_out(PodRecord& record, Haste haste);
  void add_outlook(PodRecord& record, Telling& telling, Haste haste);
  [[nodiscard]] bool next_in_line(const PodRecord& record) const;
  void tell_outlooks();

  // telling.cc
  void tell(PodRecord& record, Telling telling);
  void tell_event(const model::Pod& pod, const std::string& reason, const std::string& message, std::string_view type);
  [[nodiscard]] std::optional<std::string> explain_json(const std::string& key);

  // Asks for a write. record: the pod that waits for its answer; null for none.
  void emit(PodRecord* record, WriteKind kind, const std::string& claim_key, kube::Request request);
  [[nodiscard]] bool unsettled() const { return !dirty.empty() || !queued.reform.empty() || !queued.resync.empty(); }
  void wake_at(int64_t monotonic, const std::string& key) { timers.emplace(monotonic, key); }
  [[nodiscard]] PodRecord* find(const std::string& key);

  struct Flight {
    std::string pod_key;
    std::string pod_uid;
    std::string claim_key;
    WriteKind kind = WriteKind::kEvent;
    std::string subject = {};  // of evictions the pod, of a status the object
  };
  struct Usage {
    std::string node;
    std::map<std::string, int64_t> amounts;
    std::vector<model::HostPort> ports;
    friend bool operator==(const Usage&, const Usage&) = default;
  };
  using Order = std::tuple<int64_t, int64_t, std::string>;  // -priority, created, key
  static Order order_of(const model::Pod& pod) {
    return {-static_cast<int64_t>(pod.priority), pod.meta.created.unix_nanos, pod.meta.key()};
  }

  ReconcilerOptions options;
  const Clock& clock;
  const Logger& log;
  SeededRandom random;
  Ledger ledger;
  QuotaTable quotas{options.rules};
  Queued queued;
  Outlooks outlooks;
  Provisioning provisioning;
  engine::TopologyTable topologies;
  std::map<std::string, engine::TopologyTable::Standing> topology_told;
  bool topology_due = false;      // their statuses may be other ones now
  int64_t topology_retry_at = 0;  // monotonic; 0: none could not be written
  bool leading = false;

  std::map<std::string, PodRecord> pods;                         // those that have to do with claims
  std::unordered_map<std::string, std::set<std::string>> users;  // claim -> pods that name it
  std::unordered_map<std::string, std::string> pod_uids;         // every known pod: key -> uid
  std::unordered_map<std::string, Usage> usages;                 // pod uid -> what the State counts
  std::map<std::string, bool> unnoticed;                         // pod key -> told
  std::map<std::string, model::Pod> unnoticed_pods;
  std::set<std::string> nodes;
  std::set<std::string> our_classes;  // of devices that are allocated here
  std::set<std::string> own_classes;  // those of them of Heddle's own devices

  std::set<std::string> dirty;
  std::set<Order> pending;
  UnitTable units{UnknownSize::kOneByOne};  // not every cluster serves the objects of frameworks
  std::map<std::string, GangState> gangs;   // by unit id
  std::set<std::string> stalled;            // unit ids: members hold devices and wait for the others
  std::set<std::string> granted_unbound;
  std::set<std::pair<int64_t, std::string>> timers;  // monotonic; an empty key only wakes run()
  std::map<std::string, int64_t> orphans;            // claim -> since when
  std::set<std::string> clearing_claims;             // writes of audit() and orphans under way
  int64_t vanished_check_at = 0;
  std::set<std::string> orphan_candidates;
  bool audit_due = false;
  bool orphans_due = false;  // a grace has passed
  bool pass_due = false;     // a pod joined the waiting ones
  uint64_t passed_version = 0;

  uint64_t last_id = 0;
  uint64_t event_number = 0;
  std::unordered_map<uint64_t, Flight> flights;
  std::vector<Write> out;
  ReconcilerStats stats;
};

inline constexpr size_t kMostTimes = 100000;  // kept between two calls of take_stats()
inline constexpr int kMostKinds = 4;          // other kinds of devices that are tried when quota refuses one

[[nodiscard]] bool gated(const model::Pod& pod);
// So many of its members are there and cannot be placed yet.
[[nodiscard]] engine::Reason gang_incomplete(const Unit& unit, int64_t missing);

// A timer's key that stands for no pod: the queues may decide otherwise from then on.
inline constexpr std::string_view kQueueTimer = "/queues";
inline constexpr std::string_view kStatusTimer = "/status";  // one that only wakes run()

}  // namespace heddle::controller
