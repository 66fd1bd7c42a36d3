// Events that the agent writes on pods and on its node. Best effort, and bounded: a container that goes on starting
// processes outside its grant cannot flood the API server.
#pragma once

#include <memory>
#include <string>

#include "agent/node_view.h"
#include "base/clock.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/events.h"

namespace heddle::agent {

// Thread rule: any thread. Does not block.
class EventWriter {
 public:
  EventWriter(kube::Client& client, const Clock& clock, const std::string& node_name, const Logger& log);

  void on_pod(const PodInfo& pod, const std::string& reason, const std::string& message);
  void on_node(const NodeIdentity& node, const std::string& reason, const std::string& message);

 private:
  std::unique_ptr<kube::EventRecorder> recorder_;
};

}  // namespace heddle::agent
