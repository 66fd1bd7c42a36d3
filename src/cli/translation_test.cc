#include "cli/translation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/yaml_json.h"

namespace heddle::cli {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

TEST(YamlToJson, KeepsTypes) {
  const auto documents = yaml_to_json(
      "a: 1\nb: \"1\"\nc: true\nd: 'true'\ne: 1.5\nf: 3000Mi\ng:\nh: [x, {y: z}]\ni: |\n  12\n---\n---\nj: 007\n");
  ASSERT_TRUE(documents) << documents.error().text();
  ASSERT_EQ(documents->size(), 2U);
  EXPECT_EQ((*documents)[0],
            R"({"a":1,"b":"1","c":true,"d":"true","e":1.5,"f":"3000Mi","g":null,"h":["x",{"y":"z"}],"i":"12\n"})");
  EXPECT_EQ((*documents)[1], R"({"j":"007"})");
}

TEST(YamlToJson, RefusesBadAndHugeInput) {
  EXPECT_THAT(yaml_to_json("a: [1").error().text(), HasSubstr("line"));
  EXPECT_THAT(yaml_to_json("{a: b}, c").error().text(), HasSubstr("may follow the end of a document"));
  EXPECT_EQ(yaml_to_json("---\n---\na: 1\n---\n{b: 2}\n...\n")->size(), 2U);
  EXPECT_FALSE(yaml_to_json("? [a]\n: b\n"));
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int j = 0; j < 9; ++j) bomb += "," + before;
    bomb += "]\n";
  }
  EXPECT_THAT(yaml_to_json(bomb).error().text(), HasSubstr("million"));
  EXPECT_FALSE(yaml_to_json(std::string(500, '[') + std::string(500, ']')));
}

const catalog::Requests& rules() {
  static const catalog::Requests rules = catalog::Requests::built_in().value();
  return rules;
}

Result<TranslatedList> translate_manifest(const std::string& manifest) {
  return cli::translate_manifest(rules(), manifest);
}

constexpr const char* kPod = R"(apiVersion: v1
kind: Pod
metadata: {name: trainer, namespace: research}
spec:
  containers:
  - name: main
    image: busybox
    resources:
      limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3000, nvidia.com/gpucores: 30}
)";

TEST(Translate, APodComesWithItsClaims) {
  const auto out = translate_manifest(kPod);
  ASSERT_TRUE(out) << out.error().text();
  ASSERT_THAT(out->refusals, testing::IsEmpty());
  EXPECT_THAT(out->explanations, Not(testing::IsEmpty()));
  const auto list = Json::parse(out->list_json);
  EXPECT_EQ(list["kind"], "List");
  ASSERT_EQ(list["items"].size(), 2U);
  const auto& pod = list["items"][0];
  EXPECT_EQ(pod["kind"], "Pod");
  EXPECT_EQ(pod["spec"]["schedulingGates"][0]["name"], "heddle.dev/placement");
  EXPECT_FALSE(pod["spec"]["containers"][0]["resources"].value("limits", Json::object()).contains("nvidia.com/gpu"));
  const auto& claim = list["items"][1];
  EXPECT_EQ(claim["kind"], "ResourceClaim");
  EXPECT_EQ(claim["metadata"]["namespace"], "research");
  EXPECT_EQ(claim["metadata"]["name"], pod["spec"]["resourceClaims"][0]["resourceClaimName"]);
  EXPECT_EQ(claim["spec"]["devices"]["requests"][0]["exactly"]["capacity"]["requests"]["cores"], "30");
  EXPECT_EQ(translate_manifest(kPod)->list_json, out->list_json);
}

TEST(Translate, AWorkloadComesWithTemplates) {
  const auto out = translate_manifest(R"(apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: busybox
        resources: {limits: {nvidia.com/gpu: 1}}
)");
  ASSERT_TRUE(out) << out.error().text();
  const auto list = Json::parse(out->list_json);
  ASSERT_EQ(list["items"].size(), 2U);
  const auto& pod = list["items"][0]["spec"]["template"];
  EXPECT_EQ(list["items"][0]["kind"], "Deployment");
  EXPECT_FALSE(pod.contains("kind"));
  EXPECT_FALSE(pod["spec"].contains("schedulingGates"));
  EXPECT_THAT(pod.dump(), Not(HasSubstr("heddle.dev/request")));
  EXPECT_EQ(list["items"][1]["kind"], "ResourceClaimTemplate");
  EXPECT_EQ(pod["spec"]["resourceClaims"][0]["resourceClaimTemplateName"], list["items"][1]["metadata"]["name"]);
  EXPECT_FALSE(pod["spec"]["resourceClaims"][0].contains("resourceClaimName"));
  EXPECT_EQ(list["items"][0]["spec"]["replicas"], 3);
}

// The webhook sees the pods that come of it; a manifest of it holds none.
TEST(Translate, AKindWithoutPodTemplatesIsPassedAndItsDevicesAreNamed) {
  const auto out = translate_manifest(R"(apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: llm}
spec: {predictor: {model: {resources: {requests: {cpu: 1}, limits: {nvidia.com/gpu: 1}}}}}
---
kind: ConfigMap
metadata: {name: c}
data: {resources: x}
)");
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_THAT(out->explanations,
              testing::ElementsAre(testing::AllOf(HasSubstr("passed unchanged"), HasSubstr("it names nvidia.com/gpu")),
                                   testing::EndsWith("passed unchanged")));
  EXPECT_EQ(Json::parse(out->list_json)["items"].size(), 2U);
}

TEST(Translate, WhatIsLeftToOtherPluginsIsSaid) {
  const auto out = translate_manifest(R"(apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  initContainers:
  - {name: fetch, resources: {requests: {example.com/disk: 1}}}
  containers:
  - name: main
    resources: {limits: {cpu: 1, nvidia.com/gpu: 1, aliyun.com/gpu-mem: 3}, requests: {aliyun.com/gpu-mem: 3}}
)");
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_THAT(out->explanations,
              testing::ElementsAre(HasSubstr("nvidia.com/gpu=1"),
                                   testing::AllOf(HasSubstr("container fetch"), HasSubstr("example.com/disk=1"),
                                                  HasSubstr("for its own plugin")),
                                   testing::AllOf(HasSubstr("container main"), HasSubstr("aliyun.com/gpu-mem=3"))));
}

// What came out may come in again: nothing is made twice.
TEST(Translate, ItsOwnOutputIsTranslatedToItself) {
  const auto first = translate_manifest(kPod);
  ASSERT_TRUE(first);
  const auto again = translate_manifest(first->list_json);
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(Json::parse(again->list_json), Json::parse(first->list_json));
}

TEST(Translate, TemplatesOfOneWorkloadAreToldApart) {
  const auto out = translate_manifest(R"(apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: t}
spec:
  pytorchReplicaSpecs:
    Master: {template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}}
    Worker: {template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 2}}}]}}}
)");
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_THAT(out->explanations, testing::ElementsAre(HasSubstr("spec.pytorchReplicaSpecs.Master.template: "),
                                                      HasSubstr("spec.pytorchReplicaSpecs.Worker.template: ")));
}

TEST(Translate, OfAQuotaItIsSaidWhatHolds) {
  const auto out = translate_manifest(R"(apiVersion: v1
kind: ResourceQuota
metadata: {name: q}
spec: {hard: {pods: 3, requests.nvidia.com/gpu: 4, limits.nvidia.com/gpumem: 30000, requests.enflame.com/drs-gcu: 3}}
)");
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_THAT(out->explanations, testing::ElementsAre(HasSubstr("requests.nvidia.com/gpu: kept by Heddle"),
                                                      HasSubstr("limits.nvidia.com/gpumem: kept by Heddle"),
                                                      HasSubstr("requests.enflame.com/drs-gcu: kept by Heddle")));
  EXPECT_EQ(Json::parse(out->list_json)["items"].size(), 1U);
}

TEST(Translate, ARefusalLeavesAnEmptyList) {
  std::string bad(kPod);
  bad.replace(bad.find("gpumem: 3000"), 12, "gpumem: 16Gi");
  const auto out = translate_manifest(bad);
  ASSERT_TRUE(out);
  ASSERT_EQ(out->refusals.size(), 1U);
  EXPECT_THAT(out->refusals[0], HasSubstr("16384"));
  EXPECT_TRUE(Json::parse(out->list_json)["items"].empty());
}

// Every pod template under spec, whatever the kind: where it is, and what its claim template is called.
TEST(Translate, WorkloadsOfManyKinds) {
  const std::string pod = R"({"spec":{"containers":[{"name":"main","resources":{"limits":{"nvidia.com/gpu":1}}}]}})";
  struct Case {
    const char* kind;
    std::string spec;  // with P for the template
    std::vector<std::string> templates;
  };
  const Case cases[] = {
      {"Deployment", R"({"template":P})", {"w-main"}},
      {"StatefulSet",
       R"({"template":P,"volumeClaimTemplates":[{"spec":{"accessModes":["ReadWriteOnce"]}}]})",
       {"w-main"}},
      {"DaemonSet", R"({"template":P})", {"w-main"}},
      {"ReplicaSet", R"({"template":P})", {"w-main"}},
      {"ReplicationController", R"({"template":P})", {"w-main"}},
      {"Job", R"({"template":P})", {"w-main"}},
      {"CronJob", R"({"jobTemplate":{"spec":{"template":P}}})", {"w-main"}},
      {"JobSet",
       R"({"replicatedJobs":[{"name":"driver","template":{"spec":{"template":P}}},{"name":"workers","template":{"spec":{"template":P}}}]})",
       {"w-driver-main", "w-workers-main"}},
      {"PyTorchJob",
       R"({"pytorchReplicaSpecs":{"Master":{"template":P},"Worker":{"replicas":2,"template":P}}})",
       {"w-master-main", "w-worker-main"}},
      {"TFJob", R"({"tfReplicaSpecs":{"PS":{"template":P},"Worker":{"template":P}}})", {"w-ps-main", "w-worker-main"}},
      {"MPIJob",
       R"({"mpiReplicaSpecs":{"Launcher":{"template":P},"Worker":{"template":P}}})",
       {"w-launcher-main", "w-worker-main"}},
      {"RayCluster",
       R"({"headGroupSpec":{"template":P},"workerGroupSpecs":[{"groupName":"small","template":P}]})",
       {"w-headgroupspec-main", "w-small-main"}},
      {"RayJob",
       R"({"rayClusterSpec":{"headGroupSpec":{"template":P}},"submitterPodTemplate":P})",
       {"w-headgroupspec-main", "w-submitterpod-main"}},
      {"LeaderWorkerSet",
       R"({"leaderWorkerTemplate":{"leaderTemplate":P,"workerTemplate":P}})",
       {"w-leader-main", "w-worker-main"}},
      {"Job", R"({"tasks":[{"name":"a","template":P},{"name":"b","template":P}]})", {"w-a-main", "w-b-main"}},
  };
  for (const Case& c : cases) {
    std::string spec = c.spec;
    for (size_t at = spec.find(":P"); at != std::string::npos; at = spec.find(":P")) spec.replace(at + 1, 1, pod);
    const auto out = translate_manifest(std::string(R"({"apiVersion":"x/v1","kind":")") + c.kind +
                                        R"(","metadata":{"name":"w","namespace":"n"},"spec":)" + spec + "}");
    ASSERT_TRUE(out) << c.kind << out.error().text();
    const auto items = Json::parse(out->list_json)["items"];
    ASSERT_EQ(items.size(), 1 + c.templates.size()) << c.kind;
    EXPECT_EQ(items[0]["kind"], c.kind);
    EXPECT_THAT(items[0].dump(), Not(HasSubstr("nvidia.com/gpu")));
    for (size_t i = 0; i < c.templates.size(); ++i) {
      const std::string name = items[i + 1]["metadata"]["name"];
      EXPECT_EQ(items[i + 1]["kind"], "ResourceClaimTemplate");
      EXPECT_EQ(items[i + 1]["metadata"]["namespace"], "n");
      EXPECT_THAT(items[0].dump(), HasSubstr("\"resourceClaimTemplateName\":\"" + name + "\"")) << c.kind;
      EXPECT_EQ(name, c.templates[i]) << c.kind;
    }
    EXPECT_EQ(out->explanations.size(), c.templates.size()) << c.kind;
  }
}

TEST(Translate, DocumentsKeepTheirOrderAndInitStepsShareATemplate) {
  const auto out = translate_manifest(std::string(kPod) + R"(---
apiVersion: v1
kind: Service
metadata: {name: s}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      initContainers: [{name: warm, resources: {limits: {nvidia.com/gpu: 1}}}]
      containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]
)");
  ASSERT_TRUE(out) << out.error().text();
  std::vector<std::string> kinds;
  const auto list = Json::parse(out->list_json);
  for (const auto& item : list["items"]) kinds.push_back(item["kind"]);
  EXPECT_EQ(kinds,
            (std::vector<std::string>{"Pod", "ResourceClaim", "Service", "Deployment", "ResourceClaimTemplate"}));
  const auto& spec = list["items"][3]["spec"]["template"]["spec"];
  EXPECT_EQ(spec["initContainers"][0]["resources"]["claims"], spec["containers"][0]["resources"]["claims"]);
}

TEST(Translate, ARefusalNamesTheTemplate) {
  const auto out = translate_manifest(
      R"({"kind":"CronJob","metadata":{"name":"c"},"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"main","resources":{"limits":{"nvidia.com/gpumem":"16Gi"}}}]}}}}}})");
  ASSERT_TRUE(out);
  ASSERT_EQ(out->refusals.size(), 1U);
  EXPECT_THAT(out->refusals[0], HasSubstr("CronJob c: spec.jobTemplate.spec.template.spec.containers[0].resources"));
  EXPECT_THAT(out->refusals[0], HasSubstr("container main"));
}

TEST(Translate, IgnoredPodsAreLeftAloneUntilTold) {
  std::string pod(kPod);
  pod.replace(pod.find("namespace: research"), 19, "labels: {hami.io/webhook: ignore}");
  const auto left = translate_manifest(pod);
  ASSERT_TRUE(left);
  EXPECT_EQ(Json::parse(left->list_json)["items"].size(), 1U);
  EXPECT_THAT(left->explanations, testing::Contains(HasSubstr("left alone")));
  const auto told = cli::translate_manifest(rules(), pod, {.translate_ignored = true});
  ASSERT_TRUE(told);
  EXPECT_EQ(Json::parse(told->list_json)["items"].size(), 2U);
}

TEST(Translate, OtherKindsPassAndBrokenOnesDoNot) {
  const auto out = translate_manifest("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n");
  ASSERT_TRUE(out);
  EXPECT_EQ(Json::parse(out->list_json)["items"][0]["kind"], "Service");
  for (const char* bad :
       {"", "[]", "a: b", "kind: Deployment\nspec: {}", "kind: List\nitems: 3", "kind: Pod\nspec: 7"}) {
    EXPECT_FALSE(translate_manifest(bad)) << bad;
  }
}

}  // namespace
}  // namespace heddle::cli
