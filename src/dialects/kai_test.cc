// KAI-Scheduler: section 5.2 of the facts.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "dialects/testing.h"

namespace heddle::dialects::testing {
namespace {

class Kai : public ::testing::TestWithParam<Row> {};
TEST_P(Kai, Says) {
  EXPECT_EQ(check(GetParam()), "");
}

const Texts kNone = {{"cpu", "1"}};

INSTANTIATE_TEST_SUITE_P(
    Table, Kai,
    ::testing::ValuesIn(std::vector<Row>{
        Row{"half", kNone, "nvidia share 1 50% cores=0", {{"gpu-fraction", "0.5"}}},
        Row{"third", kNone, "nvidia share 1 33% cores=0", {{"gpu-fraction", "0.33"}}},
        Row{"trailing_zero", kNone, "nvidia share 1 50% cores=0", {{"gpu-fraction", "0.50"}}},
        Row{"exponent", kNone, "nvidia share 1 50% cores=0", {{"gpu-fraction", "5e-1"}}},
        Row{"least", kNone, "nvidia share 1 1% cores=0", {{"gpu-fraction", "0.01"}}},
        Row{"most", kNone, "nvidia share 1 99% cores=0", {{"gpu-fraction", "0.99"}}},
        Row{"no_percent", kNone, "refused @gpu-fraction: ...0.12 or 0.13", {{"gpu-fraction", "0.125"}}},
        Row{"tiny", kNone, "refused @gpu-fraction: ...0.01", {{"gpu-fraction", "0.001"}}},
        Row{"zero", kNone, "refused @gpu-fraction: ...below 1", {{"gpu-fraction", "0"}}},
        Row{"one", kNone, "refused @gpu-fraction: ...nvidia.com/gpu", {{"gpu-fraction", "1"}}},
        Row{"one_point", kNone, "refused @gpu-fraction: ...below 1", {{"gpu-fraction", "1.0"}}},
        Row{"negative", kNone, "refused @gpu-fraction: ...below 1", {{"gpu-fraction", "-0.5"}}},
        Row{"suffix", kNone, "refused @gpu-fraction: ...below 1", {{"gpu-fraction", "500m"}}},
        Row{"word", kNone, "refused @gpu-fraction: ...below 1", {{"gpu-fraction", "half"}}},
        Row{"empty", kNone, "refused @gpu-fraction: ...below 1", {{"gpu-fraction", ""}}},
        Row{"nan", kNone, "refused @gpu-fraction: ...below 1", {{"gpu-fraction", "NaN"}}},
        Row{"memory", kNone, "nvidia share 1 2000Mi cores=0", {{"gpu-memory", "2000"}}},
        Row{"memory_unit", kNone, "refused @gpu-memory: ...plain whole number of MiB", {{"gpu-memory", "2Gi"}}},
        Row{"memory_zero", kNone, "refused @gpu-memory: ...plain whole number", {{"gpu-memory", "0"}}},
        Row{"memory_fraction", kNone, "refused @gpu-memory: ...plain whole number", {{"gpu-memory", "1.5"}}},
        Row{"memory_huge",
            kNone,
            "refused @gpu-memory: ...plain whole number",
            {{"gpu-memory", "99999999999999999999"}}},
        Row{"both", kNone, "refused @gpu-memory: ...only one", {{"gpu-memory", "2000"}, {"gpu-fraction", "0.5"}}},
        Row{"devices",
            kNone,
            "nvidia share 2 50% cores=0",
            {{"gpu-fraction", "0.5"}, {"gpu-fraction-num-devices", "2"}}},
        Row{"devices_memory",
            kNone,
            "nvidia share 4 100Mi cores=0",
            {{"gpu-memory", "100"}, {"gpu-fraction-num-devices", "4"}}},
        Row{"devices_zero",
            kNone,
            "refused @gpu-fraction-num-devices: ...",
            {{"gpu-fraction", "0.5"}, {"gpu-fraction-num-devices", "0"}}},
        Row{"devices_word",
            kNone,
            "refused @gpu-fraction-num-devices: ...",
            {{"gpu-fraction", "0.5"}, {"gpu-fraction-num-devices", "two"}}},
        Row{"devices_alone",
            kNone,
            "refused @gpu-fraction-num-devices: ...it goes with",
            {{"gpu-fraction-num-devices", "2"}}},
        Row{"container",
            kNone,
            "other: nvidia share 1 50% cores=0",
            {{"gpu-fraction", "0.5"}, {"gpu-fraction-container-name", "other"}}},
        Row{"no_container",
            kNone,
            "refused @gpu-fraction-container-name: ...no such container",
            {{"gpu-fraction", "0.5"}, {"gpu-fraction-container-name", "x"}}},
        Row{"container_alone",
            kNone,
            "refused @gpu-fraction-container-name: ...it goes with",
            {{"gpu-fraction-container-name", "main"}}},
        Row{"mps", kNone, "nvidia share 1 50% cores=0", {{"gpu-fraction", "0.5"}, {"mps", "true"}}},
        Row{"mps_of_hami",
            kNone,
            "refused @nvidia.com/vgpu-mode: ...write nvidia.com/gpumem-percentage and nvidia.com/gpucores",
            {{"gpu-fraction", "0.5"}, {"nvidia.com/vgpu-mode", "mps"}}},
        Row{"mps_alone", kNone, "refused @mps: ...gpu-fraction", {{"mps", "true"}}},
        Row{"mps_with_memory", kNone, "refused @mps: ...gpu-fraction", {{"mps", "true"}, {"gpu-memory", "100"}}},
        Row{"with_gpus",
            {{"nvidia.com/gpu", "1"}},
            "refused @gpu-fraction: ...nvidia.com/gpu",
            {{"gpu-fraction", "0.5"}}},
        Row{"memory_with_gpus",
            {{"nvidia.com/gpu", "1"}},
            "refused @gpu-memory: ...nvidia.com/gpu",
            {{"gpu-memory", "5"}}},
        Row{"with_shares",
            {{"nvidia.com/gpumem", "100"}},
            "refused @gpu-fraction: ...nvidia.com/gpumem too",
            {{"gpu-fraction", "0.5"}}},
        Row{"whole_and_mig", {{"nvidia.com/mig-1g.5gb", "1"}}, "nvidia partition 1 [profile==1g.5gb]"},
        Row{"restricted",
            kNone,
            "nvidia share 1 50% cores=0 [model has a100]",
            {{"gpu-fraction", "0.5"}, {"nvidia.com/use-gputype", "A100"}}},
        Row{"output", {{"nvidia.com/gpu", "1"}}, "nvidia whole 1", {{"received-resource-type", "Fraction"}}}}),
    [](const auto& entry) { return std::string(entry.param.name); });

TEST(Kai, InitContainersAreSearchedFirst) {
  auto pod =
      nlohmann::json::parse(pod_json({}, {{"gpu-fraction", "0.5"}, {"gpu-fraction-container-name", "gpu-init"}}));
  pod["spec"]["initContainers"] = nlohmann::json::array();
  pod["spec"]["initContainers"].push_back(nlohmann::json::object({{"name", "gpu-init"}}));
  const auto out = translate_pod(rules(), pod.dump(), "0123456789");
  ASSERT_TRUE(out && out->refusals.empty());
  ASSERT_EQ(out->requests.size(), 1U);
  EXPECT_EQ(out->requests[0].container, "gpu-init");
  EXPECT_TRUE(out->requests[0].init);
}

TEST(Kai, TheExplanationSaysWhatAnnotationsRestrict) {
  const auto out = translate_pod(
      rules(), pod_json({}, {{"gpu-fraction", "0.5"}, {"nvidia.com/use-gputype", "A100"}, {"mps", "true"}}),
      "0123456789");
  ASSERT_TRUE(out && out->refusals.empty());
  EXPECT_EQ(out->explanations, std::vector<std::string>{
                                   "container main: KAI: gpu-fraction=0.5: a share of 1 NVIDIA GPU: 50 % of the memory "
                                   "and no limit on compute; only product names with a100"});
  EXPECT_EQ(out->warnings.size(), 1U) << "MPS is not what isolates it";
}

TEST(Kai, ASecondPassChangesNothing) {
  const auto pod = nlohmann::json::parse(pod_json({{"amd.com/gpu", "1"}}, {{"gpu-fraction", "0.5"}}));
  const auto first = translate_pod(rules(), pod.dump(), "0123456789");
  ASSERT_TRUE(first && first->refusals.empty());
  ASSERT_EQ(first->requests.size(), 1U);
  EXPECT_EQ(first->requests[0].spec.requests.size(), 2U);
  const auto once = pod.patch(nlohmann::json::parse(first->json_patch));
  const auto second = translate_pod(rules(), once.dump(), "ffffffffff");
  ASSERT_TRUE(second && second->refusals.empty());
  EXPECT_FALSE(second->changed) << second->json_patch;
}

}  // namespace
}  // namespace heddle::dialects::testing
