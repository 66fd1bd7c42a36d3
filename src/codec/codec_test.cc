#include "codec/codec.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace heddle::codec {
namespace {

using nlohmann::json;

constexpr std::string_view kSlice = R"({"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice",
 "metadata":{"name":"node-1-heddle-nvidia-0","resourceVersion":"7","uid":"u","creationTimestamp":"2026-01-02T03:04:05Z",
   "ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"node-1","uid":"n","controller":true}]},
 "spec":{"driver":"accelerator.heddle.dev","pool":{"name":"node-1/nvidia","generation":3,"resourceSliceCount":2},
  "nodeName":"node-1","devices":[
   {"name":"gpu-0","attributes":{"bools":{"bools":[true,false]},"index":{"int":9223372036854775807},"ints":{"ints":[1,2]},
     "model":{"string":"H100 \"SXM\""},"resource.kubernetes.io/numaNode":{"int":0},"soft":{"bool":false},
     "strings":{"strings":["a","b"]},"v":{"version":"1.2.3"},"versions":{"versions":["1.0.0"]}},
    "capacity":{"cores":{"value":"100","requestPolicy":{"default":"100","validRange":{"min":"0","max":"100","step":"1"}}},
      "memory":{"value":"80Gi","requestPolicy":{"default":"80Gi","validValues":["1Gi","80Gi"]}}},
    "consumesCounters":[{"counterSet":"set","counters":{"slices":{"value":"7"}},"compatibilityGroups":["g"]}],
    "taints":[{"key":"heddle.dev/managed","effect":"NoSchedule","timeAdded":"2026-01-02T03:04:05Z"}],
    "bindsToNode":true,"bindingConditions":["c"],"bindingFailureConditions":["f"],"allowMultipleAllocations":true}],
  "sharedCounters":[{"name":"set","counters":{"slices":{"value":"8"}}}]}})";

constexpr std::string_view kClaim = R"({"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim",
 "metadata":{"name":"c","namespace":"default","uid":"1","labels":{"heddle.dev/managed":"true"},"annotations":{"a":"b"},
   "finalizers":["resource.kubernetes.io/delete-protection"]},
 "spec":{"devices":{"requests":[
   {"name":"gpu","exactly":{"deviceClassName":"heddle-nvidia","selectors":[{"cel":{"expression":"device.driver == \"x\""}}],
     "allocationMode":"ExactCount","count":2,"adminAccess":true,
     "tolerations":[{"key":"k","operator":"Equal","value":"v","effect":"NoExecute","tolerationSeconds":30}],
     "capacity":{"requests":{"cores":"30","memory":"3000Mi"}}}},
   {"name":"either","firstAvailable":[{"name":"big","deviceClassName":"a","allocationMode":"All"},
     {"name":"small","deviceClassName":"b"}]}],
   "constraints":[{"requests":["gpu"],"matchAttribute":"d/x"},{"distinctAttribute":"d/y"}],
   "config":[{"requests":["gpu"],"opaque":{"driver":"accelerator.heddle.dev",
     "parameters":{"apiVersion":"heddle.dev/v1alpha1","kind":"ShareConfig","memoryPercent":50}}}]}},
 "status":{"allocation":{"devices":{"results":[{"request":"gpu","driver":"d","pool":"p","device":"gpu-0","adminAccess":true,
     "tolerations":[{"operator":"Exists"}],"bindingConditions":["c"],"bindingFailureConditions":["f"],"shareID":"s",
     "consumedCapacity":{"cores":"30","memory":"3000Mi"}}],
    "config":[{"source":"FromClass","requests":["gpu"],"opaque":{"driver":"d","parameters":{}}}]},
   "nodeSelector":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["node-1"]}]}]},
   "allocationTimestamp":"2026-01-02T03:04:05Z"},
  "reservedFor":[{"resource":"pods","name":"p","uid":"pu"}]}})";

TEST(CodecTest, ASliceSurvivesBothWays) {
  const auto slice = parse_slice(kSlice);
  ASSERT_TRUE(slice.has_value()) << slice.error().text();
  EXPECT_EQ(json::parse(slice_json(*slice)), json::parse(kSlice));
  EXPECT_EQ(slice->scope.node, "node-1");
  EXPECT_EQ(std::get<int64_t>(slice->devices.at(0).attributes.at("index")), std::numeric_limits<int64_t>::max());
  const auto device = parse_device(device_json(slice->devices[0]));
  ASSERT_TRUE(device.has_value());
  EXPECT_EQ(*device, slice->devices[0]);
}

TEST(CodecTest, ATaintRuleIsReadWithWhatItNames) {
  const auto rule = parse_taint_rule(
      R"({"metadata":{"name":"r"},"spec":{"deviceSelector":{"driver":"d","device":"gpu-0"},"taint":{"key":"k",)"
      R"("value":"v","effect":"NoExecute","timeAdded":"2026-01-02T03:04:05Z"}}})");
  ASSERT_TRUE(rule.has_value()) << rule.error().text();
  EXPECT_EQ(rule->meta.name, "r");
  EXPECT_TRUE(rule->has_selector);
  EXPECT_EQ(rule->driver, "d");
  EXPECT_EQ(rule->pool, std::nullopt);
  EXPECT_EQ(rule->device, "gpu-0");
  EXPECT_EQ(rule->taint.key, "k");
  EXPECT_EQ(rule->taint.value, "v");
  EXPECT_EQ(rule->taint.effect, "NoExecute");
  EXPECT_TRUE(parse_taint_rule(R"({"spec":{"deviceSelector":{},"taint":{"key":"k","effect":"None"}}})")->has_selector);
  EXPECT_FALSE(parse_taint_rule(R"({"spec":{"taint":{"key":"k","effect":"None"}}})")->has_selector);
}

TEST(CodecTest, AClaimSurvivesBothWays) {
  const auto claim = parse_claim(kClaim);
  ASSERT_TRUE(claim.has_value()) << claim.error().text();
  EXPECT_EQ(json::parse(claim_json(*claim)), json::parse(kClaim));
  EXPECT_EQ(json::parse(claim_status_json(*claim)), json::parse(kClaim)["status"]);
  EXPECT_EQ(parse_claim_spec(claim_spec_json(claim->spec)).value(), claim->spec);
  EXPECT_EQ(parse_allocation(allocation_json(*claim->allocation)).value(), *claim->allocation);
  EXPECT_EQ(model::allocated_node(*claim->allocation), "node-1");
}

TEST(CodecTest, EmptyFieldsAreLeftOut) {
  EXPECT_EQ(claim_spec_json({}), R"({"devices":{}})");
  EXPECT_EQ(claim_status_json({}), "{}");
  model::ResourceClaim claim;
  claim.meta.name = "c";
  EXPECT_EQ(claim_json(claim), R"({"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"c"},)"
                               R"("spec":{"devices":{}}})");
}

TEST(CodecTest, APodIsReadWithInitContainersFirst) {
  const auto pod =
      parse_pod(R"({"kind":"Pod","metadata":{"name":"p","namespace":"ns","deletionTimestamp":"2026-01-02T03:04:05Z"},
   "spec":{"nodeName":"n","schedulerName":"s","priority":-5,"priorityClassName":"low","preemptionPolicy":"Never","activeDeadlineSeconds":60,"schedulingGates":[{"name":"heddle.dev/placement"}],
    "nodeSelector":{"a":"b"},"overhead":{"cpu":"1"},"resources":{"requests":{"cpu":2}},
    "affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
      {"matchExpressions":[{"key":"k","operator":"Gt","values":["3"]}]}]}}},
    "containers":[{"name":"main","resources":{"requests":{"cpu":"500m"},"limits":{"memory":1.5},"claims":[{"name":"r"}]}}],
    "initContainers":[{"name":"one"},{"name":"side","restartPolicy":"Always"}],
    "resourceClaims":[{"name":"r","resourceClaimTemplateName":"t"},{"name":"q","resourceClaimName":"own"}],
    "tolerations":[{"operator":"Exists"}],"volumes":[{"name":"ignored"}]},
   "status":{"phase":"Pending","nominatedNodeName":"n2","conditions":[{"type":"T","status":"False","reason":"R","message":"M"}],
    "resourceClaimStatuses":[{"name":"r","resourceClaimName":"p-r-x"}]}})");
  ASSERT_TRUE(pod.has_value()) << pod.error().text();
  EXPECT_EQ(pod->meta.key(), "ns/p");
  EXPECT_TRUE(pod->meta.deleting);
  EXPECT_EQ(pod->priority, -5);
  EXPECT_EQ(pod->priority_class, "low");
  EXPECT_TRUE(pod->never_preempts);
  EXPECT_FALSE(parse_pod(R"({"spec":{"preemptionPolicy":"PreemptLowerPriority"}})")->never_preempts);
  EXPECT_TRUE(pod->terminating);
  ASSERT_EQ(pod->containers.size(), 3U);
  EXPECT_TRUE(pod->containers[0].init && !pod->containers[0].sidecar);
  EXPECT_TRUE(pod->containers[1].init && pod->containers[1].sidecar);
  EXPECT_FALSE(pod->containers[2].init);
  EXPECT_EQ(pod->containers[2].limits.at("memory").to_string(), "1500m");
  EXPECT_EQ(pod->containers[2].claims, std::vector<std::string>{"r"});
  EXPECT_EQ(pod->pod_level_requests.at("cpu").to_string(), "2");
  EXPECT_EQ(pod->resource_claims.at(0).actual_name, "p-r-x");
  EXPECT_EQ(pod->resource_claims.at(1).claim_name, "own");
  EXPECT_EQ(pod->required_node_affinity->terms.at(0).match_expressions.at(0).op, model::Requirement::Operator::kGt);
  EXPECT_EQ(pod->conditions.at(0).reason, "R");
  EXPECT_EQ(pod->nominated_node_name, "n2");
}

TEST(CodecTest, ANodeIsRead) {
  const auto node = parse_node(R"({"metadata":{"name":"n","labels":{"a":"b"}},"spec":{"unschedulable":true,
    "taints":[{"key":"k","effect":"NoSchedule"}]},"status":{"allocatable":{"cpu":"8","memory":"32Gi"},
    "conditions":[{"type":"DiskPressure","status":"False"},{"type":"Ready","status":"True"}]}})");
  ASSERT_TRUE(node.has_value()) << node.error().text();
  EXPECT_TRUE(node->unschedulable);
  EXPECT_EQ(node->ready, model::Node::Ready::kTrue);
  EXPECT_EQ(node->taints.at(0).key, "k");
  EXPECT_EQ(node->allocatable.at("memory").value(), int64_t{32} << 30);
}

TEST(CodecTest, TroubleNamesTheField) {
  struct Case {
    Result<void> result;
    const char* field;
  };
  const auto drop = [](const auto& result) {
    return result ? Result<void>() : Result<void>(tl::unexpected<Error>(result.error()));
  };
  const Case cases[] = {
      {drop(parse_pod("[]")), ""},
      {drop(parse_pod("{\"spec\":")), ""},
      {drop(parse_pod(R"({"spec":{"containers":{}}})")), "spec.containers"},
      {drop(parse_pod(R"({"spec":{"containers":[{},{"resources":{"limits":{"cpu":"x"}}}]}})")),
       "spec.containers[1].resources.limits[cpu]"},
      {drop(parse_pod(R"({"spec":{"priority":3000000000}})")), "spec.priority"},
      {drop(parse_pod(R"({"spec":7})")), "spec"},
      {drop(parse_claim_spec(R"({"devices":{"requests":[{"exactly":{"count":1.0}}]}})")),
       "devices.requests[0].exactly.count"},
      {drop(parse_claim_spec(R"({"devices":{"requests":[{"exactly":{"count":1e3}}]}})")),
       "devices.requests[0].exactly.count"},
      {drop(parse_slice(R"({"spec":{"nodeName":"n","allNodes":true}})")), "spec"},
      {drop(parse_slice(R"({"spec":{"devices":[{"attributes":{"a/b":{"int":"1"}}}]}})")),
       "spec.devices[0].attributes[a/b].int"},
      {drop(parse_allocation(R"({"allocationTimestamp":"yesterday"})")), "allocationTimestamp"},
      {drop(parse_allocation(R"({"devices":{"config":[{"source":"FromMoon"}]}})")), "devices.config[0].source"},
  };
  for (const Case& test : cases) {
    ASSERT_FALSE(test.result.has_value()) << test.field;
    EXPECT_EQ(test.result.error().code, Code::kInvalidArgument);
    EXPECT_EQ(test.result.error().field, test.field) << test.result.error().message;
  }
}

TEST(CodecTest, ShareConfigIsExact) {
  const auto parse = [](int64_t percent) {
    return parse_share_config(R"({"apiVersion":"heddle.dev/v1alpha1","kind":"ShareConfig","memoryPercent":)" +
                              std::to_string(percent) + "}");
  };
  EXPECT_EQ(parse(50).value()->memory_percent, 50);
  EXPECT_EQ(parse_share_config(share_config_json({.memory_percent = 7})).value()->memory_percent, 7);
  EXPECT_EQ(parse(0).error().field, "memoryPercent");
  EXPECT_EQ(parse(101).error().field, "memoryPercent");
  EXPECT_FALSE(parse_share_config(R"({"apiVersion":"heddle.dev/v2","kind":"ShareConfig"})").has_value());
  EXPECT_FALSE(
      parse_share_config(R"({"apiVersion":"heddle.dev/v1alpha1","kind":"ShareConfig","memory":1})").has_value());
  EXPECT_EQ(parse_share_config(R"({"apiVersion":"x/v1","kind":"Other"})").value(), std::nullopt);
  const model::ShareConfig low{.memory_percent = 7, .priority = 1};
  EXPECT_EQ(parse_share_config(share_config_json(low)).value(), low);
  const model::ShareConfig more{.memory_percent = 7, .virtual_memory = int64_t{12} << 30};
  EXPECT_EQ(parse_share_config(share_config_json(more)).value(), more);
  const model::ShareConfig masked{.memory_percent = {}, .isolation = "mps"};
  EXPECT_EQ(parse_share_config(share_config_json(masked)).value(), masked);
  EXPECT_EQ(parse_share_config(R"({"apiVersion":"heddle.dev/v1alpha1","kind":"ShareConfig","isolation":"hard"})")
                .error()
                .field,
            "isolation");
  for (const char* wrong : {R"("1.5")", R"("12G")", R"("0")", R"("-1Gi")", R"("much")", "true"}) {
    const auto config = parse_share_config(
        R"({"apiVersion":"heddle.dev/v1alpha1","kind":"ShareConfig","virtualMemory":)" + std::string(wrong) + "}");
    ASSERT_FALSE(config.has_value()) << wrong;
    EXPECT_EQ(config.error().field, "virtualMemory") << wrong;
  }
  EXPECT_EQ(
      parse_share_config(R"({"apiVersion":"heddle.dev/v1alpha1","kind":"ShareConfig","priority":2})").error().field,
      "priority");
}

TEST(PodTest, WhatDecidesWhetherItCanBind) {
  const auto pod = parse_pod(R"({"metadata":{"name":"p","namespace":"ns"},
    "spec":{"hostNetwork":true,
      "resources":{"limits":{"cpu":"2"}},
      "initContainers":[{"name":"side","restartPolicy":"Always","ports":[{"containerPort":9}]}],
      "containers":[{"name":"a","ports":[{"hostPort":80,"hostIP":"10.0.0.1","protocol":"UDP"},{"containerPort":81}]}],
      "volumes":[{"name":"x","persistentVolumeClaim":{"claimName":"data"}},{"name":"y","ephemeral":{}},{"name":"z"}]},
    "status":{"allocatedResources":{"cpu":"1"},
      "containerStatuses":[{"name":"a","allocatedResources":{"cpu":"1"},"resources":{"requests":{"cpu":"3"}}}]}})");
  ASSERT_TRUE(pod.has_value()) << pod.error().text();
  EXPECT_EQ(model::host_ports(*pod),
            (std::vector<model::HostPort>{{"", "", 9}, {"10.0.0.1", "UDP", 80}, {"", "", 81}}));
  EXPECT_EQ(pod->volume_claims, (std::vector<std::string>{"data", "p-y"}));
  EXPECT_EQ(pod->pod_level_limits.at("cpu").to_string(), "2");
  EXPECT_EQ(pod->allocated->at("cpu").to_string(), "1");
  EXPECT_FALSE(pod->actuated.has_value());
  EXPECT_FALSE(pod->containers[0].allocated.has_value()) << "the sidecar has no status";
  EXPECT_EQ(pod->containers[1].actuated->at("cpu").to_string(), "3");
}

TEST(VolumeTest, WhatTiesItToNodes) {
  const auto volume =
      parse_volume(R"({"metadata":{"name":"pv"},"spec":{"nodeAffinity":{"required":{"nodeSelectorTerms":[
    {"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]}]}}}})");
  ASSERT_TRUE(volume.has_value());
  EXPECT_EQ(volume->node_affinity->terms.at(0).match_expressions.at(0).values, std::vector<std::string>{"a"});
  EXPECT_FALSE(parse_volume(R"({"metadata":{"name":"pv"}})")->node_affinity.has_value());
  EXPECT_EQ(parse_volume_claim(R"({"metadata":{"name":"c"},"spec":{"volumeName":"pv"}})")->volume_name, "pv");
}

}  // namespace
}  // namespace heddle::codec
