#include "controller/gangs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "base/json_read.h"
#include "dialects/translate.h"
#include "dialects/wire_names.h"
#include "engine/slice.h"

namespace heddle::controller {
namespace {

using Json = nlohmann::json;
using dialects::kGangIndexKey;
using dialects::kGangKey;
using dialects::kGangMinimumKey;
using dialects::kGangSegmentSizeKey;
using dialects::kGangSegmentTopologyKey;
using dialects::kGangSizeKey;
using dialects::kGangSubgroupKey;
using dialects::kGangSubgroupMinimumKey;
using dialects::kTopologyPreferredKey;
using dialects::kTopologyRequiredKey;

constexpr int64_t kMostMembers = kRanksOfAJob;
constexpr const char* kSpBlock = "sp-block";
constexpr const char* kSpBlockLevel = "superNode";
constexpr const char* kTpuTopology = "cloud.google.com/gke-tpu-topology";
constexpr const char* kNodePool = "cloud.google.com/gke-nodepool";

std::optional<int64_t> whole_number(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// What a pod carries by name; an annotation before a label of the same name.
class Marks {
 public:
  explicit Marks(const model::Pod& pod) : pod_(pod) {}

  [[nodiscard]] const std::string* find(std::string_view key) const {
    for (const auto* map : {&pod_.meta.annotations, &pod_.meta.labels}) {
      const auto it = map->find(std::string(key));
      if (it != map->end() && !it->second.empty()) return &it->second;
    }
    return nullptr;
  }
  [[nodiscard]] std::string text(std::string_view key) const {
    const std::string* value = find(key);
    return value == nullptr ? std::string() : *value;
  }
  // The number of members that a mark says; what is none goes into the declaration's problem.
  std::optional<int64_t> count(std::string_view key, GangDeclaration& out) const {
    const std::string* value = find(key);
    if (value == nullptr) return std::nullopt;
    const auto number = whole_number(*value);
    if (number && *number >= 1 && *number <= kMostMembers) return number;
    if (out.problem.empty()) {
      out.problem = fmt::format("{}: \"{}\" is not a number of pods; write 1 to {}", key, *value, kMostMembers);
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<int64_t> index(std::initializer_list<std::string_view> keys) const {
    for (const std::string_view key : keys) {
      if (const std::string* value = find(key)) {
        if (const auto number = whole_number(*value); number && *number >= 0) return number;
      }
    }
    return std::nullopt;
  }

 private:
  const model::Pod& pod_;
};

std::string object_key(std::string_view kind, const model::Pod& pod, const std::string& name) {
  return fmt::format("{} {}/{}", kind, pod.meta.name_space, name);
}

bool read_heddle(const Marks& marks, GangDeclaration& out) {
  const std::string* name = marks.find(kGangKey);
  if (name == nullptr) return false;
  out.source = GangSource::kHeddle;
  out.name = *name;
  return true;
}

bool read_pod_group(const model::Pod& pod, GangDeclaration& out) {
  if (pod.scheduling_group.empty()) return false;
  out.source = GangSource::kPodGroup;
  out.name = pod.scheduling_group;
  out.object = object_key("scheduling.k8s.io/PodGroup", pod, out.name);
  return true;
}

bool read_volcano(const model::Pod& pod, const Marks& marks, GangDeclaration& out) {
  const std::string* name = marks.find("scheduling.k8s.io/group-name");
  if (name == nullptr) name = marks.find("scheduling.volcano.sh/group-name");
  if (name == nullptr) return false;
  out.source = GangSource::kVolcano;
  out.name = *name;
  out.object = object_key("scheduling.volcano.sh/PodGroup", pod, out.name);
  out.subgroup = marks.text("volcano.sh/task-spec");
  out.minimum = marks.count("scheduling.volcano.sh/group-min-member", out);
  return true;
}

bool read_coscheduling(const model::Pod& pod, const Marks& marks, GangDeclaration& out) {
  for (const char* key :
       {"scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io/name", "pod-group.scheduling.sigs.k8s.io"}) {
    const std::string* name = marks.find(key);
    if (name == nullptr) continue;
    out.source = GangSource::kCoscheduling;
    out.name = *name;
    out.object = object_key("scheduling.x-k8s.io/PodGroup", pod, out.name);
    out.minimum = marks.count("pod-group.scheduling.sigs.k8s.io/min-available", out);
    return true;
  }
  return false;
}

bool read_kueue(const Marks& marks, GangDeclaration& out) {
  const std::string* name = marks.find("kueue.x-k8s.io/pod-group-name");
  if (name == nullptr) return false;
  out.source = GangSource::kKueue;
  out.name = *name;
  out.size = marks.count("kueue.x-k8s.io/pod-group-total-count", out);
  return true;
}

bool read_leader_worker_set(const Marks& marks, GangDeclaration& out) {
  const std::string* name = marks.find("leaderworkerset.sigs.k8s.io/name");
  const std::string* group = marks.find("leaderworkerset.sigs.k8s.io/group-index");
  if (name == nullptr || group == nullptr) return false;
  out.source = GangSource::kLeaderWorkerSet;
  // The pods of an update are another group than those that they replace.
  const std::string revision = marks.text("leaderworkerset.sigs.k8s.io/template-revision-hash");
  out.name = fmt::format("{}-{}{}{}", *name, *group, revision.empty() ? "" : "-", revision);
  out.size = marks.count("leaderworkerset.sigs.k8s.io/size", out);
  out.required = marks.text("leaderworkerset.sigs.k8s.io/exclusive-topology");
  return true;
}

bool read_job_set(const model::Pod& pod, const Marks& marks, GangDeclaration& out) {
  const std::string* name = marks.find("jobset.sigs.k8s.io/jobset-name");
  if (name == nullptr) return false;
  out.source = GangSource::kJobSet;
  // A restart makes all pods anew while the old ones are still ending. No label has a colon, so no JobSet is called so.
  const std::string attempt = marks.text("jobset.sigs.k8s.io/restart-attempt");
  out.name = attempt.empty() || attempt == "0" ? *name : *name + ":" + attempt;
  out.object = object_key("jobset.x-k8s.io/JobSet", pod, *name);
  out.subgroup = marks.text("jobset.sigs.k8s.io/replicatedjob-name");
  return true;
}

bool read_kubeflow(const model::Pod& pod, const Marks& marks, GangDeclaration& out) {
  const std::string* name = marks.find("training.kubeflow.org/job-name");
  if (name == nullptr) return false;
  out.source = GangSource::kKubeflow;
  out.name = *name;
  out.subgroup = marks.text("training.kubeflow.org/replica-type");
  for (const model::OwnerReference& owner : pod.meta.owners) {
    if (owner.controller && owner.api_version.starts_with("kubeflow.org/")) {
      out.object = object_key("kubeflow.org/" + owner.kind, pod, owner.name);
    }
  }
  return true;
}

// The rank: of the member in its Job, StatefulSet or group; where a gang has many Jobs, by Job first.
std::optional<int64_t> rank_of(const Marks& marks) {
  if (const auto own = marks.index({kGangIndexKey, "kueue.x-k8s.io/pod-group-pod-index"})) return own;
  const auto member = marks.index({"leaderworkerset.sigs.k8s.io/worker-index", "training.kubeflow.org/replica-index",
                                   "batch.kubernetes.io/job-completion-index", "volcano.sh/task-index",
                                   "apps.kubernetes.io/pod-index"});
  const auto job = marks.index({"jobset.sigs.k8s.io/job-global-index"});
  if (!job) return member;
  return *job * kRanksOfAJob + member.value_or(0) % kRanksOfAJob;
}

// Devices of all containers, as the translation counts them.
int64_t devices_of(const model::Pod& pod) {
  const auto annotation = pod.meta.annotations.find(std::string(dialects::kRequestAnnotation));
  if (annotation == pod.meta.annotations.end()) return 0;
  const auto requests = dialects::parse_requests(annotation->second);
  if (!requests) return 0;
  int64_t devices = 0;
  std::set<std::string> claims;  // one may serve several containers
  for (const dialects::ContainerRequest& request : *requests) {
    if (!claims.insert(request.claim_name).second) continue;
    for (const model::DeviceRequest& asked : request.spec.requests) {
      if (asked.exactly) devices += asked.exactly->count.value_or(1);
      if (!asked.first_available.empty()) devices += asked.first_available.front().count.value_or(1);
    }
  }
  return devices;
}

void read_segments(const model::Pod& pod, const Marks& marks, GangDeclaration& out) {
  out.segment_size = marks.count("kueue.x-k8s.io/podset-slice-size", out);
  out.segment_level = marks.text("kueue.x-k8s.io/podset-slice-required-topology");
  if (const auto size = marks.count(kGangSegmentSizeKey, out)) out.segment_size = size;
  if (const std::string* level = marks.find(kGangSegmentTopologyKey)) out.segment_level = *level;
  out.segment_devices = marks.count(kSpBlock, out);
  if (out.segment_size) out.segment_devices.reset();
  if (out.segment_devices || out.source == GangSource::kVolcano) out.devices = devices_of(pod);
  if (out.segment_devices && out.segment_level.empty()) out.segment_level = kSpBlockLevel;
  if (out.segment_size && out.segment_level.empty() && out.problem.empty()) {
    out.problem = fmt::format("{}: it needs a level; write {} beside it", kGangSegmentSizeKey, kGangSegmentTopologyKey);
  }
  const bool by_job = out.source == GangSource::kJobSet;
  if (!out.segment_level.empty() && !out.segment_size && !out.segment_devices && !by_job && out.problem.empty()) {
    out.problem = fmt::format("{}: it needs a size; write {} beside it", kGangSegmentTopologyKey, kGangSegmentSizeKey);
  }
}

// How many hosts the slice has that the pod is one host of. Nothing: it selects none, or one of a single host.
std::optional<int64_t> slice_hosts(const model::Pod& pod, GangDeclaration& out) {
  const auto topology = pod.node_selector.find(kTpuTopology);
  if (topology == pod.node_selector.end()) return std::nullopt;
  const auto shape = engine::slice_shape(topology->second);
  const int64_t each = devices_of(pod);
  if (!shape || each <= 0) return std::nullopt;  // then no node is of that topology, or it asks for no chips
  const int64_t chips = int64_t{(*shape)[0]} * (*shape)[1] * (*shape)[2];
  if (chips <= each) return std::nullopt;
  if (chips % each == 0) return chips / each;
  if (out.problem.empty()) {
    out.problem = fmt::format("{}: {} is {} chips, no whole number of pods of {}; ask for the chips of one host",
                              kTpuTopology, topology->second, chips, each);
  }
  return std::nullopt;
}

// On GKE a slice of several hosts is one node pool.
void read_slices(const model::Pod& pod, GangDeclaration& out) {
  if (!out.required.empty() || !out.segment_level.empty() || out.segment_size) return;
  const auto hosts = slice_hosts(pod, out);
  if (!hosts) return;
  out.segment_size = hosts;
  out.segment_level = kNodePool;
  out.whole_segments = true;
}

// Pods of a Job are no gang by themselves, unless they are the hosts of a slice.
bool read_slice_job(const model::Pod& pod, const Marks& marks, GangDeclaration& out) {
  const std::string* name = marks.find("batch.kubernetes.io/job-name");
  if (name == nullptr) return false;
  out.source = GangSource::kJob;
  out.name = *name;
  out.size = slice_hosts(pod, out);
  return out.size.has_value() || !out.problem.empty();
}

Json member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(name);
  return it != object.end() ? *it : Json();
}

std::optional<int64_t> count_of(const Json& object, const char* name) {
  const Json value = member(object, name);
  if (!value.is_number_integer()) return std::nullopt;
  const auto count = value.get<int64_t>();
  if (count < 0 || count > kMostMembers) return std::nullopt;
  return count;
}

void read_job_set_object(const Json& spec, GangObject& out) {
  const Json jobs = member(spec, "replicatedJobs");
  if (!jobs.is_array()) return;
  int64_t size = 0;
  for (const Json& job : jobs) {
    const Json job_spec = member(member(job, "template"), "spec");
    // As Kubernetes has it: one pod where nothing is said, and never more at once than are to complete.
    const int64_t parallel = count_of(job_spec, "parallelism").value_or(1);
    const int64_t complete = count_of(job_spec, "completions").value_or(parallel);
    size += count_of(job, "replicas").value_or(1) * std::min(parallel, complete);
  }
  out.size = std::min(size, kMostMembers);
}

// pytorchReplicaSpecs, tfReplicaSpecs, mpiReplicaSpecs ...: role -> {replicas}.
void read_kubeflow_object(const Json& spec, GangObject& out) {
  if (!spec.is_object()) return;
  int64_t size = 0;
  for (const auto& [name, roles] : spec.items()) {
    if (!name.ends_with("ReplicaSpecs") || !roles.is_object()) continue;
    for (const auto& [role, replica] : roles.items()) size += count_of(replica, "replicas").value_or(1);
  }
  out.size = std::min(size, kMostMembers);
  out.minimum = count_of(member(member(spec, "runPolicy"), "schedulingPolicy"), "minAvailable");
}

// Volcano: tasks of a job by name, of which a job needs so many each.
std::map<std::string, int64_t> task_minima(const Json& spec) {
  std::map<std::string, int64_t> out;
  const Json tasks = member(spec, "minTaskMember");
  if (!tasks.is_object()) return out;
  for (const auto& [task, wanted] : tasks.items()) {
    if (const auto minimum = count_of(tasks, task.c_str()); minimum > 0) out[task] = *minimum;
  }
  return out;
}

void read_pod_group_object(const Json& spec, GangObject& out) {
  const Json policy = member(spec, "schedulingPolicy");
  const Json gang = member(policy, "gang");
  out.minimum = gang.is_object() ? count_of(gang, "minCount") : 1;
  const Json topology = member(member(spec, "schedulingConstraints"), "topology");
  if (topology.is_array() && !topology.empty()) out.required = json_text(topology.front(), "key");
}

}  // namespace

std::string_view source_name(GangSource source) {
  constexpr std::array<std::string_view, 9> kNames = {
      "heddle", "podgroup", "volcano", "coscheduling", "kueue", "leaderworkerset", "jobset", "kubeflow", "job"};
  return kNames.at(static_cast<size_t>(source));
}

std::optional<GangDeclaration> gang_of(const model::Pod& pod) {
  const Marks marks(pod);
  GangDeclaration out;
  const bool own = read_heddle(marks, out);
  if (!own && marks.text(kGangSizeKey) == "1") return std::nullopt;
  const bool any = own || read_pod_group(pod, out) || read_volcano(pod, marks, out) ||
                   read_coscheduling(pod, marks, out) || read_kueue(marks, out) || read_leader_worker_set(marks, out) ||
                   read_job_set(pod, marks, out) || read_kubeflow(pod, marks, out) || read_slice_job(pod, marks, out);
  if (!any) return std::nullopt;
  if (const auto size = marks.count(kGangSizeKey, out)) {
    out.size = size;
    out.minimum.reset();
  }
  if (const auto minimum = marks.count(kGangMinimumKey, out)) out.minimum = minimum;
  if (const std::string* subgroup = marks.find(kGangSubgroupKey)) out.subgroup = *subgroup;
  out.subgroup_minimum = marks.count(kGangSubgroupMinimumKey, out);
  out.index = rank_of(marks);
  read_segments(pod, marks, out);
  if (const std::string* level = marks.find("kueue.x-k8s.io/podset-required-topology")) out.required = *level;
  if (const std::string* level = marks.find("kueue.x-k8s.io/podset-preferred-topology")) out.preferred = *level;
  if (const std::string* level = marks.find(kTopologyRequiredKey)) out.required = *level;
  if (const std::string* level = marks.find(kTopologyPreferredKey)) out.preferred = *level;
  read_slices(pod, out);
  return out;
}

namespace {

enum class ObjectForm { kNone, kMinMember, kPodGroup, kJobSet, kKubeflow };

ObjectForm form_of(std::string_view object_kind) {
  const size_t slash = object_kind.rfind('/');
  if (slash == std::string_view::npos) return ObjectForm::kNone;
  const std::string_view group = object_kind.substr(0, slash);
  const std::string_view kind = object_kind.substr(slash + 1);
  const bool foreign_group = group == "scheduling.volcano.sh" || group == "scheduling.x-k8s.io";
  if (kind == "PodGroup" && foreign_group) return ObjectForm::kMinMember;
  if (kind == "PodGroup" && group == "scheduling.k8s.io") return ObjectForm::kPodGroup;
  if (kind == "JobSet" && group == "jobset.x-k8s.io") return ObjectForm::kJobSet;
  if (kind.ends_with("Job") && group == "kubeflow.org") return ObjectForm::kKubeflow;
  return ObjectForm::kNone;
}

Result<GangObject> read_gang_object(const Json& object, std::string_view object_kind) {
  const Json metadata = member(object, "metadata");
  const std::string name = json_text(metadata, "name");
  if (name.empty()) return fail(Code::kInvalidArgument, "must be set", "metadata.name");
  GangObject out;
  out.key = fmt::format("{} {}/{}", object_kind, json_text(metadata, "namespace"), name);
  const Json spec = member(object, "spec");
  switch (form_of(object_kind)) {
    case ObjectForm::kMinMember:
      out.minimum = count_of(spec, "minMember").value_or(1);
      out.subgroup_minimum = task_minima(spec);
      if (const auto devices = whole_number(json_text(member(metadata, "annotations"), kSpBlock)); devices > 0)
        out.segment_devices = devices;
      return out;
    case ObjectForm::kPodGroup:
      read_pod_group_object(spec, out);
      return out;
    case ObjectForm::kJobSet:
      read_job_set_object(spec, out);
      return out;
    case ObjectForm::kKubeflow:
      read_kubeflow_object(spec, out);
      return out;
    case ObjectForm::kNone:
      break;
  }
  return fail(Code::kInvalidArgument, "no kind that says the size of a gang");
}

}  // namespace

Result<std::optional<GangObject>> parse_gang_object(std::string_view json) {
  const Json object = parse_json(json);
  if (!object.is_object()) return fail(Code::kInvalidArgument, "not a JSON object");
  const std::string version = json_text(object, "apiVersion");
  const std::string object_kind = version.substr(0, version.find('/')) + "/" + json_text(object, "kind");
  if (form_of(object_kind) == ObjectForm::kNone) return std::optional<GangObject>();
  HEDDLE_TRY(GangObject out, read_gang_object(object, object_kind));
  return std::optional(std::move(out));
}

Result<GangObject> parse_gang_object_of_kind(std::string_view json, std::string_view object_kind) {
  const Json object = parse_json(json);
  if (!object.is_object()) return fail(Code::kInvalidArgument, "not a JSON object");
  return read_gang_object(object, object_kind);
}

}  // namespace heddle::controller
