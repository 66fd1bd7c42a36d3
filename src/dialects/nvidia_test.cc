// NVIDIA devices in every dialect: HAMi, the device plugin, Volcano; annotations; section 2.1, 3, 5.1 and 6 of the
// facts.
#include <gtest/gtest.h>

#include "dialects/testing.h"

namespace heddle::dialects::testing {
namespace {

class Nvidia : public ::testing::TestWithParam<Row> {};
TEST_P(Nvidia, Says) {
  EXPECT_EQ(check(GetParam()), "");
}
std::string name_of(const ::testing::TestParamInfo<Row>& entry) {
  return entry.param.name;
}

const std::string kN = "nvidia.com/";
constexpr const char* kGpu = "nvidia.com/gpu";
constexpr const char* kMem = "nvidia.com/gpumem";
constexpr const char* kPct = "nvidia.com/gpumem-percentage";
constexpr const char* kCores = "nvidia.com/gpucores";
constexpr const char* kPriority = "nvidia.com/priority";

INSTANTIATE_TEST_SUITE_P(
    Grants, Nvidia,
    ::testing::ValuesIn(std::vector<Row>{
        Row{"one", {{kGpu, "1"}}, "nvidia whole 1"},
        Row{"several", {{kGpu, "3"}}, "nvidia whole 3"},
        Row{"most", {{kGpu, "32"}}, "nvidia whole 32"},
        Row{"milli_is_notation", {{kGpu, "1000m"}}, "nvidia whole 1"},
        Row{"exponent_count", {{kGpu, "1e1"}}, "nvidia whole 10"},
        Row{"share", {{kGpu, "1"}, {kMem, "3000"}, {kCores, "30"}}, "nvidia share 1 3000Mi cores=30"},
        Row{"memory_alone", {{kMem, "3000"}}, "nvidia share 1 3000Mi cores=0"},
        Row{"k_multiplies_the_number", {{kMem, "7k"}}, "nvidia share 1 7000Mi cores=0"},
        Row{"exponent", {{kMem, "1e3"}}, "nvidia share 1 1000Mi cores=0"},
        Row{"memory_zero_is_unset", {{kGpu, "1"}, {kMem, "0"}}, "nvidia whole 1"},
        Row{"cores_alone", {{kCores, "25"}}, "nvidia share 1 cores=25"},
        Row{"cores_one", {{kCores, "1"}}, "nvidia share 1 cores=1"},
        Row{"cores_99", {{kGpu, "1"}, {kCores, "99"}}, "nvidia share 1 cores=99"},
        Row{"all_cores_is_a_card", {{kGpu, "1"}, {kCores, "100"}}, "nvidia whole 1"},
        Row{"no_cores_is_a_card", {{kGpu, "1"}, {kCores, "0"}}, "nvidia whole 1"},
        Row{"all_cores_with_memory", {{kMem, "500"}, {kCores, "100"}}, "nvidia share 1 500Mi cores=100"},
        Row{"percent", {{kPct, "50"}}, "nvidia share 1 50% cores=0"},
        Row{"percent_one", {{kPct, "1"}, {kCores, "10"}}, "nvidia share 1 1% cores=10"},
        Row{"percent_99", {{kGpu, "2"}, {kPct, "99"}}, "nvidia share 2 99% cores=0"},
        Row{"percent_100", {{kGpu, "2"}, {kPct, "100"}}, "nvidia whole 2"},
        Row{"percent_100_with_cores", {{kPct, "100"}, {kCores, "40"}}, "nvidia share 1 cores=40"},
        Row{"several_shares", {{kGpu, "2"}, {kMem, "1000"}}, "nvidia share 2 1000Mi cores=0"},
        Row{"largest", {{kMem, "2147483647"}}, "nvidia share 1 2147483647Mi cores=0"},
        Row{"count_zero", {{kGpu, "0"}}, "nothing"},
        Row{"all_zero", {{kGpu, "0"}, {kMem, "0"}, {kPct, "0"}, {kCores, "0"}}, "nothing"},
        Row{"memory_zero_alone", {{kMem, "0"}}, "nothing"},
        Row{"cores_zero_alone", {{kCores, "0"}}, "nothing"},
        Row{"priority_alone", {{kPriority, "1"}}, "nothing"},
        Row{"priority_high", {{kGpu, "1"}, {kPriority, "0"}}, "nvidia whole 1"},
        Row{"requests_count_too", {}, "nvidia whole 2", {}, {{kGpu, "2"}}},
        Row{"equal_is_one_grant", {{kMem, "7k"}}, "nvidia share 1 7000Mi cores=0", {}, {{kMem, "7000"}}},
        Row{"mig", {{kN + "mig-1g.5gb", "2"}}, "nvidia partition 2 [profile==1g.5gb]"},
        Row{"mig_me", {{kN + "mig-1g.5gb.me", "1"}}, "nvidia partition 1 [profile==1g.5gb+me]"},
        Row{"mig_zero", {{kN + "mig-1g.5gb", "0"}}, "nothing"},
        Row{"mig_and_card",
            {{kGpu, "1"}, {kN + "mig-3g.20gb", "1"}},
            "nvidia partition 1 [profile==3g.20gb] + nvidia whole 1"},
        Row{"class", {{"deviceclass.resource.kubernetes.io/heddle-nvidia", "2"}}, "nvidia whole 2"},
        Row{"any_class", {{"deviceclass.resource.kubernetes.io/heddle", "1"}}, " whole 1"},
        Row{"foreign_class", {{"deviceclass.resource.kubernetes.io/gpu.example.com", "1"}}, "nothing"}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Refusals, Nvidia,
    ::testing::ValuesIn(std::vector<Row>{
        Row{"bytes", {{kMem, "16Gi"}}, "refused nvidia.com/gpumem: ...the unit is MiB; write 16384 (container main)"},
        Row{"bytes_up", {{kMem, "1025Ki"}}, "refused nvidia.com/gpumem: ...write 2"},
        Row{"few_bytes", {{kMem, "16Ki"}}, "refused nvidia.com/gpumem: ...the unit is MiB"},
        Row{"decimal_bytes", {{kMem, "16G"}}, "refused nvidia.com/gpumem: ...write 15259"},
        Row{"count_in_bytes", {{kGpu, "1Ki"}}, "refused nvidia.com/gpu: ...plain whole number"},
        Row{"cores_in_bytes", {{kCores, "1Ki"}}, "refused nvidia.com/gpucores: ...plain whole number"},
        Row{"percent_zero", {{kPct, "0"}, {kGpu, "1"}}, "refused nvidia.com/gpumem-percentage: ...1 to 100"},
        Row{"percent_zero_alone", {{kPct, "0"}}, "refused nvidia.com/gpumem-percentage: ...1 to 100"},
        Row{"percent_101", {{kPct, "101"}}, "refused nvidia.com/gpumem-percentage: ...1 to 100"},
        Row{"percent_negative", {{kPct, "-1"}}, "refused nvidia.com/gpumem-percentage: ...negative"},
        Row{"percent_fraction", {{kPct, "12.5"}}, "refused nvidia.com/gpumem-percentage: ...fraction"},
        Row{"percent_99_1", {{kPct, "99.1"}}, "refused nvidia.com/gpumem-percentage: ...fraction"},
        Row{"cores_150", {{kGpu, "1"}, {kCores, "150"}}, "refused nvidia.com/gpucores: ...0 to 100"},
        Row{"cores_101", {{kCores, "101"}}, "refused nvidia.com/gpucores: ...0 to 100"},
        Row{"cores_negative", {{kCores, "-5"}}, "refused nvidia.com/gpucores: ...negative"},
        Row{"both_memories", {{kMem, "10"}, {kPct, "10"}}, "refused nvidia.com/gpumem-percentage: ...only one"},
        Row{"fraction", {{kGpu, "1.25"}}, "refused nvidia.com/gpu: ...fraction"},
        Row{"half", {{kGpu, "0.5"}}, "refused nvidia.com/gpu: ...fraction"},
        Row{"milli", {{kGpu, "100m"}}, "refused nvidia.com/gpu: ...fraction"},
        Row{"negative", {{kGpu, "-1"}}, "refused nvidia.com/gpu: ...negative"},
        Row{"empty", {{kGpu, ""}}, "refused nvidia.com/gpu: ...not a number"},
        Row{"word",
            {{kGpu, "one"}},
            "refused nvidia.com/gpu: ...\"one\" is not a number; write a whole number (container main)"},
        Row{"memory_word",
            {{kMem, "much"}},
            "refused nvidia.com/gpumem: ...\"much\" is not a number; write a whole number of MiB (container main)"},
        Row{"too_large", {{kMem, "2147483648"}}, "refused nvidia.com/gpumem: ...above 2147483647"},
        Row{"int64_most", {{kMem, "9223372036854775807"}}, "refused nvidia.com/gpumem: ...above 2147483647"},
        Row{"beyond_int64", {{kMem, "99999999999999999999"}}, "refused nvidia.com/gpumem: ...above 2147483647"},
        Row{"least_int64", {{kGpu, "-9223372036854775808"}}, "refused nvidia.com/gpu: ...negative"},
        Row{"product", {{kGpu, "2"}, {kMem, "1073741824"}}, "refused nvidia.com/gpumem: ...more than"},
        Row{"too_many", {{kGpu, "33"}}, "refused nvidia.com/gpu: ...at most 32"},
        Row{"zero_with_memory", {{kGpu, "0"}, {kMem, "100"}}, "refused nvidia.com/gpumem: ...at least 1"},
        Row{"zero_with_cores", {{kGpu, "0"}, {kCores, "10"}}, "refused nvidia.com/gpucores: ...at least 1"},
        Row{"disagree", {{kGpu, "1"}}, "refused nvidia.com/gpu: ...must be equal", {}, {{kGpu, "2"}}},
        Row{"misspelled",
            {{kN + "gpumemory", "1"}},
            "refused nvidia.com/gpumemory: ...nearest known one is nvidia.com/gpumem"},
        Row{"misspelled_percent",
            {{kN + "gpumem-percent", "1"}},
            "refused nvidia.com/gpumem-percent: ...nvidia.com/gpumem-percentage"},
        Row{"misspelled_in_requests",
            {},
            "refused nvidia.com/gpucore: ...nvidia.com/gpucores",
            {},
            {{kN + "gpucore", "1"}}},
        Row{"misspelled_vgpu", {{kN + "vgpu", "1"}}, "refused nvidia.com/vgpu: ...nearest known one is nvidia.com/gpu"},
        Row{"shared", {{kN + "gpu.shared", "1"}}, "refused nvidia.com/gpu.shared: ...no stated share"},
        Row{"mig_shared",
            {{kN + "mig-1g.5gb.shared", "1"}},
            "refused nvidia.com/mig-1g.5gb.shared: ...no stated share"},
        Row{"mig_name", {{kN + "mig-big", "1"}}, "refused nvidia.com/mig-big: ...no MIG partition has this name"},
        Row{"mig_fraction", {{kN + "mig-1g.5gb", "0.5"}}, "refused nvidia.com/mig-1g.5gb: ...fraction"},
        Row{"priority", {{kGpu, "1"}, {kPriority, "2"}}, "refused nvidia.com/priority: ...0 (high) or 1 (low)"},
        Row{"unknown_class",
            {{"deviceclass.resource.kubernetes.io/heddle-x", "1"}},
            "refused deviceclass.resource.kubernetes.io/heddle-x: ...no such DeviceClass"},
        Row{"two_dialects", {{kGpu, "1"}, {"volcano.sh/vgpu-number", "1"}}, "refused ...write only one of"},
        Row{"sum_of_devices", {{kGpu, "20"}, {kN + "mig-1g.5gb", "20"}}, "refused ...40 devices"}}),
    name_of);

const Texts kOne = {{kGpu, "1"}};
const Texts kShare = {{kGpu, "2"}, {kMem, "1000"}};

INSTANTIATE_TEST_SUITE_P(
    Annotations, Nvidia,
    ::testing::ValuesIn(std::vector<Row>{
        Row{"use_type", kOne, "nvidia whole 1 [model has a100,v100]", {{"nvidia.com/use-gputype", "A100, V100,"}}},
        Row{"nouse_type", kOne, "nvidia whole 1 [model has no 1080,2080]", {{"nvidia.com/nouse-gputype", "1080,2080"}}},
        Row{"full_type",
            kOne,
            "nvidia whole 1 [NVIDIA-model has nvidia-nvidia a100]",
            {{"nvidia.com/use-gputype", "NVIDIA-NVIDIA A100"}}},
        Row{"use_uuid", kOne, "nvidia whole 1 [uuid in GPU-1,GPU-2]", {{"nvidia.com/use-gpuuuid", "GPU-1, GPU-2"}}},
        Row{"nouse_uuid", kOne, "nvidia whole 1 [uuid not in GPU-1]", {{"nvidia.com/nouse-gpuuuid", "GPU-1"}}},
        Row{"all_hold",
            kOne,
            "nvidia whole 1 [model has a] [model has no b] [uuid in u] [uuid not in v]",
            {{"nvidia.com/use-gputype", "A"},
             {"nvidia.com/nouse-gputype", "b"},
             {"nvidia.com/use-gpuuuid", "u"},
             {"nvidia.com/nouse-gpuuuid", "v"}}},
        Row{"empty_list", kOne, "nvidia whole 1", {{"nvidia.com/use-gputype", " , "}, {"nvidia.com/use-gpuuuid", ""}}},
        Row{"mig_is_chosen_by_its_card",
            {{kN + "mig-1g.5gb", "1"}},
            "nvidia partition 1 [profile==1g.5gb] [parentUUID in GPU-1]",
            {{"nvidia.com/use-gpuuuid", "GPU-1"}}},
        Row{"other_vendors_are_not_restricted",
            {{"hygon.com/dcunum", "1"}},
            "hygon whole 1",
            {{"nvidia.com/use-gputype", "A100"}}},
        Row{"numa", kShare, "nvidia share 2 1000Mi cores=0 one-numa", {{"nvidia.com/numa-bind", "true"}}},
        Row{"numa_of_one", kOne, "nvidia whole 1", {{"nvidia.com/numa-bind", "true"}}},
        Row{"numa_false", kShare, "nvidia share 2 1000Mi cores=0", {{"nvidia.com/numa-bind", "false"}}},
        Row{"numa_word", kShare, "refused @nvidia.com/numa-bind: ...neither", {{"nvidia.com/numa-bind", "yes"}}},
        Row{"hami_core",
            kShare,
            "nvidia share 2 1000Mi cores=0 [isolation==soft]",
            {{"nvidia.com/vgpu-mode", "hami-core"}}},
        Row{"mps",
            {{kGpu, "2"}, {kMem, "1000"}, {kCores, "30"}},
            "nvidia share 2 1000Mi cores=30 mps",
            {{"nvidia.com/vgpu-mode", "mps"}}},
        Row{"mps_of_a_percentage",
            {{kPct, "40"}, {kCores, "40"}},
            "nvidia share 1 40% cores=40 mps",
            {{"nvidia.com/vgpu-mode", "mps"}}},
        Row{"mps_without_cores",
            kShare,
            "refused nvidia.com/gpumem: ...nvidia.com/vgpu-mode: mps holds a part of the SMs; write "
            "nvidia.com/gpucores of 1 to 99",
            {{"nvidia.com/vgpu-mode", "mps"}}},
        Row{"mps_of_a_card",
            kOne,
            "refused nvidia.com/gpu: ...write nvidia.com/gpucores of 1 to 99, or hami-core",
            {{"nvidia.com/vgpu-mode", "mps"}}},
        Row{"mps_of_all_cores",
            {{kMem, "1000"}, {kCores, "100"}},
            "refused nvidia.com/gpucores: ...1 to 99",
            {{"nvidia.com/vgpu-mode", "mps"}}},
        Row{"mps_alone_on_the_card",
            {{kMem, "1000"}, {kCores, "30"}},
            "refused nvidia.com/gpucores: ...asks for a card without other tenants",
            {{"nvidia.com/vgpu-mode", "mps"}, {"hami.io/gpu-scheduler-policy", "mutex"}}},
        Row{"mps_that_gives_way",
            {{kMem, "1000"}, {kCores, "30"}, {kN + "priority", "1"}},
            "refused nvidia.com/priority: ...nobody gives way",
            {{"nvidia.com/vgpu-mode", "mps"}}},
        Row{"mps_is_no_mig",
            {{kN + "mig-1g.5gb", "1"}},
            "refused nvidia.com/mig-1g.5gb: ...hard partition",
            {{"nvidia.com/vgpu-mode", "mps"}}},
        Row{"mps_of_other_vendors",
            {{"hygon.com/dcunum", "1"}, {"hygon.com/dcucores", "30"}},
            "hygon share 1 cores=30",
            {{"nvidia.com/vgpu-mode", "mps"}}},
        Row{"no_mode", kShare, "refused @nvidia.com/vgpu-mode: ...no mode", {{"nvidia.com/vgpu-mode", "x"}}},
        Row{"two_modes",
            kShare,
            "refused @volcano.sh/vgpu-mode: ...only one",
            {{"nvidia.com/vgpu-mode", "hami-core"}, {"volcano.sh/vgpu-mode", "mig"}}},
        Row{"hami_core_is_no_mig",
            {{kN + "mig-1g.5gb", "1"}},
            "refused nvidia.com/mig-1g.5gb: ...hard partition",
            {{"nvidia.com/vgpu-mode", "hami-core"}}},
        Row{"misplaced", kOne, "refused @nvidia.com/gpumem: ...use resources.limits", {{kMem, "3000"}}},
        Row{"misplaced_without_resources", {}, "refused @nvidia.com/gpumem: ...use resources.limits", {{kMem, "3000"}}},
        Row{"policies",
            kOne,
            "nvidia whole 1",
            {{"hami.io/node-scheduler-policy", "spread"},
             {"hami.io/gpu-scheduler-policy", "binpack,numa"},
             {"hami.io/device-scoring-weights", "slot=1,core=1,memory=3"}}},
        Row{"mutex_of_a_share",
            {{kMem, "1000"}},
            "nvidia share 1 1000Mi cores=100",
            {{"hami.io/gpu-scheduler-policy", "binpack,mutex"}}},
        Row{"mutex_of_a_card", kOne, "nvidia whole 1", {{"hami.io/gpu-scheduler-policy", "mutex"}}},
        Row{"mutex_of_some_cores",
            {{kCores, "30"}},
            "refused nvidia.com/gpucores: ...mutex",
            {{"hami.io/gpu-scheduler-policy", "mutex"}}},
        Row{"forged", kOne, "nvidia whole 1", {{"hami.io/vgpu-devices-to-allocate", "GPU-1,NVIDIA,3000,0:;"}}}}),
    name_of);

constexpr const char* kVNumber = "volcano.sh/vgpu-number";
constexpr const char* kVMem = "volcano.sh/vgpu-memory";

INSTANTIATE_TEST_SUITE_P(
    Volcano, Nvidia,
    ::testing::ValuesIn(std::vector<Row>{
        Row{"volcano", {{kVNumber, "2"}, {kVMem, "3000"}}, "nvidia share 2 3000Mi cores=0"},
        Row{"volcano_cores",
            {{kVNumber, "1"}, {kVMem, "3000"}, {"volcano.sh/vgpu-cores", "50"}},
            "nvidia share 1 3000Mi cores=50"},
        Row{"volcano_whole", {{kVNumber, "2"}}, "nvidia whole 2"},
        Row{"volcano_memory_alone", {{kVMem, "3000"}}, "nvidia share 1 3000Mi cores=0"},
        Row{"volcano_percent", {{"volcano.sh/vgpu-memory-percentage", "30"}}, "nvidia share 1 30% cores=0"},
        Row{"volcano_cores_alone", {{"volcano.sh/vgpu-cores", "30"}}, "nvidia share 1 cores=30"},
        Row{"volcano_zero", {{kVNumber, "0"}}, "nothing"},
        Row{"volcano_bytes", {{kVMem, "8Gi"}}, "refused volcano.sh/vgpu-memory: ...write 8192"},
        Row{"volcano_cores_101", {{"volcano.sh/vgpu-cores", "101"}}, "refused volcano.sh/vgpu-cores: ...0 to 100"},
        Row{"volcano_both",
            {{kVMem, "1"}, {"volcano.sh/vgpu-memory-percentage", "30"}},
            "refused volcano.sh/vgpu-memory-percentage: ...only one"},
        Row{"volcano_cores_0", {{kVNumber, "1"}, {"volcano.sh/vgpu-cores", "0"}}, "nvidia whole 1"},
        Row{"volcano_cores_100", {{kVMem, "10"}, {"volcano.sh/vgpu-cores", "100"}}, "nvidia share 1 10Mi cores=100"},
        Row{"volcano_percent_0",
            {{kVNumber, "1"}, {"volcano.sh/vgpu-memory-percentage", "0"}},
            "refused volcano.sh/vgpu-memory-percentage: ...1 to 100"},
        Row{"volcano_percent_100", {{"volcano.sh/vgpu-memory-percentage", "100"}}, "nvidia whole 1"},
        Row{"volcano_percent_101",
            {{"volcano.sh/vgpu-memory-percentage", "101"}},
            "refused volcano.sh/vgpu-memory-percentage: ...1 to 100"},
        Row{"volcano_memory_0", {{kVNumber, "1"}, {kVMem, "0"}}, "nvidia whole 1"},
        Row{"volcano_zero_with_memory",
            {{kVNumber, "0"}, {kVMem, "10"}},
            "refused volcano.sh/vgpu-memory: ...write at least 1"},
        Row{"volcano_mig",
            {{kVMem, "8000"}},
            "nvidia partition 1 [model|profile in ...nvidia a100-sxm4-40gb|1g.10gb",
            {{"volcano.sh/vgpu-mode", "mig"}}},
        Row{"volcano_mps",
            {{kVMem, "8000"}, {"volcano.sh/vgpu-cores", "99"}},
            "nvidia share 1 8000Mi cores=99 mps",
            {{"volcano.sh/vgpu-mode", "mps"}}},
        Row{"volcano_mps_without_cores",
            {{kVMem, "8000"}},
            "refused volcano.sh/vgpu-memory: ...volcano.sh/vgpu-mode: mps holds a part of the SMs; write "
            "volcano.sh/vgpu-cores of 1 to 99",
            {{"volcano.sh/vgpu-mode", "mps"}}},
        Row{"legacy_memory_0", {{"volcano.sh/gpu-memory", "0"}}, "nothing"},
        Row{"legacy_memory_bytes", {{"volcano.sh/gpu-memory", "1Gi"}}, "refused volcano.sh/gpu-memory: ...write 1024"},
        Row{"legacy_memory", {{"volcano.sh/gpu-memory", "1024"}}, "nvidia share 1 1024Mi cores=0"},
        Row{"legacy_number", {{"volcano.sh/gpu-number", "2"}}, "nvidia whole 2"},
        Row{"legacy_both",
            {{"volcano.sh/gpu-memory", "1024"}, {"volcano.sh/gpu-number", "1"}},
            "refused volcano.sh/gpu-...write only one of"},
        Row{"legacy_and_new",
            {{"volcano.sh/gpu-memory", "1024"}, {kVNumber, "1"}},
            "refused volcano.sh/...write only one of"},
        Row{"volcano_unknown", {{"volcano.sh/vgpu-mem", "1"}}, "refused volcano.sh/vgpu-mem: ...nearest known one is"},
        Row{"volcano_uuid",
            {{kVNumber, "1"}},
            "nvidia whole 1 [uuid in GPU-1]",
            {{"volcano.sh/vgpu-use-gpuuuid", "GPU-1"}}},
        Row{"volcano_no_uuid",
            {{kVNumber, "1"}},
            "nvidia whole 1 [uuid not in GPU-1]",
            {{"volcano.sh/vgpu-nouse-gpuuuid", "GPU-1"}}},
        Row{"volcano_type", {{kVNumber, "1"}}, "nvidia whole 1 [model has a100]", {{"nvidia.com/use-gputype", "A100"}}},
        Row{"volcano_mode",
            {{kVMem, "1000"}},
            "nvidia share 1 1000Mi cores=0 [isolation==soft]",
            {{"volcano.sh/vgpu-mode", "hami-core"}}},
        Row{"volcano_outputs",
            {{kVNumber, "1"}},
            "nvidia whole 1",
            {{"volcano.sh/vgpu-ids-new", "x"},
             {"volcano.sh/bind-phase", "allocating"},
             {"volcano.sh/vgpu-node", "n"}}}}),
    name_of);

TEST(NvidiaMode, MigIsTheSmallestPartitionThatHoldsTheMemory) {
  const Texts mig = {{"nvidia.com/vgpu-mode", "mig"}};
  EXPECT_EQ(said({{kMem, "3000"}}), "nvidia share 1 3000Mi cores=0");  // never silently
  const std::string one = said({{kGpu, "2"}, {kMem, "8000"}}, mig);
  EXPECT_TRUE(one.starts_with("nvidia partition 2 [model|profile in ")) << one;
  EXPECT_NE(one.find("nvidia a100-sxm4-40gb|1g.10gb"), std::string::npos) << one;
  EXPECT_NE(one.find("nvidia h100 pcie|1g.10gb"), std::string::npos) << one;
  EXPECT_EQ(one.find('+'), std::string::npos) << one;
  EXPECT_NE(said({{kMem, "3000"}, {kCores, "30"}}, mig).find("refused nvidia.com/gpucores"), std::string::npos);
  EXPECT_NE(said({{kGpu, "1"}}, mig).find("refused nvidia.com/gpu:"), std::string::npos);
  EXPECT_NE(said({{kMem, "2000000"}}, mig).find("no MIG partition of a known model"), std::string::npos);
  EXPECT_NE(said({{kPct, "20"}}, mig).find("refused nvidia.com/gpumem-percentage"), std::string::npos);
  // Two partitions for one container are of two cards, as HAMi has it.
  const auto out = translate_pod(rules(), pod_json({{kGpu, "2"}, {kMem, "8000"}}, mig), "0123456789");
  ASSERT_TRUE(out && out->refusals.empty());
  ASSERT_EQ(out->requests[0].spec.constraints.size(), 1U);
  EXPECT_EQ(out->requests[0].spec.constraints[0].distinct_attribute, "accelerator.heddle.dev/parentUUID");
  EXPECT_TRUE(parse_requests(requests_json(out->requests)));
}

}  // namespace
}  // namespace heddle::dialects::testing
