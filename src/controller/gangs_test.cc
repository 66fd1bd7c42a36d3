#include "controller/gangs.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "codec/codec.h"
#include "controller/test_requests.h"

namespace heddle::controller {
namespace {

using Json = nlohmann::json;

model::Pod pod_with(const Json& labels, const Json& annotations, const Json& extra = Json::object()) {
  Json pod{{"metadata", {{"name", "p"}, {"namespace", "ns"}, {"labels", labels}, {"annotations", annotations}}},
           {"spec", Json::object()}};
  pod.merge_patch(extra);
  return codec::parse_pod(pod.dump()).value();
}

struct Case {
  const char* name;
  Json labels;
  Json annotations;
  Json extra = Json::object();
  GangDeclaration expected;
};

GangDeclaration said(GangSource source, std::string name, std::optional<int64_t> size = {},
                     std::optional<int64_t> minimum = {}) {
  GangDeclaration out;
  out.source = source;
  out.name = std::move(name);
  out.size = size;
  out.minimum = minimum;
  return out;
}

template <typename F>
GangDeclaration with(GangDeclaration declaration, F change) {
  change(declaration);
  return declaration;
}

std::vector<Case> cases() {
  const Json none = Json::object();
  return {
      {"heddle",
       {{"heddle.dev/gang", "g"}, {"heddle.dev/gang-size", "8"}},
       none,
       none,
       said(GangSource::kHeddle, "g", 8)},
      {"heddle in annotations, all of it",
       none,
       {{"heddle.dev/gang", "g"},
        {"heddle.dev/gang-size", "8"},
        {"heddle.dev/gang-minimum", "6"},
        {"heddle.dev/gang-subgroup", "w"},
        {"heddle.dev/gang-subgroup-minimum", "4"},
        {"heddle.dev/gang-index", "3"},
        {"heddle.dev/topology-required", "rack"},
        {"heddle.dev/topology-preferred", "linkDomain"}},
       none,
       with(said(GangSource::kHeddle, "g", 8, 6),
            [](GangDeclaration& d) {
              d.subgroup = "w";
              d.subgroup_minimum = 4;
              d.index = 3;
              d.required = "rack";
              d.preferred = "linkDomain";
            })},
      {"a PodGroup of Kubernetes",
       none,
       none,
       {{"spec", {{"schedulingGroup", {{"podGroupName", "g"}}}}}},
       with(said(GangSource::kPodGroup, "g"),
            [](GangDeclaration& d) { d.object = "scheduling.k8s.io/PodGroup ns/g"; })},
      {"Volcano",
       none,
       {{"scheduling.k8s.io/group-name", "g"},
        {"scheduling.volcano.sh/group-min-member", "3"},
        {"volcano.sh/task-spec", "ps"}},
       none,
       with(said(GangSource::kVolcano, "g", {}, 3),
            [](GangDeclaration& d) {
              d.object = "scheduling.volcano.sh/PodGroup ns/g";
              d.subgroup = "ps";
            })},
      {"coscheduling",
       {{"scheduling.x-k8s.io/pod-group", "g"}},
       none,
       none,
       with(said(GangSource::kCoscheduling, "g"),
            [](GangDeclaration& d) { d.object = "scheduling.x-k8s.io/PodGroup ns/g"; })},
      {"coscheduling of old",
       {{"pod-group.scheduling.sigs.k8s.io/name", "g"}, {"pod-group.scheduling.sigs.k8s.io/min-available", "2"}},
       none,
       none,
       with(said(GangSource::kCoscheduling, "g", {}, 2),
            [](GangDeclaration& d) { d.object = "scheduling.x-k8s.io/PodGroup ns/g"; })},
      {"Kueue",
       {{"kueue.x-k8s.io/pod-group-name", "g"}, {"kueue.x-k8s.io/pod-group-pod-index", "5"}},
       {{"kueue.x-k8s.io/pod-group-total-count", "9"},
        {"kueue.x-k8s.io/podset-required-topology", "topology.kubernetes.io/rack"}},
       none,
       with(said(GangSource::kKueue, "g", 9),
            [](GangDeclaration& d) {
              d.index = 5;
              d.required = "topology.kubernetes.io/rack";
            })},
      {"LeaderWorkerSet",
       {{"leaderworkerset.sigs.k8s.io/name", "l"},
        {"leaderworkerset.sigs.k8s.io/group-index", "2"},
        {"leaderworkerset.sigs.k8s.io/worker-index", "1"}},
       {{"leaderworkerset.sigs.k8s.io/size", "4"}},
       none,
       with(said(GangSource::kLeaderWorkerSet, "l-2", 4), [](GangDeclaration& d) { d.index = 1; })},
      {"JobSet",
       {{"jobset.sigs.k8s.io/jobset-name", "j"},
        {"jobset.sigs.k8s.io/replicatedjob-name", "workers"},
        {"jobset.sigs.k8s.io/job-global-index", "2"},
        {"batch.kubernetes.io/job-completion-index", "7"},
        {"jobset.sigs.k8s.io/restart-attempt", "1"}},
       none,
       none,
       with(said(GangSource::kJobSet, "j:1"),
            [](GangDeclaration& d) {
              d.object = "jobset.x-k8s.io/JobSet ns/j";
              d.subgroup = "workers";
              d.index = 2'000'007;
            })},
      {"Kubeflow",
       {{"training.kubeflow.org/job-name", "t"},
        {"training.kubeflow.org/replica-type", "worker"},
        {"training.kubeflow.org/replica-index", "0"}},
       none,
       {{"metadata",
         {{"ownerReferences", Json::array({{{"apiVersion", "kubeflow.org/v1"},
                                            {"kind", "PyTorchJob"},
                                            {"name", "t"},
                                            {"uid", "u"},
                                            {"controller", true}}})}}}},
       with(said(GangSource::kKubeflow, "t"),
            [](GangDeclaration& d) {
              d.object = "kubeflow.org/PyTorchJob ns/t";
              d.subgroup = "worker";
              d.index = 0;
            })},
      {"a size of ours beside a foreign gang",
       {{"jobset.sigs.k8s.io/jobset-name", "j"}, {"heddle.dev/gang-size", "4"}},
       none,
       none,
       with(said(GangSource::kJobSet, "j", 4), [](GangDeclaration& d) { d.object = "jobset.x-k8s.io/JobSet ns/j"; })},
  };
}

TEST(GangOf, IsReadWhereUsersDeclareIt) {
  for (const Case& test : cases()) {
    SCOPED_TRACE(test.name);
    const auto gang = gang_of(pod_with(test.labels, test.annotations, test.extra));
    ASSERT_TRUE(gang.has_value());
    EXPECT_EQ(*gang, test.expected);
  }
}

TEST(GangOf, APodWithoutAnyIsAlone) {
  EXPECT_FALSE(gang_of(pod_with({{"app", "x"}, {"batch.kubernetes.io/job-completion-index", "1"}}, Json::object())));
}

TEST(GangOf, SizeOneTakesAPodOutOfAForeignGang) {
  EXPECT_FALSE(gang_of(pod_with({{"leaderworkerset.sigs.k8s.io/name", "l"},
                                 {"leaderworkerset.sigs.k8s.io/group-index", "2"},
                                 {"heddle.dev/gang-size", "1"}},
                                Json::object())));
}

TEST(GangOf, ANumberThatIsNoneIsNamedWithItsField) {
  for (const char* bad : {"eight", "0", "-1", "3.5", "99999999999", "8 "}) {
    const auto gang = gang_of(pod_with({{"heddle.dev/gang", "g"}, {"heddle.dev/gang-size", bad}}, Json::object()));
    ASSERT_TRUE(gang.has_value());
    EXPECT_FALSE(gang->size.has_value());
    EXPECT_NE(gang->problem.find("heddle.dev/gang-size: \""), std::string::npos) << gang->problem;
  }
}

TEST(GangObjects, SayHowManyMembersThereAre) {
  const auto read = [](const Json& object) { return parse_gang_object(object.dump()).value().value(); };
  const Json meta{{"name", "g"}, {"namespace", "ns"}};
  const GangObject native =
      read({{"apiVersion", "scheduling.k8s.io/v1beta1"},
            {"kind", "PodGroup"},
            {"metadata", meta},
            {"spec",
             {{"schedulingPolicy", {{"gang", {{"minCount", 5}}}}},
              {"schedulingConstraints", {{"topology", Json::array({{{"key", "example.com/rack"}}})}}}}}});
  EXPECT_EQ(native.key, "scheduling.k8s.io/PodGroup ns/g");
  EXPECT_EQ(native.minimum, 5);
  EXPECT_EQ(native.required, "example.com/rack");
  EXPECT_EQ(read({{"apiVersion", "scheduling.k8s.io/v1beta1"},
                  {"kind", "PodGroup"},
                  {"metadata", meta},
                  {"spec", {{"schedulingPolicy", {{"basic", Json::object()}}}}}})
                .minimum,
            1);
  EXPECT_EQ(read({{"apiVersion", "scheduling.volcano.sh/v1beta1"},
                  {"kind", "PodGroup"},
                  {"metadata", meta},
                  {"spec", {{"minMember", 3}}}})
                .minimum,
            3);
  EXPECT_EQ(read({{"apiVersion", "scheduling.volcano.sh/v1beta1"},
                  {"kind", "PodGroup"},
                  {"metadata", meta},
                  {"spec", {{"minMember", 3}, {"minTaskMember", {{"ps", 1}, {"worker", 2}, {"none", 0}}}}}})
                .subgroup_minimum,
            (std::map<std::string, int64_t>{{"ps", 1}, {"worker", 2}}));
  const GangObject jobs = read(
      {{"apiVersion", "jobset.x-k8s.io/v1alpha2"},
       {"kind", "JobSet"},
       {"metadata", meta},
       {"spec",
        {{"replicatedJobs", Json::array({{{"name", "driver"}, {"template", {{"spec", Json::object()}}}},
                                         {{"name", "w"},
                                          {"replicas", 2},
                                          {"template", {{"spec", {{"parallelism", 4}, {"completions", 3}}}}}}})}}}});
  EXPECT_EQ(jobs.size, 7);
  const GangObject torch =
      read({{"apiVersion", "kubeflow.org/v1"},
            {"kind", "PyTorchJob"},
            {"metadata", meta},
            {"spec",
             {{"pytorchReplicaSpecs", {{"Master", {{"replicas", 1}}}, {"Worker", {{"replicas", 7}}}}},
              {"runPolicy", {{"schedulingPolicy", {{"minAvailable", 6}}}}}}}});
  EXPECT_EQ(torch.size, 8);
  EXPECT_EQ(torch.minimum, 6);
  EXPECT_FALSE(
      parse_gang_object(Json{{"apiVersion", "batch/v1"}, {"kind", "Job"}, {"metadata", meta}}.dump())->has_value());
  EXPECT_FALSE(parse_gang_object(R"({"kind":"Secret"})")->has_value());
  EXPECT_FALSE(parse_gang_object(R"({"apiVersion":"jobset.x-k8s.io/v1alpha2","kind":"JobSet"})"));
  EXPECT_FALSE(parse_gang_object("[]"));
}

// Pods of so many chips that select a slice of that shape.
model::Pod tpu_pod(const std::string& topology, int64_t chips, const Json& labels, const Json& annotations = {}) {
  Json marks = Json::object();
  if (chips > 0) marks["heddle.dev/request"] = testing::npu_request(static_cast<int>(chips));
  if (!annotations.is_null()) marks.update(annotations);
  model::Pod pod = pod_with(labels, marks);
  pod.node_selector["cloud.google.com/gke-tpu-topology"] = topology;
  return pod;
}

TEST(Gangs, ASliceOfSeveralTpuHostsIsOneNodePool) {
  const Json job{{"batch.kubernetes.io/job-name", "train"}};
  const auto one = gang_of(tpu_pod("4x4x4", 4, job));
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(source_name(one->source), "job");
  EXPECT_EQ(one->name, "train");
  EXPECT_EQ(one->size, 16);
  EXPECT_EQ(one->segment_size, 16);
  EXPECT_EQ(one->segment_level, "cloud.google.com/gke-nodepool");
  EXPECT_TRUE(one->whole_segments);
  EXPECT_EQ(gang_of(tpu_pod("4x8", 8, job))->size, 4) << "hosts of eight chips";
  EXPECT_FALSE(gang_of(tpu_pod("2x4", 8, job)).has_value()) << "a slice of one host";
  EXPECT_FALSE(gang_of(tpu_pod("2x2x1", 0, job)).has_value()) << "it asks for no chips";
  EXPECT_FALSE(gang_of(tpu_pod("4x4x4", 4, Json::object())).has_value()) << "nothing says whose other hosts they are";
  EXPECT_EQ(
      gang_of(tpu_pod("4x4", 3, job))->problem,
      "cloud.google.com/gke-tpu-topology: 4x4 is 16 chips, no whole number of pods of 3; ask for the chips of one "
      "host");
  const auto set = gang_of(tpu_pod("4x4", 4, {{"jobset.sigs.k8s.io/jobset-name", "s"}}));
  EXPECT_EQ(source_name(set->source), "jobset");
  EXPECT_EQ(set->size, std::nullopt) << "several slices";
  EXPECT_EQ(set->segment_size, 4);
  const Json own{{"heddle.dev/topology-required", "slice-4x4x4"}};
  EXPECT_EQ(gang_of(tpu_pod("4x4x4", 4, job, own))->segment_size, std::nullopt) << "the pod says where itself";
}

TEST(Gangs, SegmentsAreSaidByHeddleKueueAndMindCluster) {
  const Json none = Json::object();
  const Json heddle{{"heddle.dev/gang", "g"}, {"heddle.dev/gang-size", "8"}};
  const auto plus = [](Json base, const Json& more) {
    base.update(more);
    return base;
  };
  auto own = gang_of(pod_with(
      none, plus(heddle, {{"heddle.dev/gang-segment-size", "4"}, {"heddle.dev/gang-segment-topology", "linkDomain"}})));
  EXPECT_EQ(own->segment_size, 4);
  EXPECT_EQ(own->segment_level, "linkDomain");
  EXPECT_EQ(own->problem, "");
  auto kueue = gang_of(pod_with(none, plus(heddle, {{"kueue.x-k8s.io/podset-slice-size", "2"},
                                                    {"kueue.x-k8s.io/podset-slice-required-topology", "a.b/rack"}})));
  EXPECT_EQ(kueue->segment_size, 2);
  EXPECT_EQ(kueue->segment_level, "a.b/rack");
  const auto ascend = gang_of(pod_with(
      none,
      {{"scheduling.k8s.io/group-name", "j"}, {"sp-block", "32"}, {"heddle.dev/request", testing::npu_request(16)}}));
  EXPECT_EQ(ascend->segment_devices, 32);
  EXPECT_EQ(ascend->devices, 16);
  EXPECT_EQ(ascend->segment_level, "superNode");
  EXPECT_EQ(gang_of(pod_with(none, plus(heddle, {{"heddle.dev/gang-segment-size", "4"}})))->problem,
            "heddle.dev/gang-segment-size: it needs a level; write heddle.dev/gang-segment-topology beside it");
  EXPECT_EQ(gang_of(pod_with(none, plus(heddle, {{"heddle.dev/gang-segment-topology", "rack"}})))->problem,
            "heddle.dev/gang-segment-topology: it needs a size; write heddle.dev/gang-segment-size beside it");
  const auto group = parse_gang_object(Json{
      {"apiVersion", "scheduling.volcano.sh/v1beta1"},
      {"kind", "PodGroup"},
      {"metadata", {{"name", "j"}, {"annotations", {{"sp-block", "64"}}}}},
      {"spec", {{"minMember", 3}}}}.dump());
  EXPECT_EQ(group->value().segment_devices, 64);
}

}  // namespace
}  // namespace heddle::controller
