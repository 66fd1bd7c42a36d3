// Queues, reservations, gangs of several parts and preemption in `heddle plan`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/plan_fixture.h"

namespace heddle::cli {
namespace {

using heddle::cli::testing::kFleet;
using heddle::cli::testing::pending;
using heddle::cli::testing::placed;
using heddle::cli::testing::plan_of;
using heddle::cli::testing::pod_yaml;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr const char* kCard = "nvidia.com/gpu: 1";

std::string queue(const std::string& name, const std::string& spec) {
  return "\n---\napiVersion: heddle.dev/v1alpha1\nkind: AcceleratorQueue\nmetadata: {name: " + name +
         "}\nspec: {namespaces: [ns], " + spec + "}\n";
}

std::string label(const std::string& queue) {
  return ", labels: {heddle.dev/queue: " + queue + "}";
}

// A pod that runs on n1 with that card since the minute.
std::string running(const std::string& name, const std::string& device, int minute, const std::string& priority = "0",
                    const std::string& meta = "") {
  const std::string uid = "u-" + name;
  return "\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: ns, uid: " + uid + meta +
         "}\nspec:\n  nodeName: n1\n  priority: " + priority +
         "\n  containers: [{name: main}]\n  resourceClaims: [{name: c, resourceClaimName: " + name +
         "}]\nstatus: {phase: Running}\n---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: " +
         name +
         ", namespace: ns}\nspec: {devices: {requests: [{name: r, exactly: {deviceClassName: heddle}}]}}\n"
         "status:\n  reservedFor: [{resource: pods, name: " +
         name + ", uid: " + uid +
         "}]\n  allocation:\n    allocationTimestamp: 2026-11-01T00:" + (minute < 10 ? "0" : "") +
         std::to_string(minute) +
         ":00Z\n    nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: "
         "[n1]}]}]}\n    devices: {results: [{request: r, driver: accelerator.heddle.dev, pool: n1/nvidia, device: " +
         device + "}]}\n";
}

std::string gang_marks(const std::string& gang, int size, const std::string& more = "") {
  return ", annotations: {heddle.dev/gang: " + gang + ", heddle.dev/gang-size: \"" + std::to_string(size) + "\"" +
         more + "}";
}

TEST(PlanQueuesTest, TheLimitHoldsAndThePositionIsSaid) {
  const Plan plan = plan_of(kFleet + queue("q", "quotas: [{limit: 1}]") + pod_yaml("a", kCard) + pod_yaml("b", kCard) +
                            pod_yaml("c", kCard));
  EXPECT_THAT(placed(plan), ElementsAre("a on n1: gpu-0"));
  EXPECT_THAT(pending(plan),
              ElementsAre(HasSubstr("b Limit: queue q: the limit is 1 devices, 1 devices in use, 1 devices asked"),
                          "b Position: number 1 in queue q",
                          HasSubstr("c Limit: queue q: the limit is 1 devices, 1 devices in use"),
                          "c Position: number 2 in queue q"));
}

TEST(PlanQueuesTest, AGuaranteeGoesFirstAndAQueueThatIsNotForThePodIsRefused) {
  const Plan plan =
      plan_of(kFleet + queue("a", "quotas: [{guaranteed: 1}]") + queue("b", "quotas: [{guaranteed: 0}]") +
              pod_yaml("b1", kCard, "  priority: 9\n", label("b")) +
              pod_yaml("b2", kCard, "  priority: 9\n", label("b")) + pod_yaml("a1", kCard, "", label("a")) +
              pod_yaml("x", kCard, "", label("nowhere")) + pod_yaml("plain", "cpu: 1", "", label("nowhere")));
  // What asks for no accelerator is not for queues to refuse.
  EXPECT_THAT(placed(plan), UnorderedElementsAre("a1 on n1: gpu-0", "b1 on n1: gpu-1", "plain on n1:"));
  ASSERT_THAT(pending(plan), ::testing::SizeIs(3));
  EXPECT_THAT(pending(plan)[0], HasSubstr("b2 Guarantee: there are 2 devices, 2 devices in use"));
  EXPECT_EQ(pending(plan)[1], "b2 Position: number 1 in queue b");
  EXPECT_THAT(pending(plan)[2], HasSubstr("x Queue: metadata.labels[heddle.dev/queue]: there is no queue nowhere"));
}

TEST(PlanQueuesTest, UnknownFieldsOfASpecAreRefusedAndThoseOfOthersAreNot) {
  const auto why = [](const std::string& objects) {
    const auto fleet = read_fleet({{"f.yaml", kFleet + objects}});
    return fleet ? std::string("good") : fleet.error().text();
  };
  const std::string others =
      "metadata: {name: q, managedFields: [{manager: kubectl}]}\nstatus: {conditions: [{odd: 1}]}\n";
  EXPECT_EQ(why("\n---\nkind: AcceleratorQueue\nspec: {weight: 2}\n" + others), "good");
  EXPECT_THAT(why("\n---\nkind: AcceleratorQueue\nspec: {quotas: [{garanteed: 1}]}\n" + others),
              HasSubstr("f.yaml: AcceleratorQueue q: spec.quotas[0].garanteed: there is no such field; did you mean "
                        "guaranteed?"));
  EXPECT_THAT(why("\n---\nkind: AcceleratorReservation\nspec: {amount: []}\n" + others),
              HasSubstr("AcceleratorReservation q: spec.amount: there is no such field; did you mean amounts?"));
  EXPECT_THAT(why("\n---\nkind: AcceleratorTopology\nspec: {levels: [{nam: a}]}\n" + others),
              HasSubstr("AcceleratorTopology q: spec.levels[0].nam: there is no such field; did you mean name?"));
}

TEST(PlanQueuesTest, WhatRunsCounts) {
  const Plan plan =
      plan_of(kFleet + queue("q", "quotas: [{limit: 1}]") + running("old", "gpu-0", 1) + pod_yaml("a", kCard));
  EXPECT_THAT(placed(plan), IsEmpty());
  EXPECT_THAT(pending(plan)[0], HasSubstr("a Limit: queue q: the limit is 1 devices, 1 devices in use"));
}

TEST(PlanQueuesTest, AGuaranteedBoxIsNotBroken) {
  const std::string boxes = "quotas: [{counts: Boxes, boxDevices: 2, guaranteed: 1}]";
  const Plan plan =
      plan_of(kFleet + queue("whole", boxes) + queue("parts", "weight: 1") + pod_yaml("a", kCard, "", label("parts")) +
              pod_yaml("b", "nvidia.com/gpu: 2", "", label("whole")));
  EXPECT_THAT(placed(plan), ElementsAre("b on n1: gpu-0 gpu-1"));
  const Plan alone =
      plan_of(kFleet + queue("whole", boxes) + queue("parts", "weight: 1") + pod_yaml("a", kCard, "", label("parts")));
  EXPECT_THAT(placed(alone), IsEmpty());
  EXPECT_THAT(pending(alone)[0], HasSubstr("a Boxes: "));
}

TEST(PlanQueuesTest, AReservationIsKeptFreeForThoseThatNameIt) {
  const std::string reservation = R"(
---
apiVersion: heddle.dev/v1alpha1
kind: AcceleratorReservation
metadata: {name: demo}
spec: {start: "2027-01-01T00:00:00Z", end: "2027-02-01T00:00:00Z", queue: q, amounts: [{amount: 1}]}
)";
  const std::string others =
      kFleet + reservation + queue("q", "weight: 1") + pod_yaml("a", kCard) + pod_yaml("b", kCard);
  const Plan kept = plan_of(others);
  EXPECT_THAT(placed(kept), ElementsAre("a on n1: gpu-0"));
  EXPECT_THAT(pending(kept)[0], HasSubstr("b Reservation: "));
  const Plan plan = plan_of(others + pod_yaml("c", kCard, "", ", labels: {heddle.dev/reservation: demo}"));
  EXPECT_THAT(placed(plan), ElementsAre("a on n1: gpu-0", "c on n1: gpu-1"));
}

TEST(PlanQueuesTest, SaysWhoWouldGiveWayToAHigherPriority) {
  const Plan plan = plan_of(kFleet + running("low", "gpu-0", 1, "0") + running("lower", "gpu-1", 2, "-5") +
                            pod_yaml("high", kCard, "  priority: 100\n") + pod_yaml("equal", kCard) +
                            pod_yaml("polite", kCard, "  priority: 50\n  preemptionPolicy: Never\n"));
  EXPECT_THAT(placed(plan), IsEmpty());
  EXPECT_THAT(pending(plan),
              ElementsAre(HasSubstr("high Capacity"), "high Evicting: would start after evicting ns/lower, on node n1",
                          HasSubstr("polite Capacity"), HasSubstr("equal Capacity")));
}

TEST(PlanQueuesTest, SaysWhatIsTakenBackOfWhatWasBorrowed) {
  const Plan plan = plan_of(kFleet + queue("a", "quotas: [{guaranteed: 1}]") + queue("b", "quotas: [{guaranteed: 1}]") +
                            running("b1", "gpu-0", 1, "9", label("b")) + running("b2", "gpu-1", 2, "9", label("b")) +
                            pod_yaml("a1", kCard, "", label("a")) + pod_yaml("b3", kCard, "", label("b")));
  ASSERT_THAT(pending(plan), ::testing::SizeIs(5));
  EXPECT_EQ(pending(plan)[1], "a1 Evicting: would start after evicting ns/b2, on node n1");
  EXPECT_EQ(pending(plan)[2], "a1 Position: number 1 in queue a");
  EXPECT_THAT(pending(plan)[3], HasSubstr("b3 Guarantee: there are 2 devices, 2 devices in use"));
}

TEST(PlanQueuesTest, APodWithoutDevicesGivesWayForItsProcessors) {
  const std::string plain =
      "\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: plain, namespace: ns}\nspec:\n  nodeName: n1\n"
      "  containers: [{name: main, resources: {requests: {cpu: 7}}}]\nstatus: {phase: Running}\n";
  const Plan plan = plan_of(kFleet + plain + pod_yaml("a", "nvidia.com/gpu: 1, cpu: 2", "  priority: 5\n"));
  EXPECT_THAT(pending(plan),
              ElementsAre(HasSubstr("a NodeFit"), "a Evicting: would start after evicting ns/plain, on node n1"));
}

TEST(PlanQueuesTest, SubgroupsHaveMinimaOfTheirOwn) {
  const auto member = [](const std::string& name, const std::string& subgroup) {
    return pod_yaml(
        name, "nvidia.com/gpu: 1, nvidia.com/gpumem: 6000", "",
        gang_marks("g", 4,
                   ", heddle.dev/gang-minimum: \"3\", heddle.dev/gang-subgroup: " + subgroup +
                       ", heddle.dev/gang-subgroup-minimum: \"" + (subgroup == "leader" ? "1" : "2") + "\""));
  };
  // Four places of 6000Mi; the leader comes last by name.
  const std::string fleet =
      kFleet + member("a0", "worker") + member("a1", "worker") + member("a2", "worker") + member("z", "leader");
  EXPECT_THAT(placed(plan_of(fleet)), ::testing::SizeIs(4));
  const Plan three = plan_of(fleet + running("other", "gpu-0", 1));
  EXPECT_THAT(placed(three), IsEmpty());  // two places: fewer than the minimum
  const Plan full = plan_of(fleet + pod_yaml("b", "nvidia.com/gpu: 1, nvidia.com/gpumem: 9000", "  priority: 1\n"));
  EXPECT_THAT(placed(full), ElementsAre(HasSubstr("b on"), HasSubstr("a0 on"), HasSubstr("a1 on"), HasSubstr("z on")));
  EXPECT_THAT(pending(full), ElementsAre("a2 Capacity: gang g has its minimum of 3; there is no room for this member"));
}

TEST(PlanQueuesTest, MembersBeyondTheMinimumAskForQuotaOneByOne) {
  std::string gang;
  for (const char* name : {"g0", "g1", "g2"})
    gang += pod_yaml(name, "nvidia.com/gpu: 1, nvidia.com/gpumem: 8000, nvidia.com/gpucores: 50", "",
                     gang_marks("g", 3, ", heddle.dev/gang-minimum: \"2\""));
  const Plan plan = plan_of(kFleet + queue("q", "quotas: [{limit: 1}]") + gang);
  EXPECT_THAT(placed(plan), ElementsAre(HasSubstr("g0 on n1"), HasSubstr("g1 on n1")));
  EXPECT_THAT(pending(plan)[0], HasSubstr("g2 Limit: queue q"));
}

TEST(PlanQueuesTest, AGangMakesRoomAndGivesWayAsAWhole) {
  std::string gang;
  for (const char* name : {"g0", "g1"}) gang += pod_yaml(name, kCard, "  priority: 7\n", gang_marks("g", 2));
  const std::string old =
      running("o0", "gpu-0", 1, "0", gang_marks("o", 2)) + running("o1", "gpu-1", 1, "0", gang_marks("o", 2));
  const Plan plan = plan_of(kFleet + old + gang);
  EXPECT_THAT(pending(plan),
              ElementsAre(HasSubstr("g0 Capacity"), "g0 Evicting: would start after evicting gang ns/o, on node n1",
                          HasSubstr("g1 Capacity"), "g1 Evicting: would start after evicting gang ns/o, on node n1"));
}

TEST(PlanQueuesTest, ALonePodWithMarksOfAGangAndASliceThatIsNotSoldAreRefused) {
  const auto said = [](const std::string& marks, const std::string& limits = kCard) {
    const auto out = pending(plan_of(kFleet + pod_yaml("a", limits, "", ", labels: {" + marks + "}")));
    return out.empty() ? "placed" : out.front();
  };
  EXPECT_THAT(said("heddle.dev/topology-required: bogus"),
              HasSubstr("a Refused: metadata.labels[heddle.dev/topology-required]: bogus says something of a gang, and "
                        "this pod is in none: write heddle.dev/gang"));
  EXPECT_THAT(said("heddle.dev/gang-size: '4'"), HasSubstr("metadata.labels[heddle.dev/gang-size]: 4 says something"));
  EXPECT_EQ(said("heddle.dev/gang-size: '1'"), "placed");
  const std::string gang = "heddle.dev/gang: g, heddle.dev/gang-size: '1', heddle.dev/topology-required: slice-";
  const std::string tpu = "google.com/tpu: 4";
  EXPECT_THAT(said(gang + "3x4x4", tpu),
              HasSubstr("a Refused: metadata.labels[heddle.dev/topology-required]: slice-3x4x4 is no shape in which "
                        "Google TPU sells slices"));
  // Sold, turned, and a multiple of cubes; where they are is another question.
  for (const char* shape : {"4x2x2", "4x4x12", "12x4x4", "2x2"}) {
    EXPECT_THAT(said(gang + shape, tpu), ::testing::Not(HasSubstr("Refused"))) << shape;
  }
  EXPECT_THAT(said(gang + "3x4x4"), ::testing::Not(HasSubstr("Refused"))) << "of no vendor that sells slices";
}

TEST(PlanQueuesTest, WhatIsNotLookedAtIsSaidByPod) {
  const std::string affinity =
      "  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}\n"
      "  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]\n";
  const Plan plan = plan_of(kFleet + pod_yaml("a", kCard, affinity) + pod_yaml("b", kCard));
  EXPECT_THAT(placed(plan), ::testing::SizeIs(2));
  EXPECT_THAT(plan.notes, ElementsAre("pod ns/a: not looked at: podAntiAffinity, PersistentVolumeClaim data (it is not "
                                      "in the input)"));
}

}  // namespace
}  // namespace heddle::cli
