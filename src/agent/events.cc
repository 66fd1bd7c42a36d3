#include "agent/events.h"

#include <utility>

namespace heddle::agent {

EventWriter::EventWriter(kube::Client& client, const Clock& clock, const std::string& node_name, const Logger& log) {
  kube::EventOptions options;
  options.component = "heddle-agent";
  options.instance = node_name;
  recorder_ = kube::EventRecorder::create(std::move(options), client, clock, log);
}

void EventWriter::on_pod(const PodInfo& pod, const std::string& reason, const std::string& message) {
  recorder_->record({"v1", "Pod", pod.name_space, pod.name, pod.uid}, kube::EventSeverity::kWarning, reason, message);
}

void EventWriter::on_node(const NodeIdentity& node, const std::string& reason, const std::string& message) {
  // kubectl finds the events of a node by its name in place of the uid.
  recorder_->record({"v1", "Node", "", node.name, node.name}, kube::EventSeverity::kWarning, reason, message);
}

}  // namespace heddle::agent
