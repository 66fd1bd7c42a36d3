// What waits for the owner thread. Objects of the same kind and name coalesce to the newest, so the queue is bounded by
// the number of objects however slow the reader is; answers and tasks keep their order among all.
//
// Thread rule: push from any thread, pop from one. Cost: O(1) a push.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/result.h"
#include "controller/gangs.h"
#include "controller/queue_table.h"
#include "controller/quota.h"
#include "engine/topology_table.h"
#include "model/claim.h"
#include "model/device.h"
#include "model/pod.h"

namespace heddle::controller {

enum class ObjectKind {
  kPod,
  kNode,
  kSlice,
  kClass,
  kClaim,
  kQuota,
  kNamespace,
  kQueue,
  kReservation,
  kTopology,
  kTaintRule,
  kGangObject
};
// Those before kGangObject, which is not one resource but as many as say the sizes of gangs.
inline constexpr size_t kObjectKinds = 11;
static_assert(static_cast<size_t>(ObjectKind::kGangObject) == kObjectKinds);

struct Removed {
  std::string uid;  // empty: whatever has the name
};

using Object = std::variant<model::Pod, model::Node, model::ResourceSlice, model::DeviceClass, model::ResourceClaim,
                            Quota, model::Namespace, QueueObject, ReservationObject, engine::TopologyObject,
                            model::DeviceTaintRule, GangObject>;

struct ObjectEvent {
  ObjectKind kind = ObjectKind::kPod;
  std::string key;
  std::variant<Object, Removed> what;
};

struct AnswerEvent {
  uint64_t write_id = 0;
  Result<std::string> answer;
};

struct TaskEvent {
  std::function<void()> task;
};

using Event = std::variant<ObjectEvent, AnswerEvent, TaskEvent>;

class EventQueue {
 public:
  void push(ObjectEvent event);
  void push(AnswerEvent event);
  void push(TaskEvent event);
  // Nothing more is taken in; pop() answers what is left and then nothing.
  void close();

  // Waits until there is something, the queue is closed, or the time has passed; then takes all there is.
  std::vector<Event> pop(int64_t wait_nanos);
  [[nodiscard]] bool closed() const;
  [[nodiscard]] size_t size() const;

 private:
  void append(Event event);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
  std::unordered_map<std::string, size_t> waiting_;  // object -> index in events_
  bool closed_ = false;
};

}  // namespace heddle::controller
