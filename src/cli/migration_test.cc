#include "cli/migration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace heddle::cli {
namespace {

using testing::Contains;
using testing::HasSubstr;

const catalog::Requests& rules() {
  static const catalog::Requests rules = catalog::Requests::built_in().value();
  return rules;
}

Migration read(const std::string& manifest) {
  auto out = read_migration(rules(), {{"m.yaml", manifest}});
  EXPECT_TRUE(out) << out.error().text();
  return out.value_or(Migration{});
}

constexpr const char* kCluster = R"(apiVersion: v1
kind: List
items:
- kind: Node
  metadata:
    name: old
    annotations:
      hami.io/node-nvidia-register: "GPU-a,10,81920,100,NVIDIA-NVIDIA A100,0,true:"
      hami.io/device-cordon: GPU-z
- kind: Node
  metadata:
    name: new
    annotations:
      hami.io/node-nvidia-register: '[{"id":"GPU-b","count":1,"devmem":163840,"devcore":200,"type":"NVIDIA A100","mode":"mig","health":true}]'
- kind: Node
  metadata: {name: volcano, annotations: {volcano.sh/node-vgpu-register: "GPU-c,10,32768,NVIDIA-V100,true,hami-core:"}}
- kind: Node
  metadata: {name: broken, annotations: {hami.io/node-dcu-register: "x"}}
- kind: Node
  metadata: {name: plain}
- kind: Pod
  metadata:
    name: shared
    namespace: a
    annotations: {hami.io/vgpu-devices-allocated: "GPU-a,NVIDIA,3000,30:;"}
  spec: {nodeName: old, containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3000, nvidia.com/gpucores: 30}}}]}
- kind: Pod
  metadata: {name: done, namespace: a, annotations: {hami.io/vgpu-devices-allocated: "GPU-a,NVIDIA,3000,30:;"}}
  spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpumem: 3000}}}]}
  status: {phase: Succeeded}
- kind: Pod
  metadata: {name: wrong, namespace: a}
  spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpumem: 16Gi}}}]}
- kind: Pod
  metadata: {name: kai, namespace: b, annotations: {gpu-fraction: "0.5", received-resource-type: Fraction}}
  spec: {containers: [{name: main}]}
- kind: Pod
  metadata: {name: npu, namespace: b}
  spec: {containers: [{name: main, resources: {limits: {huawei.com/Ascend910B4: 1, huawei.com/Ascend910B4-memory: 5000}}}]}
- kind: Pod
  metadata: {name: web, namespace: b}
  spec: {containers: [{name: main}]}
- kind: Deployment
  metadata: {name: serve, namespace: b}
  spec: {template: {spec: {containers: [{name: main, resources: {limits: {volcano.sh/vgpu-number: 1}}}]}}}
- kind: ConfigMap
  metadata: {name: hami-scheduler-device}
  data:
    device-config.yaml: |
      nvidia:
        resourceCountName: nvidia.com/gpu
        resourceMemoryName: example.com/gpumem
        memoryFactor: 1
        deviceMemoryScaling: 2
        deviceSplitCount: 10
        defaultCores: 0
      vnpus:
      - chipName: 910B4
        resourceName: huawei.com/Ascend910B4
        memoryFactor: 1024
)";

TEST(Migrate, NodesInEveryForm) {
  const Migration out = read(kCluster);
  ASSERT_EQ(out.nodes.size(), 4U);
  EXPECT_EQ(out.nodes[0].devices[0].memory_mib, 81920);
  EXPECT_EQ(out.nodes[0].devices[0].tenants, 1);  // a pod that ended holds nothing
  EXPECT_THAT(out.nodes[0].differences, Contains(HasSubstr("10 tenants")));
  EXPECT_THAT(out.nodes[0].differences, Contains(HasSubstr("DeviceTaintRule")));
  EXPECT_THAT(out.nodes[1].differences, Contains(HasSubstr("200 %")));
  EXPECT_THAT(out.nodes[1].differences, Contains(HasSubstr("MIG")));
  EXPECT_EQ(out.nodes[2].devices[0].id, "GPU-c");
  EXPECT_THAT(out.nodes[3].differences, Contains(HasSubstr("cannot be read")));
}

TEST(Migrate, Pods) {
  const Migration out = read(kCluster);
  std::map<std::string, const MigratedPod*> pods;
  for (const MigratedPod& pod : out.pods) pods[pod.name] = &pod;
  EXPECT_EQ(pods.count("web"), 0U);
  EXPECT_EQ(pods.at("shared")->outcome, "claims");
  EXPECT_EQ(pods.at("shared")->granted,
            std::vector<std::string>{"container main: NVIDIA GPU-a: 3000 MiB, 30 % of the cores"});
  EXPECT_EQ(pods.at("shared")->claims,
            std::vector<std::string>{"container main: gpu: 1 x heddle-nvidia, cores 30 %, memory 3000Mi"});
  EXPECT_EQ(pods.at("wrong")->outcome, "refused");
  EXPECT_THAT(pods.at("wrong")->reasons, Contains(HasSubstr("16384")));
  EXPECT_THAT(pods.at("kai")->claims, Contains(HasSubstr("\"memoryPercent\":50")));
  EXPECT_THAT(pods.at("npu")->differences, Contains(HasSubstr("8192 MiB granted")));
  EXPECT_EQ(pods.at("Deployment/serve")->claims, std::vector<std::string>{"container main: gpu: 1 x heddle-nvidia"});
}

TEST(Migrate, WhatKaiDecided) {
  const Migration out = read(R"(apiVersion: v1
kind: List
items:
- kind: BindRequest
  metadata: {name: half-1, namespace: b}
  spec: {podName: half, selectedNode: n1, receivedResourceType: Fraction, receivedGPU: {count: 1, portion: "0.50"}, selectedGPUGroups: [g1]}
  status: {phase: Succeeded}
- kind: Pod
  metadata: {name: half, namespace: b, annotations: {gpu-fraction: "0.5"}}
  spec: {nodeName: n1, containers: [{name: main}]}
- kind: Pod
  metadata: {name: whole, namespace: b}
  spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 2}}}]}
- kind: BindRequest
  metadata: {name: whole-1, namespace: b}
  spec: {podName: whole, selectedNode: n2, receivedResourceType: Regular, receivedGPU: {count: 2, portion: "1.00"}}
  status: {phase: Pending}
- kind: BindRequest
  metadata: {name: gone-1, namespace: b}
  spec: {podName: gone, selectedNode: n2}
  status: {phase: Failed}
- kind: BindRequest
  metadata: {name: nobody, namespace: b}
- kind: Pod
  metadata: {name: gpu-reservation-n1-abcde, namespace: kai-resource-reservation}
  spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]}
)");
  std::map<std::string, const MigratedPod*> pods;
  for (const MigratedPod& pod : out.pods) pods[pod.name] = &pod;
  EXPECT_EQ(pods.at("half")->granted, std::vector<std::string>{"KAI: 1 GPU, 0.50 of each of node n1, group g1"});
  EXPECT_THAT(pods.at("half")->differences, Contains(HasSubstr("not taken over")));
  EXPECT_EQ(pods.at("whole")->granted, std::vector<std::string>{"KAI: 2 GPU of node n2"});
  EXPECT_THAT(pods.at("whole")->differences, Contains(HasSubstr("is being bound")));
  EXPECT_EQ(pods.at("gone")->outcome, "nothing");
  EXPECT_THAT(pods.at("gone")->differences, Contains(HasSubstr("could not bind the pod to node n2")));
  EXPECT_EQ(pods.at("gpu-reservation-n1-abcde")->outcome, "nothing");
  EXPECT_THAT(pods.at("gpu-reservation-n1-abcde")->differences, Contains(HasSubstr("goes with KAI")));
  EXPECT_THAT(out.settings, Contains(HasSubstr("BindRequest b/nobody: it names no pod")));
}

// The annotations of Ascend's and Kunlunxin's plugins have the word in front, and an older HAMi names MIG partitions by
// their card.
TEST(Migrate, NodesOfOtherVendorsAndOldMig) {
  const Migration out = read(R"(apiVersion: v1
kind: List
items:
- kind: Node
  metadata:
    name: npu
    annotations: {hami.io/node-register-Ascend910B4: '[{"id":"n0","count":4,"devmem":32768,"devcore":20,"type":"Ascend910B4","health":true}]'}
- kind: Node
  metadata:
    name: xpu
    annotations: {hami.io/node-register-xpu: '[{"id":"x0","count":4,"devmem":98304,"devcore":100,"type":"P800","health":true}]'}
- kind: Node
  metadata:
    name: mig
    annotations:
      hami.io/node-nvidia-register: "GPU-b,1,81920,100,NVIDIA-A100,0,true,0,mig:"
      hami.io/node-nvidia-score: "[]"
- kind: Pod
  metadata: {name: m, namespace: a, annotations: {hami.io/vgpu-devices-allocated: "GPU-b[0-1],NVIDIA,10240,14:;"}}
  spec: {schedulerName: hami-scheduler, containers: [{name: main, resources: {limits: {nvidia.com/gpumem: 8000}}}]}
)");
  ASSERT_EQ(out.nodes.size(), 3U);
  EXPECT_EQ(out.nodes[0].devices.at(0).id, "n0");
  EXPECT_EQ(out.nodes[0].devices.at(0).memory_mib, 32768);
  EXPECT_EQ(out.nodes[1].devices.at(0).memory_mib, 98304);
  ASSERT_EQ(out.nodes[2].devices.size(), 1U);  // a score is no register
  EXPECT_EQ(out.nodes[2].devices[0].tenants, 1);
  ASSERT_EQ(out.pods.size(), 1U);
  EXPECT_THAT(out.pods[0].differences, Contains(HasSubstr("schedulerName: \"hami-scheduler\"")));
}

TEST(Migrate, SettingsOfNodesAndQuotas) {
  const Migration out = read(R"(apiVersion: v1
kind: List
items:
- kind: ConfigMap
  metadata: {name: hami-device-plugin}
  data:
    config.json: '{"nodeconfig":[{"name":"n1","operatingmode":"mig","devicememoryscaling":1.8,"devicecorescaling":1,"filterdevices":{"uuid":["GPU-x"],"index":[]}},{"name":"n2","operatingmode":"hami-core","devicememoryscaling":1}]}'
- kind: ConfigMap
  metadata: {name: other}
  data: {config.json: '{"nodeconfig":7}'}
- kind: ResourceQuota
  metadata: {name: q, namespace: a}
  spec: {hard: {pods: 3, limits.nvidia.com/gpumem: 30000}}
)");
  EXPECT_THAT(out.settings, testing::UnorderedElementsAre(
                                HasSubstr("node n1.deviceMemoryScaling: 1.8"), HasSubstr("node n1: operatingmode: mig"),
                                HasSubstr("node n1: filterdevices: uuid [\"GPU-x\"]"),
                                HasSubstr("ResourceQuota a/q: limits.nvidia.com/gpumem: kept by Heddle")));
}

// Each counts what pods name, and translated pods name nothing.
TEST(Migrate, QueuesOfOtherSchedulers) {
  const Migration out = read(R"(apiVersion: v1
kind: List
items:
- apiVersion: scheduling.volcano.sh/v1beta1
  kind: Queue
  metadata: {name: v}
  spec: {capability: {cpu: 2, volcano.sh/vgpu-number: 2}, guarantee: {resource: {nvidia.com/gpu: 1}}, deserved: 7}
- apiVersion: scheduling.run.ai/v2
  kind: Queue
  metadata: {name: k}
  spec: {resources: {cpu: {quota: 1}, gpu: {quota: 4, limit: -1, overQuotaWeight: 1}}}
- apiVersion: kueue.x-k8s.io/v1beta1
  kind: ClusterQueue
  metadata: {name: c}
  spec: {resourceGroups: [{coveredResources: [cpu, amd.com/gpu, 3]}, 4]}
- apiVersion: example.com/v1
  kind: Queue
  metadata: {name: other}
  spec: {capability: {nvidia.com/gpu: 1}}
)");
  EXPECT_THAT(out.settings, testing::ElementsAre(HasSubstr("Queue v: capability[volcano.sh/vgpu-number]: no longer"),
                                                 HasSubstr("Queue v: guarantee/resource[nvidia.com/gpu]: no longer"),
                                                 HasSubstr("Queue k: resources.gpu.quota: no longer holds"),
                                                 HasSubstr("ClusterQueue c: amd.com/gpu: Kueue counts it")));
}

TEST(Migrate, Settings) {
  const Migration out = read(kCluster);
  EXPECT_EQ(out.settings.size(), 4U);
  EXPECT_THAT(out.settings, Contains(HasSubstr("nvidia.resourceMemoryName: \"example.com/gpumem\"")));
  EXPECT_THAT(out.settings, Contains(HasSubstr("nvidia.deviceMemoryScaling: 2")));
  EXPECT_THAT(out.settings, Contains(HasSubstr("nvidia.deviceSplitCount: 10")));
  EXPECT_THAT(out.settings, Contains(HasSubstr("vnpus.memoryFactor: 1024")));
}

TEST(Migrate, PrintedTwoWays) {
  const Migration out = read(kCluster);
  const auto json = nlohmann::json::parse(migration_json(out));
  EXPECT_EQ(json["nodes"].size(), out.nodes.size());
  EXPECT_EQ(json["pods"].size(), out.pods.size());
  EXPECT_THAT(migration_table(out), HasSubstr("pod a/wrong: refused\n    change: spec.containers[0]"));
  EXPECT_THAT(migration_table(out), HasSubstr("1 of them would be refused"));
}

TEST(Migrate, TheFileThatIsBrokenIsNamed) {
  const auto broken = read_migration(rules(), {{"a.yaml", "kind: ConfigMap\n"}, {"b.yaml", "a: [1"}});
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().text(), testing::StartsWith("b.yaml: line 1"));
  const auto list = read_migration(rules(), {{"a.yaml", "{kind: List, items: 7}"}});
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().text(), "a.yaml: items: must be a list");
}

TEST(Migrate, NoManifest) {
  for (const char* bad : {"[1", "[]", "kind: List\nitems: 3", "kind: Pod\nspec: 7"})
    EXPECT_FALSE(read_migration(rules(), {{"m.yaml", bad}})) << bad;
}

}  // namespace
}  // namespace heddle::cli
