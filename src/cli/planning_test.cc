#include "cli/planning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "cli/plan_fixture.h"

namespace heddle::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

using heddle::cli::testing::kFleet;
using heddle::cli::testing::pending;
using heddle::cli::testing::placed;
using heddle::cli::testing::plan_of;
using heddle::cli::testing::pod_yaml;
using heddle::cli::testing::what_would_help;

TEST(PlanTest, SaysWhoseEndOrHowManyNodesWouldHelp) {
  const std::string two = pod_yaml("wide", "nvidia.com/gpu: 2") + pod_yaml("late", "nvidia.com/gpu: 1");
  EXPECT_THAT(what_would_help(plan_of(kFleet + two)), ElementsAre("wide: an empty node like n1 would take it",
                                                                  "wide: would fit when ns/late (gpu-0 on n1) ends"));
  const std::string member = R"(, annotations: {heddle.dev/gang: g, heddle.dev/gang-size: "2"})";
  std::string gang = pod_yaml("a-first", "nvidia.com/gpu: 1, nvidia.com/gpumem: 4000");
  for (const char* name : {"g0", "g1"}) gang += pod_yaml(name, "nvidia.com/gpu: 1", "", member);
  EXPECT_THAT(
      what_would_help(plan_of(kFleet + gang)),
      ElementsAre("g0: an empty node like n1 would take it", "g0: would fit when ns/a-first (gpu-0 on n1) ends",
                  "g1: an empty node like n1 would take it", "g1: would fit when ns/a-first (gpu-0 on n1) ends"));
}

// The cards are free; cpu is what is short. The DaemonSet's pod would be there again at once.
TEST(PlanTest, WhatHasOnlyCpuIsNamedWhereCpuIsShort) {
  const auto running = [](const std::string& name, int cpu, const std::string& meta) {
    return "\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: web" + meta +
           "}\nspec:\n  nodeName: n1\n  containers: [{name: main, resources: {limits: {cpu: \"" + std::to_string(cpu) +
           "\"}}}]\nstatus: {phase: Running}";
  };
  const std::string fleet =
      kFleet + running("db-0", 4, "") +
      running("logs", 3, ", ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: logs, uid: u}]") +
      pod_yaml("a", "nvidia.com/gpu: 1, cpu: 5");
  EXPECT_THAT(pending(plan_of(fleet)),
              ElementsAre(HasSubstr("a NodeFit: n1 has the devices free, but is short of cpu")));
  EXPECT_THAT(what_would_help(plan_of(fleet)),
              ElementsAre("a: an empty node like n1 would take it", "a: would fit when web/db-0 (on n1) ends"));
}

TEST(PlanTest, TranslatesPlacesAndExplains) {
  const Plan plan = plan_of(std::string(kFleet) + pod_yaml("a", "nvidia.com/gpu: 1") +
                            pod_yaml("b", "nvidia.com/gpu: 1, nvidia.com/gpumem: 4000, nvidia.com/gpucores: 30") +
                            pod_yaml("c", "nvidia.com/gpu: 1"));
  EXPECT_THAT(placed(plan), ElementsAre("a on n1: gpu-0", "b on n1: gpu-1"));
  EXPECT_THAT(pending(plan), ElementsAre(HasSubstr("c Capacity: no whole card free")));
  const Json json = Json::parse(plan_json(plan));
  EXPECT_EQ(json["placed"][1]["namespace"], "ns");
  EXPECT_EQ(json["placed"][1]["pod"], "b");
  EXPECT_EQ(json["placed"][1]["node"], "n1");
  const Json claim = json["placed"][1]["claims"][0];
  EXPECT_EQ(claim["kind"], "ResourceClaim");
  EXPECT_EQ(claim["status"]["allocation"]["devices"]["results"][0]["consumedCapacity"]["memory"], "4000Mi");
  EXPECT_EQ(json["pending"][0]["reasons"][0]["code"], "Capacity");
  EXPECT_THAT(plan_table(plan, 0), HasSubstr("2 placed, 1 pending"));
}

TEST(PlanTest, PriorityThenAgeThenName) {
  const Plan plan =
      plan_of(std::string(kFleet) + pod_yaml("c", "nvidia.com/gpu: 1") + pod_yaml("b", "nvidia.com/gpu: 1") +
              pod_yaml("young", "nvidia.com/gpu: 1", "", ", creationTimestamp: '2026-01-02T00:00:00Z'") +
              pod_yaml("high", "nvidia.com/gpu: 1", "  priority: 5\n", ", creationTimestamp: '2026-01-03T00:00:00Z'"));
  EXPECT_THAT(placed(plan), ElementsAre("high on n1: gpu-0", "b on n1: gpu-1"));
  ASSERT_EQ(plan.pending.size(), 2U);
  EXPECT_EQ(plan.pending[0].name, "c");
  EXPECT_EQ(plan.pending[1].name, "young");
}

// One card with 12800Mi free and one with 8000Mi. Where pods of 8000Mi wait, 4800Mi leaves room for one on the first
// card; where pods of 12800Mi wait, that card is kept for one of them.
TEST(PlanTest, TheMixIsThatOfThePodsThatAreThere) {
  const auto share = [](const std::string& name, int memory) {
    return pod_yaml(name, "nvidia.com/gpu: 1, nvidia.com/gpumem: " + std::to_string(memory));
  };
  const auto held = [](const std::string& name, const std::string& device, int memory) {
    return "\n---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: " + name +
           ", namespace: ns}\nspec: {devices: {requests: [{name: r, exactly: {deviceClassName: heddle}}]}}\n"
           "status: {allocation: {devices: {results: [{request: r, driver: accelerator.heddle.dev, pool: n1/nvidia, "
           "device: " +
           device + ", shareID: 5c1b0c0e-0000-4000-8000-00000000000" + device.back() +
           ", consumedCapacity: {memory: " + std::to_string(memory) + "Mi, cores: '0'}}]}}}\n";
  };
  const std::string fleet =
      std::string(kFleet) + held("h1", "gpu-0", 3200) + held("h2", "gpu-1", 8000) + share("a", 4800);
  for (const auto& [memory, card] : {std::pair(8000, "gpu-0"), std::pair(12800, "gpu-1")}) {
    std::string text = fleet;
    for (int i = 0; i < 20; ++i) text += share("later-" + std::to_string(i), i % 2 == 0 ? 4800 : memory);
    EXPECT_EQ(placed(plan_of(text)).front(), std::string("a on n1: ") + card) << memory;
  }
}

// Best fit takes the card of which a share is held, least-loaded the other one.
TEST(PlanTest, ThePolicyIsThatOfThePodElseOfItsQueue) {
  const auto pods = [](const std::string& marks) {
    return std::string(kFleet) + pod_yaml("a", "nvidia.com/gpumem: 4000", "  priority: 1\n") +
           pod_yaml("b", "nvidia.com/gpumem: 1000", "", marks);
  };
  const std::string queues = R"(
---
apiVersion: heddle.dev/v1alpha1
kind: AcceleratorQueue
metadata: {name: top}
spec: {placementPolicy: best-fit}
---
apiVersion: heddle.dev/v1alpha1
kind: AcceleratorQueue
metadata: {name: q}
spec: {parent: top, namespaceSelector: {matchLabels: {team: x}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: ns, labels: {team: x}}
)";
  const auto place_of_b = [](const std::string& text) { return placed(plan_of(text)).back(); };
  EXPECT_EQ(place_of_b(pods(", labels: {heddle.dev/placement-policy: best-fit}")), "b on n1: gpu-0");
  EXPECT_EQ(place_of_b(pods(", labels: {heddle.dev/placement-policy: least-loaded}")), "b on n1: gpu-1");
  EXPECT_EQ(place_of_b(pods("")), "b on n1: gpu-1") << "packing keeps three times the share of a";
  EXPECT_EQ(place_of_b(pods("") + queues), "b on n1: gpu-0");
  EXPECT_EQ(place_of_b(pods(", annotations: {heddle.dev/placement-policy: least-loaded}") + queues), "b on n1: gpu-1");
  const Plan refused = plan_of(pods(", labels: {heddle.dev/placement-policy: binpack}"));
  EXPECT_THAT(pending(refused), ElementsAre("b Refused: metadata.labels[heddle.dev/placement-policy]: is \"binpack\": "
                                            "write packing, best-fit, spread or least-loaded, or leave it out"));
}

TEST(PlanTest, AGangIsPlacedAsOneOrNotAtAll) {
  const auto member = [](const std::string& name, const std::string& size) {
    return pod_yaml(name, "nvidia.com/gpu: 1", "",
                    ", labels: {heddle.dev/gang: g, heddle.dev/gang-size: '" + size + "'}");
  };
  Plan plan = plan_of(std::string(kFleet) + member("a", "2") + member("b", "2"));
  EXPECT_THAT(placed(plan), ElementsAre("a on n1: gpu-0", "b on n1: gpu-1"));
  plan = plan_of(std::string(kFleet) + member("a", "3") + member("b", "3") + pod_yaml("small", "nvidia.com/gpu: 1"));
  EXPECT_THAT(placed(plan), ElementsAre("small on n1: gpu-0"));
  EXPECT_THAT(pending(plan), ElementsAre("a GangIncomplete: waits for members of gang g: 2 of 3 are there",
                                         "b GangIncomplete: waits for members of gang g: 2 of 3 are there"));
  plan = plan_of(std::string(kFleet) + member("a", "3") + member("b", "3") + member("c", "3"));
  EXPECT_TRUE(plan.placed.empty());
  EXPECT_THAT(pending(plan),
              ::testing::Each(HasSubstr("Gang: gang g needs 3 members at once; the fleet has room for 2 even when")));
}

TEST(PlanTest, ASegmentLiesInOneDomain) {
  const auto member = [](const std::string& name, const std::string& size) {
    return pod_yaml(name, "nvidia.com/gpu: 1", "",
                    ", labels: {heddle.dev/gang: g, heddle.dev/gang-size: '2', heddle.dev/gang-segment-size: '" + size +
                        "', heddle.dev/gang-segment-topology: node}, creationTimestamp: '2026-01-02T00:00:00Z'");
  };
  Plan plan = plan_of(std::string(kFleet) + member("a", "2") + member("b", "2"));
  EXPECT_THAT(placed(plan), ElementsAre("a on n1: gpu-0", "b on n1: gpu-1"));
  const std::string other = std::regex_replace(std::string(kFleet), std::regex("n1"), "n2");
  const std::string busy = pod_yaml("c1", "nvidia.com/gpu: 1", "  nodeSelector: {kubernetes.io/hostname: n1}\n",
                                    ", creationTimestamp: '2026-01-01T00:00:00Z'") +
                           pod_yaml("c2", "nvidia.com/gpu: 1", "  nodeSelector: {kubernetes.io/hostname: n2}\n",
                                    ", creationTimestamp: '2026-01-01T00:00:00Z'");
  plan = plan_of(kFleet + ("\n---\n" + other) + busy + member("a", "2") + member("b", "2"));
  EXPECT_THAT(pending(plan),
              ::testing::Each(HasSubstr("has room for 0 of its 1 segments: of the next one node n1 takes 1 of 2")));
}

TEST(PlanTest, TheSizeOfAGangComesFromItsObject) {
  const auto member = [](const std::string& name) {
    return pod_yaml(name, "nvidia.com/gpu: 1", "", ", labels: {jobset.sigs.k8s.io/jobset-name: j}");
  };
  const std::string fleet = std::string(kFleet) + member("a") + member("b");
  EXPECT_THAT(pending(plan_of(fleet)), ::testing::Each(HasSubstr("GangSize: the size of gang j is not known")));
  const Plan plan = plan_of(fleet + R"(
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: j, namespace: ns}
spec: {replicatedJobs: [{name: w, replicas: 2, template: {spec: {parallelism: 1}}}]}
)");
  EXPECT_THAT(placed(plan), ElementsAre("a on n1: gpu-0", "b on n1: gpu-1"));
  EXPECT_TRUE(plan.notes.empty());
}

TEST(PlanTest, TheLevelsAreThoseOfTheOldestTopology) {
  const auto member = [](const std::string& name) {
    return pod_yaml(name, "nvidia.com/gpu: 1", "",
                    ", labels: {heddle.dev/gang: g, heddle.dev/gang-size: '2', heddle.dev/topology-required: hall}");
  };
  const auto topology = [](const std::string& name, const std::string& created, const std::string& level) {
    return "\n---\napiVersion: heddle.dev/v1alpha1\nkind: AcceleratorTopology\nmetadata: {name: " + name +
           ", creationTimestamp: '" + created + "'}\nspec: {levels: [" + level + "]}\n";
  };
  const std::string pods = std::string(kFleet) + member("a") + member("b");
  EXPECT_THAT(pending(plan_of(pods)), ::testing::Each(HasSubstr("no topology level is called hall")));
  const std::string hall = topology("new", "2026-01-02T00:00:00Z", "{name: hall, nodeLabel: zone}");
  EXPECT_THAT(placed(plan_of(pods + hall)), ElementsAre("a on n1: gpu-0", "b on n1: gpu-1"));
  const Plan plan = plan_of(pods + hall + topology("old", "2026-01-01T00:00:00Z", "{name: row, nodeLabel: row}"));
  EXPECT_THAT(pending(plan),
              ::testing::Each(HasSubstr("no topology level is called hall; write one of node, row, or")));
  EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("topology new: old is in force")));
  auto bad = read_fleet({{"f", topology("x", "2026-01-01T00:00:00Z", "{name: row}")}});
  ASSERT_FALSE(bad.has_value());
  EXPECT_THAT(bad.error().text(), HasSubstr("AcceleratorTopology x: spec.levels[0]"));
}

// Hosts of 2x2x1 TPU chips in a torus of 4x4x2.
std::string tpu_fleet() {
  const std::string host = R"(
---
apiVersion: v1
kind: Node
metadata:
  name: tAT
  labels: {heddle.dev/torus: pod, heddle.dev/torus-shape: 4x4x2, heddle.dev/torus-host: 2x2x1,
           heddle.dev/torus-position: AT, cloud.google.com/gke-tpu-accelerator: tpu-v5p-slice}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "10"}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: tAT-heddle-google-0}
spec:
  driver: accelerator.heddle.dev
  nodeName: tAT
  pool: {name: tAT/google, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: tpu-0, attributes: {vendor: {string: google}, uuid: {string: AT-0}}}
  - {name: tpu-1, attributes: {vendor: {string: google}, uuid: {string: AT-1}}}
  - {name: tpu-2, attributes: {vendor: {string: google}, uuid: {string: AT-2}}}
  - {name: tpu-3, attributes: {vendor: {string: google}, uuid: {string: AT-3}}}
)";
  std::string fleet;
  for (const char* at : {"0-0-0", "0-0-1", "0-1-0", "0-1-1", "1-0-0", "1-0-1", "1-1-0", "1-1-1"}) {
    std::string one = host;
    for (size_t found = one.find("AT"); found != std::string::npos; found = one.find("AT")) one.replace(found, 2, at);
    fleet += one;
  }
  return fleet;
}

TEST(PlanTest, ATpuSliceIsACuboidOfHosts) {
  const auto member = [](const std::string& name, const std::string& slice, const std::string& size) {
    return pod_yaml(name, "google.com/tpu: 4",
                    "  nodeSelector: {cloud.google.com/gke-tpu-accelerator: tpu-v5p-slice}\n",
                    ", labels: {heddle.dev/gang: " + name.substr(0, 1) + ", heddle.dev/gang-size: '" + size +
                        "', heddle.dev/topology-required: slice-" + slice + "}");
  };
  const auto nodes = [](const Plan& plan) {
    std::vector<std::string> out;
    out.reserve(plan.placed.size());
    for (const PlacedPod& pod : plan.placed) out.push_back(pod.name + " on " + pod.node);
    return out;
  };
  const std::string first =
      member("a0", "4x4x1", "4") + member("a1", "4x4x1", "4") + member("a2", "4x4x1", "4") + member("a3", "4x4x1", "4");
  Plan plan = plan_of(tpu_fleet() + first + member("b0", "4x2x1", "2") + member("b1", "4x2x1", "2") +
                      member("c0", "2x2x2", "2") + member("c1", "2x2x2", "2"));
  EXPECT_THAT(nodes(plan), ElementsAre("a0 on t0-0-0", "a1 on t0-1-0", "a2 on t1-0-0", "a3 on t1-1-0", "b0 on t0-0-1",
                                       "b1 on t1-0-1"));
  EXPECT_THAT(pending(plan), ::testing::Each(HasSubstr(
                                 "Capacity: gang c needs a free cuboid of 2x2x2 chips (2 hosts): the largest free "
                                 "one is 4x2x1, in torus pod, where 2 of 8 hosts are free")));
  EXPECT_EQ(plan.pending.size(), 2U);
  plan = plan_of(tpu_fleet() + first + member("b0", "2x2x2", "3") + member("b1", "2x2x2", "3") +
                 member("b2", "2x2x2", "3"));
  EXPECT_THAT(pending(plan), ::testing::Each(HasSubstr("Slice: 2x2x2 has 2 hosts and the gang 3 members")));
}

// Two slices of 2x2x2 are two node pools of two hosts each, as GKE makes them.
TEST(PlanTest, AJobOnTpuHostsHasANodePoolToItself) {
  std::string fleet = tpu_fleet();
  for (const auto& [at, pool] : std::map<std::string, std::string>{
           {"0-0-0", "a"}, {"0-0-1", "b"}, {"0-1-0", "a"}, {"0-1-1", "b"}, {"1-0-0", "c"}}) {
    const std::string position = "heddle.dev/torus-position: " + at + ",";
    fleet.insert(fleet.find(position),
                 "cloud.google.com/gke-nodepool: " + pool + ", cloud.google.com/gke-tpu-topology: 2x2x2, ");
  }
  const auto host = [](const std::string& name, const std::string& meta) {
    return pod_yaml(name, "google.com/tpu: 4", "  nodeSelector: {cloud.google.com/gke-tpu-topology: 2x2x2}\n", meta);
  };
  const auto job = [&](const std::string& name) {
    std::string pods;
    for (const char* index : {"0", "1"}) {
      pods += host(name + index, ", labels: {batch.kubernetes.io/job-name: " + name +
                                     "}, annotations: {batch.kubernetes.io/job-completion-index: '" + index + "'}");
    }
    return pods;
  };
  const Plan plan = plan_of(fleet + host("a", ", labels: {heddle.dev/gang-size: '1'}") + job("j") + job("k"));
  std::vector<std::string> placed;
  for (const PlacedPod& pod : plan.placed) placed.push_back(pod.name + " on " + pod.node);
  EXPECT_THAT(placed, ElementsAre("a on t0-0-0", "j0 on t0-0-1", "j1 on t0-1-1"));
  EXPECT_THAT(pending(plan),
              ElementsAre(HasSubstr("in segments of 2 that lie in one cloud.google.com/gke-nodepool"), HasSubstr("k")));
}

TEST(PlanTest, WhatRunsIsTaken) {
  const std::string running = R"(
---
apiVersion: v1
kind: Pod
metadata: {name: r, namespace: ns, uid: r}
spec: {nodeName: n1, containers: [{name: m, resources: {requests: {cpu: "6"}}}]}
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: over, namespace: ns, uid: o}
spec: {nodeName: n1, containers: [{name: m, resources: {requests: {cpu: "8"}}}]}
status: {phase: Succeeded}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: held, namespace: ns, uid: h}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: heddle-nvidia}}]}}
status:
  allocation: {devices: {results: [{request: gpu, driver: accelerator.heddle.dev, pool: n1/nvidia, device: gpu-0}]}}
)";
  const Plan plan =
      plan_of(std::string(kFleet) + running + pod_yaml("a", "nvidia.com/gpu: 1, cpu: 2") + pod_yaml("b", "cpu: 1m"));
  EXPECT_THAT(placed(plan), ElementsAre("a on n1: gpu-1"));
  EXPECT_THAT(pending(plan), ElementsAre(HasSubstr("b NodeFit: n1 has the devices free, but is short of cpu")));
}

TEST(PlanTest, ClaimsTemplatesAndForeignDrivers) {
  const std::string objects = R"(
---
apiVersion: v1
kind: List
items:
- apiVersion: resource.k8s.io/v1
  kind: DeviceClass
  metadata: {name: nic}
  spec: {selectors: [{cel: {expression: 'device.driver == "nic.example.com"'}}], extendedResourceName: example.com/nic}
- apiVersion: resource.k8s.io/v1
  kind: ResourceSlice
  metadata: {name: nics}
  spec:
    driver: nic.example.com
    nodeName: n1
    pool: {name: n1, generation: 1, resourceSliceCount: 1}
    devices: [{name: nic-0}, {name: nic-1}, {name: nic-2}]
- apiVersion: resource.k8s.io/v1
  kind: ResourceClaimTemplate
  metadata: {name: one, namespace: ns}
  spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: nic}}]}}}
- apiVersion: resource.k8s.io/v1
  kind: ResourceClaim
  metadata: {name: shared, namespace: ns}
  spec: {devices: {requests: [{name: r, exactly: {deviceClassName: nic}}]}}
)";
  const Plan plan = plan_of(
      std::string(kFleet) + objects +
      pod_yaml(
          "a", "",
          "  resourceClaims: [{name: x, resourceClaimTemplateName: one}, {name: y, resourceClaimName: shared}]\n") +
      pod_yaml("b", "", "  resourceClaims: [{name: y, resourceClaimName: shared}]\n") +
      pod_yaml("c", "example.com/nic: 1") +
      pod_yaml("d", "", "  resourceClaims: [{name: x, resourceClaimTemplateName: one}]\n") +
      pod_yaml("e", "", "  resourceClaims: [{name: x, resourceClaimTemplateName: two}]\n"));
  EXPECT_THAT(placed(plan), ElementsAre("a on n1: nic-0 nic-1", "b on n1: nic-1", "c on n1: nic-2"));
  EXPECT_EQ(plan.placed[0].claims[0].meta.name, "a-x");
  EXPECT_EQ(plan.placed[1].claims[0].reserved_for.size(), 2U);
  EXPECT_THAT(pending(plan), ElementsAre(HasSubstr("d Capacity"),
                                         HasSubstr("e ClaimMissing: ResourceClaimTemplate two is not there")));
}

TEST(PlanTest, ARuleTaintsADevice) {
  const std::string rule = R"(
---
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: repair}
spec: {deviceSelector: {pool: n1/nvidia, device: gpu-0}, taint: {key: example.com/repair, effect: NoSchedule}}
)";
  const Plan plan = plan_of(kFleet + rule + pod_yaml("a", "nvidia.com/gpu: 1") + pod_yaml("b", "nvidia.com/gpu: 1"));
  EXPECT_THAT(placed(plan), ElementsAre("a on n1: gpu-1"));
  EXPECT_THAT(pending(plan), ElementsAre(HasSubstr("b ")));
}

TEST(PlanTest, RefusalsGatesQuotasAndVolumes) {
  const std::string objects = R"(
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: q, namespace: ns}
spec: {hard: {requests.nvidia.com/gpu: "1"}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: ns}
spec: {volumeName: pv}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv}
spec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [b]}]}]}}}
)";
  const Plan plan =
      plan_of(std::string(kFleet) + objects +
              pod_yaml("a", "nvidia.com/gpu: 1, nvidia.com/gpumem: 10, nvidia.com/gpumem-percentage: 10") +
              pod_yaml("b", "cpu: 1", "  schedulingGates: [{name: example.com/wait}]\n") +
              pod_yaml("c", "nvidia.com/gpu: 1", "  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]\n") +
              pod_yaml("d", "nvidia.com/gpu: 1") + pod_yaml("e", "nvidia.com/gpu: 1"));
  EXPECT_THAT(placed(plan), ElementsAre("d on n1: gpu-0"));
  EXPECT_THAT(pending(plan),
              ElementsAre(HasSubstr("a Refused: spec.containers[0].resources"), HasSubstr("b Gated"),
                          "c NodeFit: volume pv of claim data cannot be reached from n1",
                          HasSubstr("e Quota: quota ns/q: requests.nvidia.com/gpu is 1, 1 in use, 1 more asked")));
}

TEST(PlanTest, ReadsWhatKubectlPrints) {
  const auto fleet = read_fleet(
      {{"a",
        R"({"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"p"},"spec":{"priorityClassName":"x"}}]})"},
       {"b",
        R"({"kind":"List","items":[{"kind":"PriorityClass","metadata":{"name":"x"},"value":7},{"kind":"Secret"}]})"},
       {"c", ""}});
  ASSERT_TRUE(fleet.has_value()) << fleet.error().text();
  EXPECT_EQ(fleet->pods.at("default/p").pod.priority, 7);
  EXPECT_EQ(fleet->ignored.at("Secret"), 1);
}

TEST(PlanTest, BadInputNamesFileObjectAndField) {
  struct Case {
    const char* text;
    const char* expected;
  };
  const Case cases[] = {
      {"[1]", "fleet: the document: is not a Kubernetes object"},
      {"a: 1", "fleet: document 1: has no kind"},
      {"kind: List\nitems: [{kind: Node}, 3]", "fleet: Node (unnamed): metadata.name: must be set"},
      {"kind: List\nitems: [3]", "fleet: document 1: List: items[0]: is not a Kubernetes object"},
      {"kind: PodList\nitems: 3", "fleet: document 1: PodList: items: must be a list"},
      {"kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a, resources: {limits: {cpu: x}}}]}",
       "fleet: Pod default/p: spec.containers[0].resources.limits[cpu]"},
      {"kind: Pod\nmetadata: {name: p}\nspec: 3", "fleet: Pod p: spec: must be an object"},
      {"kind: ResourceSlice\nmetadata: {name: s}\nspec: {driver: d}",
       "fleet: ResourceSlice s: spec.pool.name: must be set"},
      {"apiVersion: resource.k8s.io/v1beta1\nkind: ResourceSlice\nmetadata: {name: s}",
       "fleet: ResourceSlice s: apiVersion: resource.k8s.io/v1beta1 is not read"},
      {"kind: ResourceClaimTemplate\nmetadata: {name: t}\nspec: {spec: {devices: 3}}",
       "fleet: ResourceClaimTemplate default/t: spec.spec.devices"},
      {"kind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {nvidia.com/gpu: x}}",
       "fleet: ResourceQuota default/q: spec.hard[nvidia.com/gpu]"},
      {"a: [", "fleet: line"},
      {"", "fleet: there is no object in it"},
      {"---\n# nothing\n", "fleet: there is no object in it"},
  };
  for (const Case& test : cases) {
    const auto fleet = read_fleet({{"fleet", test.text}});
    ASSERT_FALSE(fleet.has_value()) << test.text;
    EXPECT_THAT(fleet.error().text(), HasSubstr(test.expected)) << test.text;
  }
}

}  // namespace
}  // namespace heddle::cli
