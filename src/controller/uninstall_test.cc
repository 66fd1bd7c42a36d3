#include "controller/uninstall.h"

#include <gtest/gtest.h>

namespace heddle::controller {
namespace {

model::Pod pod(const std::string& name, const std::string& node, const std::vector<std::string>& gates) {
  model::Pod out;
  out.meta.name_space = "default";
  out.meta.name = name;
  out.meta.uid = "uid-" + name;
  out.node_name = node;
  out.phase = node.empty() ? "Pending" : "Running";
  out.scheduling_gates = gates;
  return out;
}

model::ResourceClaim claim(const std::string& name, const std::string& driver, const std::string& user) {
  model::ResourceClaim out;
  out.meta.name_space = "default";
  out.meta.name = name;
  out.meta.finalizers = {"resource.kubernetes.io/delete-protection", "example.com/other"};
  model::Allocation allocation;
  allocation.results.push_back({"r", driver, "p", "d", false, {}, {}, {}, "", {}});
  out.allocation = allocation;
  if (!user.empty()) out.reserved_for.push_back({"", "pods", user, "uid-" + user});
  return out;
}

TEST(Uninstall, ClearsWhatIsOursAndIdleInOrder) {
  ClusterObjects objects;
  objects.webhook_configurations = {"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/heddle"};
  objects.pods = {pod("gated", "", {"heddle.dev/placement"}), pod("runs", "n1", {}),
                  pod("other", "", {"example.com/gate"})};
  objects.claims = {claim("busy", "accelerator.heddle.dev", "runs"), claim("idle", "accelerator.heddle.dev", ""),
                    claim("foreign", "gpu.example.com", "")};
  model::ResourceSlice slice;
  slice.meta.name = "n1-heddle-nvidia-0";
  slice.driver = "accelerator.heddle.dev";
  objects.slices = {slice};
  const UninstallPlan plan = plan_uninstall(objects);
  std::vector<std::string> steps;
  for (const UninstallStep& step : plan.steps) steps.push_back(step.object + ": " + step.action);
  EXPECT_EQ(steps, (std::vector<std::string>{
                       "webhook configuration heddle: delete", "pod default/gated: remove the scheduling gate",
                       "claim default/idle: clear the allocation", "claim default/idle: remove the finalizer",
                       "resource slice n1-heddle-nvidia-0: delete, and with it the taints of its devices"}));
  EXPECT_NE(plan.steps[3].request.body.find("example.com/other"), std::string::npos);  // others' finalizers stay
  ASSERT_EQ(plan.remarks.size(), 2U);
  EXPECT_NE(plan.remarks[1].find("in use by pod runs"), std::string::npos);
}

TEST(Uninstall, NothingToDo) {
  EXPECT_TRUE(plan_uninstall({}).steps.empty());
}

}  // namespace
}  // namespace heddle::controller
