#include "dialects/nvidia.h"

#include <gtest/gtest.h>

#include "codec/codec.h"
#include "dialects/translate.h"

namespace heddle::dialects {
namespace {

using Texts = std::map<std::string, std::string>;

// Short keys: "gpu" for nvidia.com/gpu.
Texts keys(const Texts& texts) {
  Texts out;
  for (const auto& [key, value] : texts) out.emplace("nvidia.com/" + key, value);
  return out;
}

struct Accepted {
  const char* name;
  Texts limits;
  int64_t count;  // 0: no claim
  int64_t memory_mib = 0;
  int64_t cores = -1;  // -1: not named
  int64_t percent = 0;
};

class NvidiaAccepts : public testing::TestWithParam<Accepted> {};

TEST_P(NvidiaAccepts, Exactly) {
  const Accepted& c = GetParam();
  std::vector<Refusal> refusals;
  const NvidiaAsk ask = read_nvidia({"spec.containers[0].resources", keys(c.limits), {}}, refusals);
  ASSERT_TRUE(refusals.empty()) << refusals[0].message;
  ASSERT_EQ(ask.spec.has_value(), c.count > 0);
  if (!ask.spec) return;
  ASSERT_EQ(ask.spec->requests.size(), 1U);
  const model::DeviceSubRequest& exactly = *ask.spec->requests[0].exactly;
  EXPECT_EQ(exactly.device_class, "heddle-nvidia");
  EXPECT_EQ(exactly.count, c.count);
  const auto value = [&](const char* capacity) {
    const auto it = exactly.capacity.find(capacity);
    return it == exactly.capacity.end() ? int64_t{-1} : it->second.value().value();
  };
  EXPECT_EQ(value("memory"), c.memory_mib == 0 ? -1 : c.memory_mib << 20);
  EXPECT_EQ(value("cores"), c.cores);
  ASSERT_EQ(ask.spec->config.size(), c.percent > 0 ? 1U : 0U);
  if (c.percent > 0) {
    EXPECT_EQ(ask.spec->config[0].driver, "accelerator.heddle.dev");
    EXPECT_EQ(ask.spec->config[0].parameters_json,
              R"({"apiVersion":"heddle.dev/v1alpha1","kind":"ShareConfig","memoryPercent":)" +
                  std::to_string(c.percent) + "}");
  }
  const bool slice = c.memory_mib > 0 || c.cores >= 0;
  ASSERT_EQ(ask.spec->constraints.size(), c.count > 1 && slice ? 1U : 0U);
  if (!ask.spec->constraints.empty()) {
    EXPECT_EQ(ask.spec->constraints[0].distinct_attribute, "accelerator.heddle.dev/uuid");
  }
  EXPECT_EQ(ask.remove.size(), c.limits.size());
}

INSTANTIATE_TEST_SUITE_P(
    Table, NvidiaAccepts,
    testing::Values(Accepted{"one_card", {{"gpu", "1"}}, 1}, Accepted{"several_cards", {{"gpu", "3"}}, 3},
                    Accepted{"milli_is_notation", {{"gpu", "1000m"}}, 1},
                    Accepted{"share", {{"gpu", "1"}, {"gpumem", "3000"}, {"gpucores", "30"}}, 1, 3000, 30},
                    Accepted{"share_without_count", {{"gpumem", "3000"}}, 1, 3000, 0},
                    Accepted{"memory_without_cores_names_zero", {{"gpu", "1"}, {"gpumem", "3000"}}, 1, 3000, 0},
                    Accepted{"decimal_suffix_multiplies_the_number", {{"gpumem", "7k"}}, 1, 7000, 0},
                    Accepted{"exponent", {{"gpumem", "3e3"}}, 1, 3000, 0},
                    Accepted{"memory_zero_is_unset", {{"gpu", "1"}, {"gpumem", "0"}}, 1},
                    Accepted{"cores_alone", {{"gpucores", "25"}}, 1, 0, 25},
                    Accepted{"all_cores_alone_is_a_card", {{"gpu", "1"}, {"gpucores", "100"}}, 1},
                    Accepted{"all_cores_with_memory", {{"gpumem", "500"}, {"gpucores", "100"}}, 1, 500, 100},
                    Accepted{"percent", {{"gpumem-percentage", "50"}}, 1, 0, 0, 50},
                    Accepted{"percent_with_cores", {{"gpumem-percentage", "1"}, {"gpucores", "10"}}, 1, 0, 10, 1},
                    Accepted{"hundred_percent_is_a_card", {{"gpu", "2"}, {"gpumem-percentage", "100"}}, 2},
                    Accepted{
                        "hundred_percent_with_cores", {{"gpumem-percentage", "100"}, {"gpucores", "40"}}, 1, 0, 40},
                    Accepted{"several_shares", {{"gpu", "2"}, {"gpumem", "1000"}}, 2, 1000, 0},
                    Accepted{"largest_memory", {{"gpumem", "2147483647"}}, 1, 2147483647, 0}),
    [](const auto& entry) { return std::string(entry.param.name); });

TEST(Nvidia, CountZeroIsNoClaimAndStays) {
  for (const Texts& limits : {Texts{{"gpu", "0"}}, Texts{{"gpu", "0"}, {"gpumem", "0"}, {"gpumem-percentage", "0"}},
                              Texts{{"gpumem", "0"}}, Texts{{"gpucores", "0"}}}) {
    std::vector<Refusal> refusals;
    const NvidiaAsk ask = read_nvidia({"p", keys(limits), {}}, refusals);
    EXPECT_TRUE(refusals.empty());
    EXPECT_FALSE(ask.spec.has_value());
    EXPECT_TRUE(ask.remove.empty());
  }
}

TEST(Nvidia, OnlyNamesThatAskForACardAreOurs) {
  for (const char* ours : {"gpu", "gpumem", "gpumemory", "gpu.shared", "GPU", "gpuMem", "mig-1g.5gb", "priority"}) {
    EXPECT_TRUE(is_nvidia_resource(std::string("nvidia.com/") + ours)) << ours;
  }
  for (const char* foreign : {"nvidia.com/hostdev", "nvidia.com/rdma_shared", "nvidia.com/pgpu",
                              "nvidia.com/GRID_T4-1Q", "nvidia.com/", "amd.com/gpu", "gpu", "x.nvidia.com/gpu"}) {
    EXPECT_FALSE(is_nvidia_resource(foreign)) << foreign;
  }
}

TEST(Nvidia, AClaimTellsItsAmounts) {
  for (const NvidiaAmounts& amounts :
       {NvidiaAmounts{1, 0, 0, 0}, NvidiaAmounts{32, 0, 0, 0}, NvidiaAmounts{1, 3000, 0, 30},
        NvidiaAmounts{2, 1000, 0, 0}, NvidiaAmounts{1, 500, 0, 100}, NvidiaAmounts{3, 0, 50, 10},
        NvidiaAmounts{1, 0, 0, 25}}) {
    const auto back = nvidia_amounts(nvidia_spec(amounts));
    ASSERT_TRUE(back.has_value()) << amounts.memory_mib;
    EXPECT_EQ(*back, amounts);
  }
  model::ClaimSpec changed = nvidia_spec({2, 1000, 0, 0});
  changed.constraints.clear();
  EXPECT_FALSE(nvidia_amounts(changed).has_value());
}

TEST(Nvidia, PriorityIsAHintAndNoDevice) {
  std::vector<Refusal> refusals;
  NvidiaAsk ask = read_nvidia({"p", keys({{"priority", "1"}}), {}}, refusals);
  EXPECT_TRUE(refusals.empty());
  EXPECT_FALSE(ask.spec.has_value());
  EXPECT_EQ(ask.remove, std::vector<std::string>{"nvidia.com/priority"});
  ask = read_nvidia({"p", keys({{"gpu", "1"}, {"priority", "0"}}), {}}, refusals);
  EXPECT_TRUE(refusals.empty());
  ASSERT_TRUE(ask.spec.has_value());
  EXPECT_EQ(ask.remove.size(), 2U);
  EXPECT_EQ(ask.warnings.size(), 1U);
}

TEST(Nvidia, RequestsAloneCountAndEqualOnesAreOneGrant) {
  std::vector<Refusal> refusals;
  NvidiaAsk ask = read_nvidia({"p", {}, keys({{"gpu", "2"}})}, refusals);
  ASSERT_TRUE(ask.spec.has_value());
  EXPECT_EQ(ask.spec->requests[0].exactly->count, 2);
  ask = read_nvidia({"p", keys({{"gpumem", "7k"}}), keys({{"gpumem", "7000"}})}, refusals);
  EXPECT_TRUE(refusals.empty());
  EXPECT_EQ(ask.remove.size(), 1U);
}

struct Refused {
  const char* name;
  Texts limits;
  const char* key;      // that the field names
  const char* message;  // a part of it
  Texts requests = {};
};

class NvidiaRefuses : public testing::TestWithParam<Refused> {};

TEST_P(NvidiaRefuses, WithFieldAndFix) {
  const Refused& c = GetParam();
  std::vector<Refusal> refusals;
  const NvidiaAsk ask = read_nvidia({"spec.containers[1].resources", keys(c.limits), keys(c.requests)}, refusals);
  EXPECT_FALSE(ask.spec.has_value());
  ASSERT_EQ(refusals.size(), 1U);
  const std::string list = c.limits.contains(c.key) ? "limits" : "requests";
  EXPECT_EQ(refusals[0].field, "spec.containers[1].resources." + list + "[nvidia.com/" + c.key + "]");
  EXPECT_NE(refusals[0].message.find(c.message), std::string::npos) << refusals[0].message;
}

INSTANTIATE_TEST_SUITE_P(
    Table, NvidiaRefuses,
    testing::Values(
        Refused{"bytes", {{"gpumem", "16Gi"}}, "gpumem", "the unit is MiB; write 16384"},
        Refused{"bytes_up", {{"gpumem", "1025Ki"}}, "gpumem", "write 2"},
        Refused{"few_bytes", {{"gpumem", "16Ki"}}, "gpumem", "the unit is MiB"},
        Refused{"decimal_bytes", {{"gpumem", "16G"}}, "gpumem", "write 15258"},
        Refused{"count_in_bytes", {{"gpu", "1Ki"}}, "gpu", "plain whole number"},
        Refused{"percent_zero", {{"gpumem-percentage", "0"}, {"gpu", "1"}}, "gpumem-percentage", "1 to 100"},
        Refused{"percent_zero_alone", {{"gpumem-percentage", "0"}}, "gpumem-percentage", "1 to 100"},
        Refused{"percent_101", {{"gpumem-percentage", "101"}}, "gpumem-percentage", "1 to 100"},
        Refused{"percent_negative", {{"gpumem-percentage", "-1"}}, "gpumem-percentage", "negative"},
        Refused{"percent_fraction", {{"gpumem-percentage", "12.5"}}, "gpumem-percentage", "fraction"},
        Refused{"cores_150", {{"gpu", "1"}, {"gpucores", "150"}}, "gpucores", "0 to 100"},
        Refused{"cores_negative", {{"gpucores", "-5"}}, "gpucores", "negative"},
        Refused{"both_memories", {{"gpumem", "10"}, {"gpumem-percentage", "10"}}, "gpumem-percentage", "only one"},
        Refused{"fraction", {{"gpu", "1.25"}}, "gpu", "fraction"},
        Refused{"milli", {{"gpu", "100m"}}, "gpu", "fraction"}, Refused{"negative", {{"gpu", "-1"}}, "gpu", "negative"},
        Refused{"no_number", {{"gpu", "one"}}, "gpu", "not a number"},
        Refused{"too_large", {{"gpumem", "2147483648"}}, "gpumem", "above 2147483647"},
        Refused{"beyond_int64", {{"gpumem", "99999999999999999999"}}, "gpumem", "above 2147483647"},
        Refused{"product", {{"gpu", "2"}, {"gpumem", "1073741824"}}, "gpumem", "more than"},
        Refused{"too_many", {{"gpu", "33"}}, "gpu", "at most 32"},
        Refused{"zero_with_memory", {{"gpu", "0"}, {"gpumem", "100"}}, "gpumem", "at least 1"},
        Refused{"zero_with_cores", {{"gpu", "0"}, {"gpucores", "10"}}, "gpucores", "at least 1"},
        Refused{"disagree", {{"gpu", "1"}}, "gpu", "must be equal", {{"gpu", "2"}}},
        Refused{"misspelled", {{"gpumemory", "1"}}, "gpumemory", "nearest known one is nvidia.com/gpumem"},
        Refused{"misspelled_percent", {{"gpumem-percent", "1"}}, "gpumem-percent", "nvidia.com/gpumem-percentage"},
        Refused{"misspelled_in_requests", {}, "gpucore", "nvidia.com/gpucores", {{"gpucore", "1"}}},
        Refused{"mig", {{"mig-1g.10gb", "1"}}, "mig-1g.10gb", "MIG partitions are not supported yet"},
        Refused{"shared", {{"gpu.shared", "1"}}, "gpu.shared", "no stated share"},
        Refused{"mig_shared", {{"mig-1g.5gb.shared", "1"}}, "mig-1g.5gb.shared", "no stated share"},
        Refused{"priority", {{"gpu", "1"}, {"priority", "2"}}, "priority", "0 (high) or 1 (low)"}),
    [](const auto& entry) { return std::string(entry.param.name); });

TEST(Nvidia, AnnotationsThatWouldBeLostAreRefused) {
  const auto refused = [](const std::string& key, const std::string& value) {
    std::vector<Refusal> refusals;
    std::vector<std::string> warnings;
    check_nvidia_annotations({{key, value}}, refusals, warnings);
    return !refusals.empty();
  };
  EXPECT_TRUE(refused("nvidia.com/gpumem", "3000"));
  EXPECT_TRUE(refused("nvidia.com/use-gputype", "A100"));
  EXPECT_TRUE(refused("nvidia.com/nouse-gpuuuid", "GPU-1"));
  EXPECT_TRUE(refused("nvidia.com/vgpu-mode", "mig"));
  EXPECT_TRUE(refused("nvidia.com/numa-bind", "true"));
  EXPECT_TRUE(refused("hami.io/gpu-scheduler-policy", "binpack,mutex"));
  EXPECT_FALSE(refused("nvidia.com/use-gputype", " , "));
  EXPECT_FALSE(refused("nvidia.com/vgpu-mode", "hami-core"));
  EXPECT_FALSE(refused("nvidia.com/numa-bind", "false"));
  EXPECT_FALSE(refused("hami.io/gpu-scheduler-policy", "binpack"));
  EXPECT_FALSE(refused("example.com/other", "x"));
}

}  // namespace
}  // namespace heddle::dialects
