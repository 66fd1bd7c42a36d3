// Nodes that are not there: an autoscaler is asked for them, where that is configured.
//
// For a pod that would fit on more nodes of a kind that the fleet has, and has waited for them for a while, one
// ProvisioningRequest (autoscaling.x-k8s.io) is made, of a gang for its first waiting member. It and its PodTemplate
// are owned by the pod, so they never outlive it, and go when it starts. Nothing about them is kept: their names follow
// from the pod, and making one twice, or taking one away twice, changes nothing.
//
// Autoscalers do not know Heddle's devices: the template asks for whole nodes of the kind, one pod on each, and leaves
// out the nodes that are there.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "controller/objects.h"
#include "controller/reconciler_impl.h"

namespace heddle::controller {
namespace {

constexpr std::array<std::string_view, 2> kVersions{"autoscaling.x-k8s.io/v1", "autoscaling.x-k8s.io/v1beta1"};
constexpr int64_t kPause = 600'000'000'000;  // when nobody serves the kind, or we may not make one
constexpr size_t kMostExcluded = 5000;       // names of nodes in a template
constexpr size_t kMostOpen = 256;            // requests at once
// One that has not helped for so long is made anew, as an autoscaler takes it for served when nodes have come, whoever
// got their devices.
constexpr int64_t kRenewal = 900'000'000'000;
constexpr std::string_view kNoTemplate = "template ";  // subjects of what is taken away to be made anew
constexpr std::string_view kNoRequest = "request ";

// What tells one kind of node from another: the first that the node has.
constexpr std::array<const char*, 5> kKinds{"node.kubernetes.io/instance-type", "cloud.google.com/gke-nodepool",
                                            "eks.amazonaws.com/nodegroup", "kubernetes.azure.com/agentpool",
                                            "karpenter.sh/nodepool"};
// Labels of new nodes that an autoscaler knows before they are there.
constexpr std::array<std::string_view, 2> kPlaces{"topology.kubernetes.io/zone", "topology.kubernetes.io/region"};
constexpr const char* kHostname = "kubernetes.io/hostname";

}  // namespace

std::map<std::string, std::string> node_kind(const model::ObjectMeta& node) {
  std::map<std::string, std::string> kept;
  for (const char* label : kKinds) {
    if (const auto found = node.labels.find(label); found != node.labels.end()) {
      kept.insert(*found);
      break;
    }
  }
  if (const auto host = node.labels.find(kHostname); host != node.labels.end()) kept.insert(*host);
  return kept;
}

// After each telling.
void Reconciler::Impl::note_need(PodRecord& record) {
  if (options.provisioning_class.empty()) return;
  const std::string key = record.pod.meta.key();
  if (!record.telling.needs || !pending.contains(order_of(record.pod))) {
    record.needs_since = 0;
    provisioning.due.erase(key);
    return;
  }
  if (record.nodes_asked == Asked::kYes) return;
  if (record.needs_since == 0) record.needs_since = std::max<int64_t>(clock.monotonic_nanos(), 1);
  if (provisioning.due.insert(key).second)
    wake_at(record.needs_since + options.provisioning_delay.nanos, std::string(kStatusTimer));
}

void Reconciler::Impl::ask_for_nodes() {
  const int64_t now = clock.monotonic_nanos();
  for (auto it = provisioning.open.begin(); it != provisioning.open.end();) {
    const PodRecord* record = find(it->first);
    const bool there = record != nullptr && record->nodes_asked == Asked::kYes;
    if (there && now >= it->second + kRenewal) {
      emit(nullptr, WriteKind::kProvision, {}, delete_pod_template(record->pod));
      flights[last_id].subject = std::string(kNoTemplate) + it->first;
      it->second = now;
      wake_at(now + kRenewal, std::string(kStatusTimer));
    }
    it = there ? std::next(it) : provisioning.open.erase(it);
  }
  if (provisioning.due.empty() || now < provisioning.served_at) return;
  for (const std::string& key : std::set<std::string>(provisioning.due)) {
    PodRecord* record = find(key);
    if (record == nullptr || record->needs_since == 0) {
      provisioning.due.erase(key);
    } else if (now >= record->needs_since + options.provisioning_delay.nanos && provisioning.open.size() < kMostOpen) {
      provisioning.due.erase(key);
      ask_for_nodes_of(*record);
    }
  }
}

// The node that the need speaks of has a label that says what it is, and of a gang this is the first that waits.
void Reconciler::Impl::ask_for_nodes_of(PodRecord& record) {
  const Unit* unit = units.unit_of(record.pod.meta.key());
  if (unit != nullptr && unit->gang) {
    const std::vector<PodRecord*> waiting = waiting_members(*unit, nullptr);
    if (waiting.empty() || waiting.front() != &record) return;
  }
  const engine::NodeNeed& need = *record.telling.needs;
  const bool in_place = std::find(kPlaces.begin(), kPlaces.end(), need.label) != kPlaces.end() ||
                        std::find(kKinds.begin(), kKinds.end(), need.label) != kKinds.end();
  if (!need.where.empty() && !in_place) return;  // an autoscaler cannot be told in which domain
  const auto like = provisioning.node_labels.find(need.like);
  NodesAsked asked{.name_of_class = options.provisioning_class, .count = need.count, .kind = {}, .without = {}};
  if (like != provisioning.node_labels.end()) asked.kind = like->second;
  asked.kind.erase(kHostname);
  if (asked.kind.empty()) {
    log.warning("no label says what kind of node is needed, so no node is asked for",
                {{"pod", record.pod.meta.key()}, {"node", need.like}, {"fix", std::string("label it ") + kKinds[0]}});
    return;
  }
  for (const auto& [node, labels] : provisioning.node_labels) {
    const auto host = labels.find(kHostname);
    const bool same = std::includes(labels.begin(), labels.end(), asked.kind.begin(), asked.kind.end());
    if (same && host != labels.end() && asked.without.size() < kMostExcluded) asked.without.push_back(host->second);
  }
  if (in_place) asked.kind[need.label] = need.value;
  record.nodes_asked = Asked::kYes;
  provisioning.open[record.pod.meta.key()] = clock.monotonic_nanos();
  wake_at(clock.monotonic_nanos() + kRenewal, std::string(kStatusTimer));
  provisioning.asked[record.pod.meta.key()] = asked;
  emit(nullptr, WriteKind::kProvision, {}, create_provisioning(record.pod, kVersions.at(provisioning.version), asked));
  flights[last_id].subject = record.pod.meta.key();
}

// It has its devices.
void Reconciler::Impl::need_no_nodes(PodRecord& record) {
  const std::string key = record.pod.meta.key();
  record.needs_since = 0;
  provisioning.due.erase(key);
  provisioning.asked.erase(key);
  if (options.provisioning_class.empty() || std::exchange(record.nodes_asked, Asked::kNo) == Asked::kNo) return;
  emit(nullptr, WriteKind::kProvision, {}, delete_provisioning(record.pod, kVersions.at(provisioning.version)));
  emit(nullptr, WriteKind::kProvision, {}, delete_pod_template(record.pod));
}

// To be made anew: first the template, then the request, then both are asked for again.
void Reconciler::Impl::taken_away(const std::string& subject, const Result<std::string>& answer) {
  if (!answer && answer.error().code != Code::kNotFound) return;  // the next time
  const bool was_template = subject.starts_with(kNoTemplate);
  const std::string key = subject.substr((was_template ? kNoTemplate : kNoRequest).size());
  PodRecord* record = find(key);
  if (record == nullptr || record->nodes_asked != Asked::kYes) return;
  if (was_template) {
    emit(nullptr, WriteKind::kProvision, {}, delete_provisioning(record->pod, kVersions.at(provisioning.version)));
    flights[last_id].subject = std::string(kNoRequest) + key;
    return;
  }
  record->nodes_asked = Asked::kNo;
  if (record->needs_since != 0) provisioning.due.insert(key);
}

// Of a request: its template follows. Where a version is not served, the other one is tried.
void Reconciler::Impl::provision_answered(const std::string& subject, const Result<std::string>& answer) {
  if (subject.starts_with(kNoTemplate) || subject.starts_with(kNoRequest)) return taken_away(subject, answer);
  const std::string& pod_key = subject;
  const auto asked = provisioning.asked.find(pod_key);
  PodRecord* record = find(pod_key);
  if (asked == provisioning.asked.end() || record == nullptr) return;
  const NodesAsked wanted = std::move(asked->second);
  provisioning.asked.erase(asked);
  if (answer || answer.error().code == Code::kAlreadyExists) {
    emit(nullptr, WriteKind::kProvision, {}, create_pod_template(record->pod, wanted));
    if (!answer) return;
    const std::string what = wanted.count == 1 ? "a node" : fmt::format("{} nodes", wanted.count);
    tell_event(record->pod, "HeddleNodesAsked", fmt::format("asked for {} with {}", what, wanted.kind.begin()->second),
               "Normal");
    return;
  }
  const Error& error = answer.error();
  const int64_t now = clock.monotonic_nanos();
  record->nodes_asked = Asked::kNo;
  if (error.code == Code::kNotFound && provisioning.version + 1 < kVersions.size()) {
    ++provisioning.version;
  } else if (error.code == Code::kNotFound || error.code == Code::kPermissionDenied) {
    provisioning.version = 0;
    provisioning.served_at = now + kPause;
    wake_at(provisioning.served_at, std::string(kStatusTimer));
    log.warning("nodes cannot be asked for", {{"error", error.text()}, {"kind", "ProvisioningRequest"}});
  } else {
    record->needs_since = std::max<int64_t>(now, 1);  // again after a pause
    wake_at(now + options.provisioning_delay.nanos, std::string(kStatusTimer));
  }
  if (record->needs_since != 0) provisioning.due.insert(pod_key);
}

}  // namespace heddle::controller
