#include "model/pod.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace heddle::model {
namespace {

std::optional<int64_t> parse_int(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// `actual` is null where the node does not have the label.
bool holds(const Requirement& requirement, const std::string* actual) {
  const auto listed = [&] {
    return std::find(requirement.values.begin(), requirement.values.end(), *actual) != requirement.values.end();
  };
  switch (requirement.op) {
    case Requirement::Operator::kIn:
      return actual != nullptr && listed();
    case Requirement::Operator::kNotIn:
      return actual == nullptr || !listed();
    case Requirement::Operator::kExists:
      return actual != nullptr;
    case Requirement::Operator::kDoesNotExist:
      return actual == nullptr;
    case Requirement::Operator::kGt:
    case Requirement::Operator::kLt:
      break;
  }
  if (actual == nullptr || requirement.values.size() != 1) return false;
  const auto left = parse_int(*actual);
  const auto right = parse_int(requirement.values.front());
  if (!left || !right) return false;
  return requirement.op == Requirement::Operator::kGt ? *left > *right : *left < *right;
}

bool matches(const NodeSelectorTerm& term, const Node& node) {
  if (term.match_expressions.empty() && term.match_fields.empty()) return false;
  for (const Requirement& requirement : term.match_expressions) {
    const auto label = node.meta.labels.find(requirement.key);
    if (!holds(requirement, label == node.meta.labels.end() ? nullptr : &label->second)) return false;
  }
  for (const Requirement& requirement : term.match_fields) {
    if (requirement.key != "metadata.name" || !holds(requirement, &node.meta.name)) return false;
  }
  return true;
}

}  // namespace

bool matches(const NodeSelector& selector, const Node& node) {
  return std::any_of(selector.terms.begin(), selector.terms.end(),
                     [&](const NodeSelectorTerm& term) { return matches(term, node); });
}

bool best_effort(const Pod& pod) {
  const auto counts = [](const ResourceList& list) {
    return std::any_of(list.begin(), list.end(), [](const auto& entry) {
      return (entry.first == "cpu" || entry.first == "memory") && entry.second.sign() > 0;
    });
  };
  return !counts(pod.pod_level_requests) &&
         std::none_of(pod.containers.begin(), pod.containers.end(), [&](const Container& container) {
           return counts(container.requests) || counts(container.limits);
         });
}

std::vector<HostPort> host_ports(const Pod& pod) {
  std::vector<HostPort> ports;
  for (const Container& container : pod.containers) {
    if (container.init && !container.sidecar) continue;
    for (const HostPort& port : container.host_ports) {
      if (port.port > 0) ports.push_back(port);
    }
  }
  return ports;
}

bool conflict(const HostPort& a, const HostPort& b) {
  const auto protocol = [](const HostPort& port) {
    return port.protocol.empty() ? "TCP" : std::string_view(port.protocol);
  };
  const auto everywhere = [](const HostPort& port) { return port.ip.empty() || port.ip == "0.0.0.0"; };
  if (a.port != b.port || protocol(a) != protocol(b)) return false;
  return everywhere(a) || everywhere(b) || a.ip == b.ip;
}

std::vector<Taint> effective_taints(const Node& node) {
  std::vector<Taint> taints;
  const auto add = [&](const char* key) {
    const bool known = std::any_of(taints.begin(), taints.end(), [&](const Taint& taint) {
      return taint.key == key && taint.effect == "NoSchedule";
    });
    if (!known) taints.push_back({.key = key, .value = {}, .effect = "NoSchedule", .added = {}});
  };
  for (const Taint& taint : node.taints) {
    if (taint.effect == "NoSchedule" || taint.effect == "NoExecute") taints.push_back(taint);
  }
  if (node.unschedulable) add(kUnschedulableTaint);
  if (node.ready == Node::Ready::kFalse) add(kNotReadyTaint);
  if (node.ready == Node::Ready::kUnknown) add(kUnreachableTaint);
  return taints;
}

bool matches_node(const Pod& pod, const Node& node) {
  for (const auto& [key, value] : pod.node_selector) {
    const auto label = node.meta.labels.find(key);
    if (label == node.meta.labels.end() || label->second != value) return false;
  }
  return !pod.required_node_affinity || matches(*pod.required_node_affinity, node);
}

}  // namespace heddle::model
