// Whether a node suits a pod apart from its devices: everything that kube-scheduler will look at again when it binds.
#include <algorithm>

#include "engine/state_impl.h"

namespace heddle::engine {
namespace {

void append(const model::NodeSelector& selector, std::string& out) {
  for (const model::NodeSelectorTerm& term : selector.terms) {
    for (const auto* list : {&term.match_expressions, &term.match_fields}) {
      out += "|";
      for (const model::Requirement& requirement : *list) {
        out += requirement.key + std::to_string(static_cast<int>(requirement.op));
        for (const std::string& value : requirement.values) out += "," + value;
        out += ";";
      }
    }
  }
}

}  // namespace

bool is_final(Bar bar) {
  return bar == Bar::kPinned || bar == Bar::kSelector || bar == Bar::kVolume;
}

std::string fit_signature(const model::Pod& pod) {
  std::string out;
  for (const auto& [key, value] : pod.node_selector) out.append(key).append("=").append(value).append("\n");
  if (pod.required_node_affinity) append(*pod.required_node_affinity, out);
  for (const model::Toleration& t : pod.tolerations) {
    out.append("~").append(t.key).append(t.op).append(t.value).append(t.effect);
  }
  for (const auto& [name, amount] : model::effective_requests(pod))
    out.append("\n").append(name).append(std::to_string(amount));
  for (const model::HostPort& port : model::host_ports(pod)) {
    out.append("\n:").append(port.ip).append("/").append(port.protocol).append(std::to_string(port.port));
  }
  for (const std::string& claim : pod.volume_claims)
    out.append("\nv").append(pod.meta.name_space).append("/").append(claim);
  return out;
}

Bar Placement::bar_of(const NodeEntry& node) const {
  const std::string& name = node.view.node;
  if (request.pinned_node && *request.pinned_node != name) return Bar::kPinned;
  if (request.pod != nullptr && !model::matches_node(*request.pod, node.node)) return Bar::kSelector;
  for (const model::VolumeReach& volume : request.volumes) {
    if (!model::reachable(volume, node.node)) return Bar::kVolume;
  }
  const auto tolerated = [&](const model::Taint& taint) {
    return request.pod != nullptr &&
           std::any_of(request.pod->tolerations.begin(), request.pod->tolerations.end(),
                       [&](const model::Toleration& toleration) { return model::tolerates(toleration, taint); });
  };
  Bar bar = Bar::kNone;
  for (const model::Taint& taint : node.taints) {
    if (tolerated(taint)) continue;
    const bool unready = taint.key == model::kNotReadyTaint || taint.key == model::kUnreachableTaint;
    if (taint.key == model::kUnschedulableTaint) return Bar::kCordoned;
    if (bar == Bar::kNone) bar = unready ? Bar::kNotReady : Bar::kTaint;
  }
  if (bar != Bar::kNone) return bar;
  const auto& excluded = request.excluded_nodes;
  if (std::find(excluded.begin(), excluded.end(), name) != excluded.end()) return Bar::kExcluded;
  if (request.held_nodes.contains(name)) return Bar::kHeld;
  return request.whole_nodes.contains(name) ? Bar::kKeptWhole : Bar::kNone;
}

// An extended resource of a device class, on a node where no device plugin serves it: kube-scheduler allocates devices.
bool Placement::served_by_devices(const NodeEntry& node, const std::string& resource) const {
  const auto found = node.allocatable.find(resource);
  if (found != node.allocatable.end() && found->second > 0) return false;
  return resource.find('/') != std::string::npos && state.extended_resources.contains(resource);
}

std::optional<Shortage> Placement::shortage_of(const NodeEntry& node, bool empty_node) const {
  if (node.allocatable.empty() || request.pod == nullptr) return std::nullopt;
  const PodUsage* own = nullptr;
  const auto known = state.pods.find(request.pod->meta.uid);
  if (known != state.pods.end() && known->second.node == node.view.node) own = &known->second;
  const auto short_of = [&](const std::string& resource, int64_t needed, int64_t used) -> std::optional<Shortage> {
    const auto found = node.allocatable.find(resource);
    const int64_t total = found == node.allocatable.end() ? 0 : found->second;
    if (empty_node) used = 0;
    if (needed <= total - used) return std::nullopt;
    return Shortage{resource, needed, std::max<int64_t>(total - used, 0), total};
  };
  if (node.allocatable.contains("pods")) {
    if (auto missing = short_of("pods", 1, node.pods - (own != nullptr ? 1 : 0))) return missing;
  }
  for (const auto& [resource, needed] : needs) {
    if (needed <= 0 || served_by_devices(node, resource)) continue;
    const auto used = node.used.find(resource);
    int64_t others = used == node.used.end() ? 0 : used->second;
    if (own != nullptr && own->usage.contains(resource)) others -= own->usage.at(resource);
    if (auto missing = short_of(resource, needed, others)) return missing;
  }
  return std::nullopt;
}

bool Placement::plainly_fits_without(const NodeEntry& node, const std::vector<std::string>& pod_uids) const {
  if (request.pod == nullptr) return true;
  std::map<std::string, int64_t> ended;  // what comes free
  int64_t pods = 0;
  std::vector<std::string> uids = pod_uids;
  uids.push_back(request.pod->meta.uid);
  for (const std::string& uid : uids) {
    const auto known = state.pods.find(uid);
    if (known == state.pods.end() || known->second.node != node.view.node) continue;
    ++pods;
    for (const auto& [resource, amount] : known->second.usage) ended[resource] += amount;
  }
  const auto roomy = [&](const std::string& resource, int64_t needed, int64_t used) {
    const auto total = node.allocatable.find(resource);
    return needed <= (total == node.allocatable.end() ? 0 : total->second) - used;
  };
  if (!node.allocatable.empty()) {
    if (node.allocatable.contains("pods") && !roomy("pods", 1, node.pods - pods)) return false;
    for (const auto& [resource, needed] : needs) {
      if (needed <= 0 || served_by_devices(node, resource)) continue;
      const auto used = node.used.find(resource);
      const auto less = ended.find(resource);
      if (!roomy(resource, needed,
                 (used == node.used.end() ? 0 : used->second) - (less == ended.end() ? 0 : less->second))) {
        return false;
      }
    }
  }
  for (const auto& [uid, taken] : node.ports) {
    if (std::find(uids.begin(), uids.end(), uid) != uids.end()) continue;
    for (const model::HostPort& port : ports) {
      if (std::any_of(taken.begin(), taken.end(), [&](const auto& other) { return model::conflict(port, other); })) {
        return false;
      }
    }
  }
  return true;
}

std::optional<model::HostPort> Placement::port_conflict_on(const NodeEntry& node,
                                                           const std::set<std::string>& ended) const {
  if (ports.empty()) return std::nullopt;
  for (const auto& [uid, taken] : node.ports) {
    if (uid == request.pod->meta.uid || ended.contains(uid)) continue;
    for (const model::HostPort& port : ports) {
      if (std::any_of(taken.begin(), taken.end(), [&](const auto& other) { return model::conflict(port, other); })) {
        return port;
      }
    }
  }
  return std::nullopt;
}

}  // namespace heddle::engine
