// For tests: an API server with just the rules that the controller relies on, a kube-scheduler that binds, and a
// Reconciler in front of it, all in one thread. Faults and crashes are injected write by write.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "controller/reconciler.h"

namespace heddle::controller::testing {

using Json = nlohmann::json;

class FakeApi {
 public:
  // As the API server answers; the object changes only on success.
  Result<std::string> execute(const kube::Request& request);

  void put_pod(Json pod);  // sets uid and version
  void delete_pod(const std::string& key);
  // What the claim controller and the garbage collector do when the pod is gone or over.
  void collect_garbage();
  void touch_claim(const std::string& key);  // somebody else changes a label
  void clear_allocation(const std::string& key);
  void delete_claim(const std::string& key);  // a finalizer keeps it
  Json& claim(const std::string& key) { return claims_.at(key); }
  [[nodiscard]] bool has_claim(const std::string& key) const { return claims_.contains(key); }
  [[nodiscard]] const std::map<std::string, Json>& claims() const { return claims_; }
  [[nodiscard]] const std::map<std::string, Json>& pods() const { return pods_; }
  Json& pod(const std::string& key) { return pods_.at(key); }
  void bump(Json& object);

  std::vector<Json> events;
  std::map<std::string, Json> queues;               // AcceleratorQueues
  std::map<std::string, Json> topology_conditions;  // as they were written
  bool forbid_topologies = false;                   // their status may not be written
  std::set<std::string> budgets;                    // names of pods that a disruption budget protects
  std::vector<std::string> evicted;                 // names, in order
  std::set<std::string> provisioning_versions;      // "v1", "v1beta1": as they are served
  std::map<std::string, Json> provisioning;         // "provisioningrequests/NAME" and "podtemplates/NAME"
  // Keys of objects changed or removed since the last call.
  std::vector<std::pair<std::string, std::string>> take_changes();  // {"pods", "claims" or "queues", key}
  void put_queue(const std::string& name, const Json& spec);
  void delete_queue(const std::string& name);

 private:
  Result<std::string> on_claims(const kube::Request& request, const std::string& name_space, const std::string& name,
                                const std::string& subresource);
  Result<std::string> evict(const std::string& key, const Json& eviction);
  Result<std::string> put_status(Json& claim, const Json& wanted);
  Result<std::string> on_provisioning(const kube::Request& request, const std::string& resource,
                                      const std::string& name);
  Result<std::string> on_queues(const std::string& name, const Json& patch);
  Result<std::string> on_pods(const kube::Request& request, const std::string& key, const std::string& subresource);

  uint64_t version_ = 100;
  uint64_t uids_ = 0;
  std::map<std::string, Json> pods_;
  std::map<std::string, Json> claims_;
  std::vector<std::pair<std::string, std::string>> changes_;
};

enum class Fault {
  kNone,
  kConflict,
  kForbidden,
  kQuota,
  kLostRequest,
  kLostAnswer,
  kUnavailable,
  kCrashBefore,
  kCrashAfter,
  kLateAnswer  // comes with deliver_late()
};

// In which a watch lists what is there.
enum class ListOrder { kByName, kReversed };

class FakeCluster {
 public:
  FakeCluster();

  void add_node(const std::string& name, int cards, int64_t memory_mib = 81920, const std::string& cpu = "64",
                const std::string& model = "", const std::string& rack = "");
  // With whole devices of another driver.
  void add_foreign_node(const std::string& name, const std::string& driver, int devices);
  void label_node(const std::string& name, const std::string& key, const std::string& value);
  void remove_node(const std::string& name);
  void remove_slices(const std::string& node);
  // A DeviceTaintRule on one device of a node.
  void put_taint_rule(const std::string& name, const std::string& node, const std::string& device,
                      const std::string& effect);
  void delete_taint_rule(const std::string& name);
  // As it leaves the webhook: translated, gated, with the annotation.
  void create_pod(const std::string& name, const Json& limits, const Json& extra_spec = Json::object());
  void create_pod(const std::string& name, const std::vector<Json>& limits_by_container,
                  const Json& extra_spec = Json::object(), const Json& annotations = Json::object());
  // A member of the gang "g", with one card; marks: further annotations.
  void create_member(const std::string& name, int size, const Json& marks = Json::object());
  // A pod whose one container uses claims that the user wrote.
  void create_claim_pod(const std::string& name, const std::vector<std::string>& claims);
  void create_user_claim(const std::string& name, const Json& exactly);
  // The same, of a queue, submitted now.
  void create_queued_pod(const std::string& name, const std::string& queue, const Json& limits,
                         const Json& extra_spec = Json::object());
  // A member of a gang of a queue, with one card, submitted now.
  void create_queued_member(const std::string& name, const std::string& gang, int size, const std::string& queue,
                            const Json& marks = Json::object(), const Json& extra_spec = Json::object());
  void delete_pod(const std::string& name);
  void finish_pod(const std::string& name);
  void upsert_quota(const std::string& name, std::map<std::string, int64_t> hard, std::vector<QuotaTerm> terms = {});
  // Kinds "group/Kind" that the API server serves from now on, and objects of them.
  void serve_gang_kinds(std::set<std::string> kinds);
  void put_gang_object(const Json& object);
  // An AcceleratorTopology of one level, by a node label; more: further fields of the level.
  void put_topology(const std::string& name, const std::string& created, const std::string& level,
                    const std::string& label, const Json& more = Json::object());
  void delete_topology(const std::string& name);
  void delete_gang_object(const std::string& key);  // "group/Kind namespace/name"

  // The controller starts, or starts again, with nothing but what the API server has.
  void start_controller(ListOrder order = ListOrder::kByName);
  // Until nothing is left to do now; timers that are due within `ahead` are let pass.
  void settle(Duration ahead = Duration::seconds(0));
  // Pods that were evicted end. Pods whose gate is gone and whose claims are allocated get their node; on nodes in
  // `full` the scheduler takes one allocation back instead. True when something changed.
  bool schedule();
  // settle() and schedule() in turn until nothing changes.
  void run(Duration ahead = Duration::seconds(0));

  void deliver_late();

  // One device held beyond its capacity, a pod ungated too early, a gang started before enough of it had its devices, a
  // claim that no pod owns: what must never be.
  [[nodiscard]] std::vector<std::string> violations() const;
  [[nodiscard]] std::string node_of(const std::string& pod) const;  // bound to; empty: not bound
  [[nodiscard]] bool gated(const std::string& pod) const;
  [[nodiscard]] Json condition(const std::string& pod) const;  // heddle.dev/Allocated, or null
  [[nodiscard]] std::vector<std::string> event_reasons() const;

  FakeApi api;
  ManualClock clock{Time{1'800'000'000'000'000'000}};
  std::unique_ptr<Reconciler> controller;
  std::string provisioning_class;  // of the controllers that start from now on
  std::set<std::string> full;
  // For controllers that start from now on.
  std::set<std::string> managed_drivers;
  std::map<std::string, std::string> classes;  // further DeviceClasses: name -> selector
  // Called for each write before it is sent, with its number (conditions, events and reads do not count and get 0).
  std::function<Fault(const Write&, uint64_t number)> fault;
  uint64_t writes = 0;
  uint64_t crashes = 0;

 private:
  void deliver();
  void put_node(const std::string& name, const std::string& cpu, const std::string& driver, const Json& devices,
                const std::string& rack);
  void check_gang(const Json& pod);
  void perform(const Write& write);

  std::shared_ptr<const catalog::Requests> rules_;
  Logger log_;
  std::vector<std::pair<uint64_t, Result<std::string>>> late_;
  std::vector<std::string> early_;  // gangs that a member left too early
  std::map<std::string, Json> nodes_;
  std::map<std::string, Json> slices_;
  std::map<std::string, model::DeviceTaintRule> taint_rules_;
  std::map<std::string, Quota> quotas_;
  std::set<std::string> gang_kinds_;
  std::map<std::string, GangObject> gang_objects_;
  std::map<std::string, std::string> topologies_;  // as JSON
  uint64_t incarnation_ = 0;
};

// The same life again and again, with a fault at its first write, its second, and so on; `act` makes the writes that
// count, and every one of the lives has to end as `expect` says.
struct Life {
  std::function<void(FakeCluster&)> prepare;
  std::function<void(FakeCluster&)> act;
  std::function<void(const FakeCluster&)> expect;
};
void live_with_a_fault_at_every_write(Fault fault, const Life& life, uint64_t least_writes);

}  // namespace heddle::controller::testing
