// Kubernetes Events (v1) about objects, for people: created once, then counted up, never a flood.
//
// The same object, type, reason and message is one Event: a repetition only raises its count, and repetitions that come
// while a write is under way are written together. Each object has a budget of writes (burst at once, then one each
// refill_period); what is beyond it is counted but not written until the budget allows, and lost if that never happens.
// Memory is bounded by max_entries; the least recently used are forgotten.
//
// Thread rule: any thread; record() never waits. Errors are logged and dropped: an Event is no record that anything
// depends on.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "kube/client.h"

namespace heddle::kube {

struct ObjectReference {
  std::string api_version;  // "v1"
  std::string kind;         // "Pod"
  std::string name_space;   // empty for cluster-scoped objects: their Events are in "default"
  std::string name;
  std::string uid;
};

enum class EventSeverity { kNormal, kWarning };

struct EventOptions {
  std::string component;  // "heddle-controller"
  std::string instance;   // host or pod name
  size_t max_entries = 4096;
  int64_t burst = 25;
  Duration refill_period = Duration::seconds(60);
};

class EventRecorder {
 public:
  // client, clock and log must outlive the recorder; clock and log also the client, whose answers may come later.
  static std::unique_ptr<EventRecorder> create(EventOptions options, Client& client, const Clock& clock,
                                               const Logger& log);
  virtual ~EventRecorder() = default;
  // reason: CamelCase, <= 128 bytes; message is cut to 1024 bytes, the API's limit.
  virtual void record(const ObjectReference& object, EventSeverity severity, const std::string& reason,
                      const std::string& message) = 0;
};

}  // namespace heddle::kube
