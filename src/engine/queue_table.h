// The objects of heddle.dev as a tree of queues: which of them are in force, which queue a namespace's work belongs to,
// and what is wrong with the others. Pure; one owner thread.
//
// All queues are one tree below a root that is not an object: its guarantee is what the fleet has. Work of namespaces
// that no queue names runs in the queue `unassigned`, which has no guarantee, so that it borrows.
//
// A change that makes the tree as a whole bad changes nothing: the last good tree stays in force until the objects are
// good again. After a restart that is the tree of the specs that status.inForce remembers; where even these do not fit
// together, the queues with faults, and those below them, are left out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/demand.h"
#include "engine/topology.h"
#include "model/queue.h"
#include "queueing/queueing.h"

namespace heddle::engine {

inline constexpr std::string_view kQueueLabel = "heddle.dev/queue";
inline constexpr std::string_view kReservationLabel = "heddle.dev/reservation";
inline constexpr const char* kRootQueue = "(cluster)";
inline constexpr const char* kUnassignedQueue = "unassigned";

// As the API server has it; one that cannot be read is known by its name, and by why.
struct QueueObject {
  model::ObjectMeta meta;
  int64_t generation = 0;
  Result<model::AcceleratorQueue> queue;
};
struct ReservationObject {
  model::ObjectMeta meta;
  int64_t generation = 0;
  Result<model::AcceleratorReservation> reservation;
};
// Errors: kInvalidArgument when not even its name can be read.
Result<QueueObject> read_queue_object(std::string_view json);
Result<ReservationObject> read_reservation_object(std::string_view json);

// Where the members of a gang have to lie: topology levels, by name or node label; empty: anywhere.
struct GangLevels {
  std::string required = {};  // of all of them together, or a slice
  std::string segment = {};   // of each segment
  int64_t segment_size = 0;   // members
};

class QueueTable {
 public:
  void upsert(QueueObject object);
  void remove_queue(const std::string& name);
  void upsert(ReservationObject object);
  void remove_reservation(const std::string& name);
  void upsert(const model::Namespace& name_space);
  void remove_namespace(const std::string& name);

  // False: there is no queue, and nothing is counted or ordered by queues.
  [[nodiscard]] bool any() const { return !queues_.empty(); }
  // Raised by each change that can change an answer below.
  [[nodiscard]] uint64_t version() const { return version_; }

  // What is wrong with an object; empty: it is in force.
  struct Fault {
    std::string field;
    std::string message;
    [[nodiscard]] std::string text() const { return field + ": " + message; }
  };
  // Brings what is in force in step with the objects. Cheap when nothing changed.
  void settle();
  // Of the last settle().
  [[nodiscard]] const Fault* fault_of_queue(const std::string& name) const;
  [[nodiscard]] const Fault* fault_of_reservation(const std::string& name) const;

  // Parts of the fleet whose devices the class selects; of all devices for "".
  using Fleet = std::function<std::vector<FleetPart>(const std::string& device_class)>;
  // How many boxes the fleet makes when nobody holds anything, of a meter of boxes wider than a node.
  using WideBoxes = std::function<int64_t(const model::QuotaMeter&)>;
  // For queueing::Queues; never refused by it. Its meters are those of meters(), in that order.
  [[nodiscard]] queueing::Config config(const Fleet& fleet, const WideBoxes& boxes = {}) const;
  [[nodiscard]] const std::vector<model::QuotaMeter>& meters() const { return meters_; }
  // What the fleet has, by meter.
  [[nodiscard]] queueing::Amounts capacity(const Fleet& fleet, const WideBoxes& boxes = {}) const;
  // Gives whole devices of one node the largest box that divides them.
  void fill_boxes(queueing::Portion& portion) const;
  // Of a gang: where its whole devices, or those of each segment, have to lie in one domain of a level and make boxes
  // of it, or it asks for a slice that is cut into slices of a shape, it takes those, the largest, as one unit, and no
  // boxes of single nodes. levels: those in force.
  void fill_wide_boxes(std::vector<queueing::Portion>& portions, const GangLevels& gang,
                       const std::vector<TopologyLevel>& levels) const;

  // The leaf that work of the namespace belongs to; label: what the pod asks for, or empty. Errors: with field and fix.
  [[nodiscard]] Result<std::string> queue_of(const std::string& name_space, const std::string& label) const;
  // Whether work of that namespace and queue may use the reservation. Errors: with field and fix.
  [[nodiscard]] Result<void> may_use(const std::string& reservation, const std::string& name_space,
                                     const std::string& queue) const;

  [[nodiscard]] const std::map<std::string, QueueObject>& queues() const { return queues_; }
  [[nodiscard]] const std::map<std::string, ReservationObject>& reservations() const { return reservations_; }
  // By name; of queues that are gone, too, while the last good tree stays.
  [[nodiscard]] const std::map<std::string, model::AcceleratorQueueSpec>& in_force() const { return in_force_; }
  // By which policy its work is placed where the pod does not say: its own, or that of the nearest queue above that has
  // one. Nothing: none has.
  [[nodiscard]] std::optional<model::PlacementPolicy> policy_of(const std::string& queue) const;
  // What the pod says, then what its queue says, then the default.
  [[nodiscard]] model::PlacementPolicy policy_for(const model::ObjectMeta& pod) const;
  [[nodiscard]] bool leaf(const std::string& queue) const;
  // The leaf itself, or those below a queue in force.
  [[nodiscard]] std::vector<std::string> leaves(const std::string& queue) const;

 private:
  using Specs = std::map<std::string, model::AcceleratorQueueSpec>;
  using Faults = std::map<std::string, Fault>;
  [[nodiscard]] Faults check(const Specs& specs) const;
  void check_place(const Specs& specs, const std::string& name, Faults& faults) const;
  void check_sums(const Specs& specs, Faults& faults) const;
  [[nodiscard]] bool newer(const std::string& a, const std::string& b) const;
  void settle_reservations();
  void collect_meters();
  [[nodiscard]] bool below(const std::string& queue, const std::string& top) const;
  [[nodiscard]] bool takes(const model::AcceleratorQueueSpec& spec, const std::string& name_space) const;

  std::map<std::string, QueueObject> queues_;
  std::map<std::string, ReservationObject> reservations_;
  std::map<std::string, std::map<std::string, std::string>> labels_;  // of namespaces
  uint64_t version_ = 1;
  uint64_t settled_ = 0;

  Specs in_force_;
  bool was_good_ = false;  // in_force_ is a tree without faults of this process's life
  Faults queue_faults_;
  Faults reservation_faults_;
  std::vector<model::QuotaMeter> meters_;
  std::map<std::string, std::vector<std::string>> children_;  // of in_force_
};

}  // namespace heddle::engine
