// What the controller decides, apart from how it talks: objects and results of writes in, writes out.
//
// A pod is driven level by level: each call looks at what the API server has shown (pod, claims) and at what is
// planned, and asks for the next write that is missing. So a restart at any point goes on where the last write left the
// objects; nothing else is remembered. Deterministic: time from the Clock that is passed in, randomness from the seed.
//
// Thread rule: one owner thread. Cost: an event touches the pods that name its object; a pass over the waiting pods is
// made only after something was freed, and equal requests are placed once a pass.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "controller/gangs.h"
#include "controller/ledger.h"
#include "controller/queue_table.h"
#include "controller/quota.h"
#include "dialects/translate.h"
#include "engine/engine.h"
#include "engine/topology.h"
#include "engine/topology_table.h"
#include "kube/client.h"
#include "model/pod.h"

namespace heddle::controller {

enum class WriteKind {
  kCreateClaim,
  kAllocateClaim,
  kProtectClaim,  // the finalizer on a claim that a user made
  kClearClaim,    // takes the allocation away
  kReleaseClaim,  // takes the finalizer away
  kDeleteClaim,
  kNominatePod,  // where the devices are: the condition and the node, before the gate goes
  kUngatePod,
  kEvictPod,  // by the Eviction API
  kReadClaim,
  kReadPod,
  kQueueStatus,
  kProvision,  // a ProvisioningRequest and its PodTemplate, and their end
  kCondition,
  kEvent,
};
std::string_view write_name(WriteKind kind);
// Conditions, statuses, events and what is asked of an autoscaler tell; all else is the ledger and the pods, and goes
// first.
[[nodiscard]] inline bool is_telling(WriteKind kind) {
  return kind == WriteKind::kCondition || kind == WriteKind::kEvent || kind == WriteKind::kQueueStatus ||
         kind == WriteKind::kProvision;
}
[[nodiscard]] inline bool is_read(WriteKind kind) {
  return kind == WriteKind::kReadClaim || kind == WriteKind::kReadPod;
}

struct Write {
  uint64_t id = 0;
  WriteKind kind = WriteKind::kEvent;
  kube::Request request;
};

struct ReconcilerOptions {
  std::shared_ptr<const catalog::Requests> rules;  // must be set
  std::string driver = "accelerator.heddle.dev";
  std::string component = "heddle-controller";
  uint64_t seed = 1;
  std::vector<engine::TopologyLevel> topology = engine::default_topology();  // until an AcceleratorTopology is there
  int repair_tries = 5;                            // other nodes tried at once before a longer pause
  Duration first_backoff = Duration::millis(200);  // doubled up to
  Duration longest_backoff = Duration::seconds(30);
  Duration retry_audit = Duration::seconds(1);          // after a write that took an allocation back failed
  Duration orphan_grace = Duration::seconds(60);        // before a claim without its pod is taken down by us
  Duration vanished_grace = Duration::seconds(10);      // a device may be missing this long while an agent restarts
  Duration gang_patience = Duration::seconds(300);      // a gang that started may be below its minimum for so long
  Duration message_interval = Duration::seconds(10);    // between two conditions of a pod with the same reason
  std::string provisioning_class = {};                  // of ProvisioningRequests; empty: none are made
  Duration provisioning_delay = Duration::seconds(30);  // what needs nodes for so long asks for them
  std::set<std::string> managed_drivers;  // of others, whose devices are allocated here; preparing them is theirs
};

// Monotonic counts and present numbers, for metrics.
struct ReconcilerStats {
  uint64_t assigned = 0;
  uint64_t waiting = 0;
  uint64_t infeasible = 0;
  uint64_t refused = 0;
  uint64_t over_commits_cleared = 0;
  uint64_t repairs = 0;
  uint64_t preemptions = 0;  // plans begun
  uint64_t evictions = 0;    // pods that were asked to go, and go
  std::map<std::string, int64_t> pending_by_reason;
  int64_t tracked_pods = 0;
  int64_t unnoticed_pods = 0;        // ask for translated resources but passed admission before the webhook was there
  std::vector<int64_t> place_nanos;  // since the last call of take_stats()
  uint64_t arrived = 0;              // pods that the engine has been told of, as part of the mix
  // {queue of the victim, why} -> pods that were asked to go, and go. The queue is empty for pods outside of all; why
  // is "reclaim" (what was borrowed), "priority", or "gang" (what is left of a gang below its minimum).
  std::map<std::pair<std::string, std::string>, uint64_t> evicted;
  std::map<std::string, uint64_t> evictions_refused;  // by queue of the victim
  // How plans went on: "begun", "made_room" (all victims have gone), "refused" (a victim stays, by a disruption
  // budget), "withdrawn" (the preemptor has gone, or has started elsewhere), "overtaken" (room was made and did not
  // do).
  std::map<std::string, uint64_t> plans;
  struct Wait {
    std::string queue;
    int64_t nanos = 0;
  };
  // Of units that were admitted since the last call of take_stats(): from the creation of their first pod.
  std::vector<Wait> waits;
};

class Reconciler {
 public:
  Reconciler(ReconcilerOptions options, const Clock& clock, const Logger& log);
  ~Reconciler();
  Reconciler(const Reconciler&) = delete;
  Reconciler& operator=(const Reconciler&) = delete;

  void upsert_pod(model::Pod pod);
  void remove_pod(const std::string& key, const std::string& uid);
  void upsert_claim(model::ResourceClaim claim);
  void remove_claim(const std::string& key, const std::string& uid);
  void upsert_node(model::Node node);
  void remove_node(const std::string& name);
  void upsert_slice(model::ResourceSlice slice);
  void remove_slice(const std::string& name);
  void upsert_taint_rule(model::DeviceTaintRule rule);
  void remove_taint_rule(const std::string& name);
  void upsert_class(model::DeviceClass device_class);
  void remove_class(const std::string& name);
  void upsert_quota(Quota quota);
  void remove_quota(const std::string& key);
  void upsert_queue(QueueObject queue);
  void remove_queue(const std::string& name);
  void upsert_reservation(ReservationObject reservation);
  void remove_reservation(const std::string& name);
  void upsert_namespace(const model::Namespace& name_space);
  void remove_namespace(const std::string& name);
  // The levels of gangs are those of the one in force, from the next decision on.
  void upsert_topology(engine::TopologyObject topology);
  void remove_topology(const std::string& name);
  // What says the size of gangs: PodGroups, JobSets and the like. Of the kinds that are seen ("group/Kind") every
  // object is told; a gang of another kind without a size starts one by one.
  void see_gang_kinds(std::set<std::string> object_kinds);
  // A gang waits to know whether its kind is served: ask, say with begin_gang_look() that it is asked, and then
  // see_gang_kinds().
  [[nodiscard]] bool gang_look_due() const;
  void begin_gang_look();
  void upsert_gang_object(GangObject object);
  void remove_gang_object(const std::string& key);

  // Before this nothing is written. All watches must have delivered their first list, read after leadership began.
  void lead();
  // Forgets every plan and every write under way; their results are ignored.
  void resign();

  // The answer to one write: the body of a 2xx, or the error.
  void finish(uint64_t write_id, Result<std::string> answer);
  // Everything that can be decided now; call it after a batch of events.
  std::vector<Write> run();
  // When run() has something to do even without an event; on the monotonic clock.
  [[nodiscard]] std::optional<int64_t> next_timer_nanos() const;

  // {"pod":..., "outcome":..., "reasons":[...], ...}; nothing for a pod that is not known. Cost: of one that waits, the
  // search for the work that would have to end.
  [[nodiscard]] std::optional<std::string> explain_json(const std::string& key);
  ReconcilerStats take_stats();
  [[nodiscard]] const Ledger& ledger() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle::controller
