// For tests: a small fleet as YAML, and what a plan says of it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/planning.h"

namespace heddle::cli::testing {

// One node with two cards of 16000Mi, as the agent publishes them.
inline constexpr const char* kFleet = R"(
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/hostname: n1, zone: a}}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "10"}, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n1-heddle-nvidia-0}
spec:
  driver: accelerator.heddle.dev
  nodeName: n1
  pool: {name: n1/nvidia, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    allowMultipleAllocations: true
    attributes: {vendor: {string: nvidia}, uuid: {string: GPU-0}}
    capacity:
      memory: {value: 16000Mi, requestPolicy: {default: 16000Mi, validRange: {min: 1Mi, step: 1Mi, max: 16000Mi}}}
      cores: {value: "100", requestPolicy: {default: "100", validRange: {min: "0", step: "1", max: "100"}}}
    taints: [{key: heddle.dev/managed, effect: NoSchedule}]
  - name: gpu-1
    allowMultipleAllocations: true
    attributes: {vendor: {string: nvidia}, uuid: {string: GPU-1}}
    capacity:
      memory: {value: 16000Mi, requestPolicy: {default: 16000Mi, validRange: {min: 1Mi, step: 1Mi, max: 16000Mi}}}
      cores: {value: "100", requestPolicy: {default: "100", validRange: {min: "0", step: "1", max: "100"}}}
    taints: [{key: heddle.dev/managed, effect: NoSchedule}]
)";

inline std::string pod_yaml(const std::string& name, const std::string& limits, const std::string& spec = "",
                            const std::string& meta = "") {
  return "\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: ns" + meta +
         "}\nspec:\n  containers: [{name: main, resources: {limits: {" + limits + "}}}]\n" + spec;
}

inline constexpr Time kNow{1'800'000'000'000'000'000};

inline Plan plan_of(const std::string& text) {
  auto fleet = read_fleet({{"fleet.yaml", text}});
  EXPECT_TRUE(fleet.has_value()) << fleet.error().text();
  if (!fleet) return {};
  auto plan = plan_fleet(*std::move(fleet), kNow);
  EXPECT_TRUE(plan.has_value()) << plan.error().text();
  return plan ? *std::move(plan) : Plan{};
}

// "a on n1: gpu-0", in the order of decisions.
inline std::vector<std::string> placed(const Plan& plan) {
  std::vector<std::string> out;
  for (const PlacedPod& pod : plan.placed) {
    std::string text = pod.name + " on " + pod.node + ":";
    for (const auto& claim : pod.claims) {
      for (const auto& result : claim.allocation->results) text += " " + result.device;
    }
    out.push_back(text);
  }
  return out;
}

inline std::vector<std::string> pending(const Plan& plan) {
  std::vector<std::string> out;
  for (const PendingPod& pod : plan.pending) {
    for (const auto& reason : pod.reasons) {
      if (reason.code == "Ends" || reason.code == "NeedsNode") continue;  // what would help has a test of its own
      out.push_back(pod.name + " " + reason.code + ": " + reason.message);
    }
  }
  return out;
}

inline std::vector<std::string> what_would_help(const Plan& plan) {
  std::vector<std::string> out;
  for (const PendingPod& pod : plan.pending) {
    for (const auto& reason : pod.reasons) {
      if (reason.code == "Ends" || reason.code == "NeedsNode") out.push_back(pod.name + ": " + reason.message);
    }
  }
  return out;
}

}  // namespace heddle::cli::testing
