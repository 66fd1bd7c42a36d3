// Events that the agent writes on pods and on its node. Best effort: an event that cannot be written is logged.
#pragma once

#include <string>

#include "agent/node_view.h"
#include "base/clock.h"
#include "base/log.h"
#include "kube/client.h"

namespace heddle::agent {

// Thread rule: any thread. Does not block.
class EventWriter {
 public:
  EventWriter(kube::Client& client, const Clock& clock, std::string node_name, const Logger& log)
      : client_(client), clock_(clock), node_name_(std::move(node_name)), log_(log) {}

  void on_pod(const PodInfo& pod, const std::string& reason, const std::string& message);
  void on_node(const NodeIdentity& node, const std::string& reason, const std::string& message);

 private:
  struct Subject {
    std::string kind;
    std::string name_space;
    std::string name;
    std::string uid;
  };
  void write(const Subject& subject, const std::string& reason, const std::string& message);

  kube::Client& client_;
  const Clock& clock_;
  const std::string node_name_;
  const Logger& log_;
};

}  // namespace heddle::agent
