// Whether a node suits a pod apart from its devices: everything that kube-scheduler will look at again when it binds.
#include <algorithm>

#include "base/key_text.h"
#include "engine/state_impl.h"

namespace heddle::engine {
namespace {

void append(std::string& key, const model::NodeSelector& selector) {
  append_part(key, selector.terms.size());
  for (const model::NodeSelectorTerm& term : selector.terms) {
    for (const auto* list : {&term.match_expressions, &term.match_fields}) {
      append_part(key, list->size());
      for (const model::Requirement& requirement : *list) {
        append_part(key, requirement.key);
        append_part(key, static_cast<int64_t>(requirement.op));
        append_parts(key, requirement.values);
      }
    }
  }
}

}  // namespace

bool is_final(Bar bar) {
  return bar == Bar::kPinned || bar == Bar::kSelector || bar == Bar::kVolume;
}

bool is_closed(Bar bar) {
  return bar == Bar::kCordoned || bar == Bar::kNotReady;
}

std::string fit_signature(const model::Pod& pod) {
  std::string key;
  append_part(key, pod.node_selector.size());
  for (const auto& [label, value] : pod.node_selector) {
    append_part(key, label);
    append_part(key, value);
  }
  append_part(key, int64_t{pod.required_node_affinity.has_value()});
  if (pod.required_node_affinity) append(key, *pod.required_node_affinity);
  append_part(key, pod.tolerations.size());
  for (const model::Toleration& toleration : pod.tolerations) {
    for (const auto* part : {&toleration.key, &toleration.op, &toleration.value, &toleration.effect})
      append_part(key, *part);
  }
  const auto needs = model::effective_requests(pod);
  append_part(key, needs.size());
  for (const auto& [name, amount] : needs) {
    append_part(key, name);
    append_part(key, amount);
  }
  const std::vector<model::HostPort> ports = model::host_ports(pod);
  append_part(key, ports.size());
  for (const model::HostPort& port : ports) {
    append_part(key, port.ip);
    append_part(key, port.protocol);
    append_part(key, port.port);
  }
  if (!pod.volume_claims.empty()) append_part(key, pod.meta.name_space);
  append_parts(key, pod.volume_claims);
  return key;
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
    const bool cordoned = taint.key == model::kUnschedulableTaint;
    if (doors == Doors::kOpened && (unready || cordoned)) continue;
    if (cordoned) return Bar::kCordoned;
    if (bar == Bar::kNone) bar = unready ? Bar::kNotReady : Bar::kTaint;
  }
  if (bar != Bar::kNone) return bar;
  const auto& excluded = request.excluded_nodes;
  if (std::find(excluded.begin(), excluded.end(), name) != excluded.end()) return Bar::kExcluded;
  if (request.held_nodes.contains(name)) return Bar::kHeld;
  if (request.whole_nodes.contains(name)) return Bar::kKeptWhole;
  if (reserve == Reserve::kOpen || claims.empty()) return Bar::kNone;  // without devices it takes no spare
  const auto use = state.reserve.of(state.inventory, state.options, node);
  const bool lent = use == ReserveUse::kWhenNeeded && reserve == Reserve::kNeeded;
  return use && !lent ? Bar::kReserved : Bar::kNone;
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
    pods += known->second.pods;
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
