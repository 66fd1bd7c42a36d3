// Which gang a pod says it belongs to. Pure: a pod in, its declaration out.
//
// Where users declare gangs, in the order in which they are asked, and where the size comes from:
//   Heddle           heddle.dev/gang (the name) with heddle.dev/gang-size; -minimum, -subgroup, -index beside it
//   Kubernetes       spec.schedulingGroup.podGroupName; the PodGroup (scheduling.k8s.io) has the minimum
//   Volcano          annotation scheduling.k8s.io/group-name or scheduling.volcano.sh/group-name; the minimum from
//                    scheduling.volcano.sh/group-min-member, else from the PodGroup (scheduling.volcano.sh), which
//                    also has the minima of tasks (minTaskMember)
//   coscheduling     label scheduling.x-k8s.io/pod-group or pod-group.scheduling.sigs.k8s.io[/name]; the minimum from
//                    pod-group.scheduling.sigs.k8s.io/min-available, else from the PodGroup (scheduling.x-k8s.io)
//   Kueue            label kueue.x-k8s.io/pod-group-name with annotation kueue.x-k8s.io/pod-group-total-count
//   LeaderWorkerSet  one gang a group: labels .../name and .../group-index; annotation .../size
//   JobSet           label .../jobset-name; the JobSet has the size
//   Kubeflow         label training.kubeflow.org/job-name; the job has the size
//   GKE              a Job whose pods select a slice of several TPU hosts (cloud.google.com/gke-tpu-topology): its
//   hosts
// heddle.dev/gang-size and -minimum on the pod win over every other source of a size, and heddle.dev/gang-size: "1"
// without heddle.dev/gang says that the pod is alone whatever else it carries: for workloads whose pods are made one
// after the other (LeaderWorkerSet with LeaderReady, JobSet with dependsOn), which would wait for each other for ever.
// Segments: heddle.dev/gang-segment-size and -topology; kueue.x-k8s.io/podset-slice-size and
// -slice-required-topology; Ascend's annotation sp-block, on the pod or its PodGroup, which counts NPUs and means the
// level superNode. Of a JobSet without a size each Job is one. Where nothing says another place, each slice of several
// TPU hosts that pods select is one segment, in one node pool of GKE.
// A size that is known neither from the pod nor from its object is not guessed: the pod waits and says so.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/pod.h"

namespace heddle::controller {

enum class GangSource {
  kHeddle,
  kPodGroup,
  kVolcano,
  kCoscheduling,
  kKueue,
  kLeaderWorkerSet,
  kJobSet,
  kKubeflow,
  kJob,
};
// "heddle", "podgroup", "volcano", "coscheduling", "kueue", "leaderworkerset", "jobset", "kubeflow", "job".
std::string_view source_name(GangSource source);

// The rank of a member of many Jobs is its index plus this many for each Job before its own.
inline constexpr int64_t kRanksOfAJob = 1'000'000;

struct GangDeclaration {
  GangSource source = GangSource::kHeddle;
  std::string name;      // inside namespace and source
  std::string object;    // "group/Kind namespace/name" that has the size where the pod does not; may be empty
  std::string subgroup;  // empty: the gang has one
  std::optional<int64_t> size;
  std::optional<int64_t> minimum;
  std::optional<int64_t> subgroup_minimum;
  std::optional<int64_t> index;  // rank among the members
  // A level's name, or the node label that it goes by; empty: none.
  std::string required;
  std::string preferred;
  std::string problem;  // a value that cannot be meant, with its field; then the pod waits
  // Segments of so many members of consecutive ranks, each in one domain of the level; empty: it is in none.
  std::optional<int64_t> segment_size;
  std::string segment_level;
  std::optional<int64_t> segment_devices;  // the size in devices, as Ascend's sp-block has it
  int64_t devices = 0;                     // of the pod; known where segments may be counted by them
  bool whole_segments = false;             // the last one is not to be shorter
  friend bool operator==(const GangDeclaration&, const GangDeclaration&) = default;
};

// Nothing: the pod is alone.
std::optional<GangDeclaration> gang_of(const model::Pod& pod);

// What an object says about the gang that carries its name.
struct GangObject {
  std::string key;  // as GangDeclaration::object
  std::optional<int64_t> minimum;
  std::optional<int64_t> size;
  std::string required;
  std::optional<int64_t> segment_devices;
  std::map<std::string, int64_t> subgroup_minimum = {};  // Volcano's minTaskMember
  friend bool operator==(const GangObject&, const GangObject&) = default;
};

// PodGroups of the three groups (one of the policy "basic" has the minimum 1), JobSets, and the jobs of
// kubeflow.org/v1. Nothing: another kind. Errors: kInvalidArgument for what is no object with a name.
Result<std::optional<GangObject>> parse_gang_object(std::string_view json);
// The same where the text does not say what it is, as in a list: object_kind is "group/Kind" of one of these. Errors:
// as above, and kInvalidArgument for another kind.
Result<GangObject> parse_gang_object_of_kind(std::string_view json, std::string_view object_kind);

}  // namespace heddle::controller
