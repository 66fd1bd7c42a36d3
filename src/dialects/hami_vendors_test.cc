// Vendors of HAMi and of plain device plugins other than NVIDIA and Ascend: sections 2.2 to 2.11 and 6 of the facts.
#include <gtest/gtest.h>

#include "dialects/testing.h"

namespace heddle::dialects::testing {
namespace {

class Vendors : public ::testing::TestWithParam<Row> {};
TEST_P(Vendors, Says) {
  EXPECT_EQ(check(GetParam()), "");
}
std::string name_of(const ::testing::TestParamInfo<Row>& entry) {
  return entry.param.name;
}

constexpr const char* kMlu = "cambricon.com/vmlu";
constexpr const char* kMluMem = "cambricon.com/mlu.smlu.vmemory";
constexpr const char* kMluCore = "cambricon.com/mlu.smlu.vcore";

INSTANTIATE_TEST_SUITE_P(
    Cambricon, Vendors,
    ::testing::ValuesIn(std::vector<Row>{
        Row{"mlu_whole", {{kMlu, "2"}}, "cambricon whole 2"},
        Row{"mlu_flag_name", {{"cambricon.com/mlu", "1"}}, "cambricon whole 1"},
        Row{"mlu_both_names", {{"cambricon.com/mlu", "1"}, {kMlu, "1"}}, "refused cambricon.com/mlu: ...the same as"},
        Row{"mlu_share", {{kMlu, "1"}, {kMluMem, "20"}, {kMluCore, "10"}}, "cambricon share 1 5120Mi cores=10"},
        Row{"mlu370",
            {{kMlu, "1"}, {"cambricon.com/mlu370.smlu.vmemory", "20"}, {"cambricon.com/mlu370.smlu.vcore", "10"}},
            "cambricon share 1 5120Mi cores=10"},
        Row{"mlu_memory_takes_all_cores", {{kMlu, "1"}, {kMluMem, "1"}}, "cambricon share 1 256Mi cores=100"},
        Row{"mlu_cores_alone", {{kMlu, "1"}, {kMluCore, "10"}}, "cambricon share 1 cores=10"},
        Row{"mlu_without_count",
            {{kMluMem, "20"}},
            "refused cambricon.com/mlu.smlu.vmemory: ...write cambricon.com/vmlu: 1"},
        Row{"mlu_several", {{kMlu, "2"}, {kMluMem, "20"}}, "refused cambricon.com/mlu.smlu.vmemory: ...whole cards"},
        Row{"mlu_several_cores",
            {{kMlu, "2"}, {kMluCore, "100"}},
            "refused cambricon.com/mlu.smlu.vcore: ...whole cards"},
        Row{"mlu_bytes",
            {{kMlu, "1"}, {kMluMem, "5Gi"}},
            "refused cambricon.com/mlu.smlu.vmemory: ...unit is 256 MiB; write 20"},
        Row{"mlu_cores_0", {{kMlu, "1"}, {kMluCore, "0"}}, "refused cambricon.com/mlu.smlu.vcore: ...1 to 100"},
        Row{"mlu_cores_101", {{kMlu, "1"}, {kMluCore, "101"}}, "refused cambricon.com/mlu.smlu.vcore: ...1 to 100"},
        Row{"mlu_product",
            {{kMlu, "1"}, {kMluMem, "2147483647"}},
            "refused cambricon.com/mlu.smlu.vmemory: ...more than"},
        Row{"mlu_zero", {{kMlu, "0"}, {kMluMem, "0"}, {kMluCore, "0"}}, "nothing"},
        Row{"mlu_mim", {{"cambricon.com/mlu.mim-2m.8gb", "2"}}, "cambricon partition 2 [profile==2m.8gb]"},
        Row{"mlu_mim_of_a_type",
            {{"cambricon.com/mlu370.mim-2m.8gb", "1"}},
            "cambricon partition 1 [model starts MLU370] [profile==2m.8gb]"},
        Row{"mlu_mim_bad",
            {{"cambricon.com/mlu.mim-2g.8gb", "1"}},
            "refused cambricon.com/mlu.mim-2g.8gb: ...no MIM partition has this name"},
        Row{"mlu_of_a_type", {{"cambricon.com/mlu370", "2"}}, "cambricon whole 2 [model starts MLU370]"},
        Row{"mlu_two_ways", {{"cambricon.com/mlu370", "1"}, {kMlu, "1"}}, "refused cambricon...in another way"},
        Row{"mlu_env_share", {{"cambricon.com/mlu.share", "1"}}, "refused cambricon.com/mlu.share: ...no stated share"},
        Row{"mlu_env_share_of_a_type",
            {{"cambricon.com/mlu370.share", "1"}},
            "refused cambricon.com/mlu370.share: ...write cambricon.com/vmlu"},
        Row{"mlu_real_counts",
            {{"cambricon.com/real-mlu-counts", "1"}},
            "refused cambricon.com/real-mlu-counts: ...write cambricon.com/vmlu: 1"},
        Row{"mlu_old_name",
            {{"cambricon.com/mlunum", "1"}},
            "refused cambricon.com/mlunum: ...write cambricon.com/vmlu"},
        Row{"mlu_unknown", {{"cambricon.com/vmluu", "1"}}, "refused cambricon.com/vmluu: ...cambricon.com/vmlu"},
        Row{"mlu_restricted",
            {{kMlu, "1"}},
            "cambricon whole 1 [model has 370] [model has no 270] [uuid in a] [uuid not in b]",
            {{"cambricon.com/use-mlutype", "370"},
             {"cambricon.com/nouse-mlutype", "270"},
             {"cambricon.com/use-gpuuuid", "a"},
             {"cambricon.com/nouse-gpuuuid", "b"}}}}),
    name_of);

constexpr const char* kDcu = "hygon.com/dcunum";
constexpr const char* kDcuMem = "hygon.com/dcumem";
constexpr const char* kDcuCores = "hygon.com/dcucores";

INSTANTIATE_TEST_SUITE_P(
    Hygon, Vendors,
    ::testing::ValuesIn(std::vector<Row>{
        Row{"dcu_whole", {{kDcu, "2"}}, "hygon whole 2"}, Row{"dcu_plugin", {{"hygon.com/dcu", "2"}}, "hygon whole 2"},
        Row{"dcu_two_ways", {{"hygon.com/dcu", "1"}, {kDcu, "1"}}, "refused hygon.com/...in another way"},
        Row{"dcu_share", {{kDcu, "1"}, {kDcuMem, "2000"}, {kDcuCores, "60"}}, "hygon share 1 2000Mi cores=60"},
        Row{"dcu_memory_takes_all_cores", {{kDcu, "1"}, {kDcuMem, "2000"}}, "hygon share 1 2000Mi cores=100"},
        Row{"dcu_all_cores", {{kDcu, "1"}, {kDcuCores, "100"}}, "hygon whole 1"},
        Row{"dcu_several_memory", {{kDcu, "2"}, {kDcuMem, "2000"}}, "refused hygon.com/dcumem: ...whole cards"},
        Row{"dcu_several_cores", {{kDcu, "2"}, {kDcuCores, "60"}}, "refused hygon.com/dcucores: ...whole cards"},
        Row{"dcu_without_count", {{kDcuMem, "2000"}}, "refused hygon.com/dcumem: ...write hygon.com/dcunum: 1"},
        Row{"dcu_bytes", {{kDcu, "1"}, {kDcuMem, "2Gi"}}, "refused hygon.com/dcumem: ...write 2048"},
        Row{"dcu_cores_101", {{kDcu, "1"}, {kDcuCores, "101"}}, "refused hygon.com/dcucores: ...1 to 100"},
        Row{"dcu_memory_0", {{kDcu, "1"}, {kDcuMem, "0"}}, "refused hygon.com/dcumem: ...leave the key out"},
        Row{"dcu_zero_with_memory", {{kDcu, "0"}, {kDcuMem, "1"}}, "refused hygon.com/dcumem: ...write at least 1"},
        Row{"dcu_types",
            {{kDcu, "1"}},
            "hygon whole 1 [DCU-model has dcu-k100_ai] [model has no z100]",
            {{"hygon.com/use-dcutype", "DCU-K100_AI"}, {"hygon.com/nouse-dcutype", "Z100"}}},
        Row{"dcu_uuids",
            {{kDcu, "1"}},
            "hygon whole 1 [uuid in a] [uuid not in b,c]",
            {{"hygon.com/use-gpuuuid", "a"}, {"hygon.com/nouse-gpuuuid", "b,c"}}}}),
    name_of);

constexpr const char* kSgpu = "metax-tech.com/sgpu";
constexpr const char* kVmem = "metax-tech.com/vmemory";
constexpr const char* kVcore = "metax-tech.com/vcore";

INSTANTIATE_TEST_SUITE_P(
    Metax, Vendors,
    ::testing::ValuesIn(std::vector<Row>{
        Row{"metax_gpu", {{"metax-tech.com/gpu", "4"}}, "metax whole 4"},
        Row{"metax_sgpu_alone", {{kSgpu, "4"}}, "metax whole 4"},
        Row{"metax_share", {{kSgpu, "1"}, {kVcore, "60"}, {kVmem, "4"}}, "metax share 1 4096Mi cores=60"},
        Row{"metax_all_cores", {{kSgpu, "1"}, {kVmem, "4"}}, "metax share 1 4096Mi cores=100"},
        Row{"metax_gi", {{kSgpu, "1"}, {kVmem, "4Gi"}}, "metax share 1 4096Mi cores=100"},
        Row{"metax_mi", {{kSgpu, "1"}, {kVmem, "500Mi"}}, "metax share 1 500Mi cores=100"},
        Row{"metax_exact_ki", {{kSgpu, "1"}, {kVmem, "2048Ki"}}, "metax share 1 2Mi cores=100"},
        Row{"metax_ki", {{kSgpu, "1"}, {kVmem, "1000Ki"}}, "refused metax-tech.com/vmemory: ...whole number of MiB"},
        Row{"metax_half_gi", {{kSgpu, "1"}, {kVmem, "0.5Gi"}}, "metax share 1 512Mi cores=100"},
        Row{"metax_fraction", {{kSgpu, "1"}, {kVmem, "1.5"}}, "refused metax-tech.com/vmemory: ...fraction"},
        Row{"metax_decimal_suffix",
            {{kSgpu, "1"}, {kVmem, "512M"}},
            "refused metax-tech.com/vmemory: ...binary suffix, such as 512Mi"},
        Row{"metax_decimal_bytes", {{kSgpu, "1"}, {kVmem, "4G"}}, "refused metax-tech.com/vmemory: ...write 4"},
        Row{"metax_too_much", {{kSgpu, "1"}, {kVmem, "2147483647"}}, "refused metax-tech.com/vmemory: ...more than"},
        Row{"metax_huge",
            {{kSgpu, "1"}, {kVmem, "9000000Ti"}},
            "refused metax-tech.com/vmemory: ...whole number of MiB"},
        Row{"metax_negative",
            {{kSgpu, "1"}, {kVmem, "-1Gi"}},
            "refused metax-tech.com/vmemory: ...whole number of MiB"},
        Row{"metax_without_count", {{kVmem, "4"}}, "refused metax-tech.com/vmemory: ...metax-tech.com/sgpu: 1"},
        Row{"metax_gpu_has_no_memory",
            {{"metax-tech.com/gpu", "1"}, {kVmem, "4"}},
            "refused metax-tech.com/vmemory: ...metax-tech.com/sgpu: 1"},
        Row{"metax_vcore_0", {{kSgpu, "1"}, {kVcore, "0"}}, "refused metax-tech.com/vcore: ...1 to 100"},
        Row{"metax_several", {{kSgpu, "2"}, {kVmem, "4"}}, "metax share 2 4096Mi cores=100"},
        Row{"metax_uuid",
            {{kSgpu, "1"}},
            "metax whole 1 [uuid in GPU-1] [uuid not in GPU-2]",
            {{"metax-tech.com/use-gpuuuid", "GPU-1"}, {"metax-tech.com/nouse-gpuuuid", "GPU-2"}}},
        Row{"metax_qos", {{kSgpu, "1"}}, "metax whole 1", {{"metax-tech.com/sgpu-qos-policy", "fixed-share"}}},
        Row{"metax_bad_qos",
            {{kSgpu, "1"}},
            "refused @metax-tech.com/sgpu-qos-policy: ...burst-share",
            {{"metax-tech.com/sgpu-qos-policy", "best"}}},
        Row{"metax_class",
            {{kSgpu, "1"}, {kVmem, "4"}},
            "metax share 1 4096Mi cores=100",
            {{"metax-tech.com/sgpu-app-class", "online"}}},
        Row{"metax_bad_class",
            {{kSgpu, "1"}},
            "refused @metax-tech.com/sgpu-app-class: ...offline",
            {{"metax-tech.com/sgpu-app-class", "x"}}},
        Row{"metax_class_of_two",
            {{kSgpu, "2"}},
            "refused @metax-tech.com/sgpu-app-class: ...one device only",
            {{"metax-tech.com/sgpu-app-class", "online"}}},
        Row{"metax_topology", {{kSgpu, "4"}}, "metax whole 4", {{"metax-tech.com/sgpu-topology-aware", "true"}}}}),
    name_of);

constexpr const char* kGcuMem = "enflame.com/gcu-memory";
constexpr const char* kGcuCore = "enflame.com/gcu-core";

INSTANTIATE_TEST_SUITE_P(
    Enflame, Vendors,
    ::testing::ValuesIn(std::vector<Row>{
        Row{"gcu", {{"enflame.com/gcu", "2"}}, "enflame whole 2"},
        Row{"gcu_spec", {{kGcuMem, "20480"}, {kGcuCore, "40"}}, "enflame share 1 20480Mi cores=40"},
        Row{"gcu_memory_is_what_was_asked", {{kGcuMem, "20481"}}, "enflame share 1 20481Mi cores=0"},
        Row{"gcu_core_alone", {{kGcuCore, "40"}}, "enflame share 1 cores=40"},
        Row{"gcu_core_0", {{kGcuCore, "0"}, {kGcuMem, "1"}}, "refused enflame.com/gcu-core: ...1 to 100"},
        Row{"gcu_core_0_alone", {{kGcuCore, "0"}}, "refused enflame.com/gcu-core: ...1 to 100"},
        Row{"gcu_core_1", {{kGcuCore, "1"}}, "enflame share 1 cores=1"},
        Row{"gcu_core_100", {{kGcuCore, "100"}, {kGcuMem, "1"}}, "enflame share 1 1Mi cores=100"},
        Row{"gcu_memory_0", {{kGcuMem, "0"}}, "refused enflame.com/gcu-memory: ...0 is no memory at all"},
        Row{"drs_0", {{"enflame.com/drs-gcu", "0"}}, "nothing"},
        Row{"gcu_core_101", {{kGcuCore, "101"}}, "refused enflame.com/gcu-core: ...1 to 100"},
        Row{"gcu_with_memory",
            {{"enflame.com/gcu", "1"}, {kGcuMem, "20480"}},
            "refused enflame.com/gcu-memory: ...only one"},
        Row{"drs", {{"enflame.com/drs-gcu", "3"}}, "enflame partition 1 [profile==3g]"},
        Row{"drs_with_gcu",
            {{"enflame.com/gcu", "1"}, {"enflame.com/drs-gcu", "3"}},
            "refused enflame.com/...only one"},
        Row{"vgcu", {{"enflame.com/vgcu", "1"}}, "refused enflame.com/vgcu: ...enflame.com/drs-gcu"},
        Row{"vgcu_percentage",
            {{"enflame.com/vgcu-percentage", "20"}},
            "refused enflame.com/vgcu-percentage: ...drs-gcu"},
        Row{"gcu_bytes", {{kGcuMem, "20Gi"}}, "refused enflame.com/gcu-memory: ...write 20480"},
        Row{"gcu_uuid",
            {{"enflame.com/gcu", "1"}},
            "enflame whole 1 [uuid in a] [uuid not in b]",
            {{"enflame.com/use-gpuuuid", "a"}, {"enflame.com/nouse-gpuuuid", "b"}}}}),
    name_of);

constexpr const char* kMt = "mthreads.com/vgpu";
constexpr const char* kMtMem = "mthreads.com/sgpu-memory";
constexpr const char* kMtCore = "mthreads.com/sgpu-core";

INSTANTIATE_TEST_SUITE_P(
    MooreThreads, Vendors,
    ::testing::ValuesIn(std::vector<Row>{
        Row{"mt_whole", {{kMt, "1"}}, "mthreads whole 1"},
        Row{"mt_several", {{kMt, "2"}}, "mthreads whole 2"},
        Row{"mt_share", {{kMt, "1"}, {kMtMem, "32"}, {kMtCore, "8"}}, "mthreads share 1 16384Mi cores=50"},
        Row{"mt_no_cores", {{kMt, "1"}, {kMtMem, "32"}}, "mthreads share 1 16384Mi cores=0"},
        Row{"mt_rounded_up", {{kMt, "1"}, {kMtMem, "2"}, {kMtCore, "1"}}, "mthreads share 1 1024Mi cores=7"},
        Row{"mt_all", {{kMt, "1"}, {kMtMem, "96"}, {kMtCore, "16"}}, "mthreads share 1 49152Mi cores=100"},
        Row{"mt_memory_3", {{kMt, "1"}, {kMtMem, "3"}}, "refused mthreads.com/sgpu-memory: ...2, 4, 8, 16, 32, 64, 96"},
        Row{"mt_memory_128", {{kMt, "1"}, {kMtMem, "128"}}, "refused mthreads.com/sgpu-memory: ...2, 4, 8, 16"},
        Row{"mt_core_17", {{kMt, "1"}, {kMtMem, "32"}, {kMtCore, "17"}}, "refused mthreads.com/sgpu-core: ...1 to 16"},
        Row{"mt_core_0", {{kMt, "1"}, {kMtMem, "32"}, {kMtCore, "0"}}, "refused mthreads.com/sgpu-core: ...1 to 16"},
        Row{"mt_core_without_memory",
            {{kMt, "1"}, {kMtCore, "8"}},
            "refused mthreads.com/sgpu-core: ...sgpu-memory too"},
        Row{"mt_all_cores_without_memory", {{kMt, "1"}, {kMtCore, "16"}}, "mthreads whole 1"},
        Row{"mt_several_less", {{kMt, "2"}, {kMtMem, "32"}}, "refused mthreads.com/sgpu-memory: ...whole cards"},
        Row{"mt_several_whole", {{kMt, "2"}, {kMtMem, "96"}, {kMtCore, "16"}}, "mthreads whole 2"},
        Row{"mt_several_sums", {{kMt, "2"}, {kMtMem, "192"}, {kMtCore, "32"}}, "mthreads whole 2"},
        Row{"mt_without_count", {{kMtMem, "32"}}, "refused mthreads.com/sgpu-memory: ...mthreads.com/vgpu: 1"},
        Row{"mt_plugin", {{"mthreads.com/gpu", "2"}}, "mthreads whole 2"},
        Row{"mt_two_ways", {{"mthreads.com/gpu", "1"}, {kMt, "1"}}, "refused mthreads.com/...in another way"},
        Row{"mt_uuid",
            {{kMt, "1"}},
            "mthreads whole 1 [uuid in a] [uuid not in b]",
            {{"mthreads.ai/use-gpuuuid", "a"}, {"mthreads.ai/nouse-gpuuuid", "b"}}},
        Row{"mt_uuid_of_com", {{kMt, "1"}}, "mthreads whole 1", {{"mthreads.com/use-gpuuuid", "a"}}}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Iluvatar, Vendors,
    ::testing::ValuesIn(std::vector<Row>{
        Row{"iluvatar_old_card", {{"iluvatar.ai/vgpu", "1"}}, "refused iluvatar.ai/vgpu: ...write the chip"},
        Row{"iluvatar_old_memory",
            {{"iluvatar.ai/vcuda-memory", "4"}},
            "refused iluvatar.ai/vcuda-memory: ...iluvatar.ai/BI-V150.vMem"},
        Row{"iluvatar_old_cores",
            {{"iluvatar.ai/vcuda-core", "4"}},
            "refused iluvatar.ai/vcuda-core: ...iluvatar.ai/BI-V150.vCore"},
        Row{"il_whole", {{"iluvatar.ai/BI-V150-vgpu", "2"}}, "iluvatar whole 2 [model in BI-V150]"},
        Row{"il_plugin", {{"iluvatar.com/gpu", "2"}}, "iluvatar whole 2"},
        Row{"il_plugin_unknown", {{"iluvatar.com/gpus", "2"}}, "refused iluvatar.com/gpus: ...iluvatar.com/gpu"},
        Row{"il_share",
            {{"iluvatar.ai/MR-V100-vgpu", "1"},
             {"iluvatar.ai/MR-V100.vCore", "50"},
             {"iluvatar.ai/MR-V100.vMem", "64"}},
            "iluvatar share 1 16384Mi cores=50 [model in MR-V100]"},
        Row{"il_no_cores",
            {{"iluvatar.ai/MR-V50-vgpu", "1"}, {"iluvatar.ai/MR-V50.vMem", "64"}},
            "iluvatar share 1 16384Mi cores=0 [model in MR-V50]"},
        Row{"il_several_memory",
            {{"iluvatar.ai/BI-V100-vgpu", "2"}, {"iluvatar.ai/BI-V100.vMem", "64"}},
            "refused iluvatar.ai/BI-V100.vMem: ...whole cards"},
        Row{"il_several_sum",
            {{"iluvatar.ai/BI-V100-vgpu", "2"}, {"iluvatar.ai/BI-V100.vCore", "200"}},
            "iluvatar whole 2 [model in BI-V100]"},
        Row{"il_cores_200",
            {{"iluvatar.ai/BI-V100-vgpu", "1"}, {"iluvatar.ai/BI-V100.vCore", "200"}},
            "refused iluvatar.ai/BI-V100.vCore: ...0 to 100"},
        Row{"il_without_count",
            {{"iluvatar.ai/BI-V100.vMem", "64"}},
            "refused iluvatar.ai/BI-V100.vMem: ...BI-V100-vgpu: 1"},
        Row{"il_chip",
            {{"iluvatar.ai/BI-V200-vgpu", "1"}},
            "refused iluvatar.ai/BI-V200-vgpu: ...iluvatar.ai/BI-V100-vgpu"},
        Row{"il_uuid",
            {{"iluvatar.ai/BI-V150-vgpu", "1"}},
            "iluvatar whole 1 [model in BI-V150] [uuid in a] [uuid not in b]",
            {{"hami.io/use-BI-V150-uuid", "a"}, {"hami.io/no-use-BI-V150-uuid", "b"}}},
        Row{"il_uuid_of_another_chip",
            {{"iluvatar.ai/BI-V150-vgpu", "1"}},
            "iluvatar whole 1 [model in BI-V150]",
            {{"hami.io/use-BI-V100-uuid", "a"}}}}),
    name_of);

constexpr const char* kVxpu = "kunlunxin.com/vxpu";
constexpr const char* kVxpuMem = "kunlunxin.com/vxpu-memory";

INSTANTIATE_TEST_SUITE_P(
    Kunlunxin, Vendors,
    ::testing::ValuesIn(std::vector<Row>{
        Row{"xpu", {{"kunlunxin.com/xpu", "2"}}, "kunlun whole 2"}, Row{"vxpu_alone", {{kVxpu, "1"}}, "kunlun whole 1"},
        Row{"vxpu_1", {{kVxpu, "1"}, {kVxpuMem, "1"}}, "kunlun share 1 24576Mi cores=25"},
        Row{"vxpu_24576", {{kVxpu, "1"}, {kVxpuMem, "24576"}}, "kunlun share 1 24576Mi cores=25"},
        Row{"vxpu_24577", {{kVxpu, "1"}, {kVxpuMem, "24577"}}, "kunlun share 1 49152Mi cores=50"},
        Row{"vxpu_49153", {{kVxpu, "1"}, {kVxpuMem, "49153"}}, "kunlun share 1 98304Mi cores=100"},
        Row{"vxpu_98305", {{kVxpu, "1"}, {kVxpuMem, "98305"}}, "refused kunlunxin.com/vxpu-memory: ...98304"},
        Row{"vxpu_several", {{kVxpu, "2"}, {kVxpuMem, "24576"}}, "kunlun share 2 24576Mi cores=25"},
        Row{"vxpu_without_count", {{kVxpuMem, "24576"}}, "refused kunlunxin.com/vxpu-memory: ...kunlunxin.com/vxpu: 1"},
        Row{"xpu_uuid",
            {{"kunlunxin.com/xpu", "1"}},
            "kunlun whole 1 [uuid in a] [uuid not in b]",
            {{"baidu.com/use-gpuuuid", "a"}, {"baidu.com/nouse-gpuuuid", "b"}, {"hami.io/use-xpu-uuid", "c"}}},
        Row{"vxpu_uuid",
            {{kVxpu, "1"}},
            "kunlun whole 1 [uuid in a] [uuid not in b]",
            {{"hami.io/use-xpu-uuid", "a"}, {"hami.io/no-use-xpu-uuid", "b"}, {"baidu.com/use-gpuuuid", "c"}}}}),
    name_of);

constexpr const char* kCore = "aws.amazon.com/neuroncore";

INSTANTIATE_TEST_SUITE_P(
    Neuron, Vendors,
    ::testing::ValuesIn(std::vector<Row>{
        Row{"neuron", {{"aws.amazon.com/neuron", "4"}}, "aws whole 4"},
        Row{"neuroncore_1", {{kCore, "1"}}, "aws share 1 50% cores=50"},
        Row{"neuroncore_2", {{kCore, "2"}}, "aws whole 1"}, Row{"neuroncore_8", {{kCore, "8"}}, "aws whole 4"},
        Row{"neuroncore_3", {{kCore, "3"}}, "refused aws.amazon.com/neuroncore: ...multiple of 2"},
        Row{"neuroncore_0", {{kCore, "0"}}, "nothing"},
        Row{"neuron_both", {{"aws.amazon.com/neuron", "1"}, {kCore, "1"}}, "refused aws.amazon.com/neuron...only one"},
        Row{"neuron_unknown",
            {{"aws.amazon.com/neurondevice", "1"}},
            "refused aws.amazon.com/neurondevice: ...nearest"},
        Row{"neuron_uuid",
            {{kCore, "1"}},
            "aws share 1 50% cores=50 [uuid in a] [uuid not in b]",
            {{"aws.amazon.com/use-neuron-uuid", "a"}, {"aws.amazon.com/nouse-neuron-uuid", "b"}}}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Amd, Vendors,
    ::testing::ValuesIn(std::vector<Row>{
        Row{"amd", {{"amd.com/gpu", "8"}}, "amd whole 8"},
        Row{"amd_memory_takes_all_cores",
            {{"amd.com/gpu", "1"}, {"amd.com/gpumem", "4096"}},
            "amd share 1 4096Mi cores=100"},
        Row{"amd_share",
            {{"amd.com/gpu", "2"}, {"amd.com/gpumem", "4096"}, {"amd.com/gpucores", "25"}},
            "amd share 2 4096Mi cores=25"},
        Row{"amd_cores_0", {{"amd.com/gpu", "1"}, {"amd.com/gpucores", "0"}}, "refused amd.com/gpucores: ...1 to 100"},
        Row{"amd_cores_101",
            {{"amd.com/gpu", "1"}, {"amd.com/gpucores", "101"}},
            "refused amd.com/gpucores: ...1 to 100"},
        Row{"amd_cores_100", {{"amd.com/gpu", "1"}, {"amd.com/gpucores", "100"}}, "amd whole 1"},
        Row{"amd_without_count", {{"amd.com/gpumem", "4096"}}, "refused amd.com/gpumem: ...amd.com/gpu: 1"},
        Row{"amd_partition", {{"amd.com/cpx_nps4", "3"}}, "amd partition 3 [profile==cpx_nps4]"},
        Row{"amd_spx", {{"amd.com/spx_nps1", "1"}}, "amd partition 1 [profile==spx_nps1]"},
        Row{"amd_every_mode",
            {{"amd.com/dpx_nps2", "1"}, {"amd.com/qpx_nps4", "1"}, {"amd.com/tpx_nps1", "1"}},
            "amd partition 1 [profile==dpx_nps2] + amd partition 1 [profile==qpx_nps4] + amd partition 1 "
            "[profile==tpx_nps1]"},
        Row{"amd_no_partition", {{"amd.com/cpx_nps3", "1"}}, "refused amd.com/cpx_nps3: ...has this name"},
        Row{"amd_bytes", {{"amd.com/gpu", "1"}, {"amd.com/gpumem", "4Gi"}}, "refused amd.com/gpumem: ...write 4096"},
        Row{"amd_restricted",
            {{"amd.com/gpu", "1"}},
            "amd whole 1 [model has mi300x] [model has no mi210] [uuid in a] [uuid not in b]",
            {{"amd.com/use-gputype", "MI300X"},
             {"amd.com/nouse-gputype", "MI210"},
             {"amd.com/use-gpu-uuid", "a"},
             {"amd.com/nouse-gpu-uuid", "b"}}}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    WholeCards, Vendors,
    ::testing::ValuesIn(std::vector<Row>{
        Row{"vastai", {{"vastaitech.com/va", "2"}}, "vastai whole 2"},
        Row{"vastai_restricted",
            {{"vastaitech.com/va", "1"}},
            "vastai whole 1 [model has v] [model has no w] [uuid in a] [uuid not in b]",
            {{"vastaitech.com/use-va", "V"},
             {"vastaitech.com/nouse-va", "W"},
             {"vastaitech.com/use-gpuuuid", "a"},
             {"vastaitech.com/nouse-gpuuuid", "b"}}},
        Row{"vastai_memory",
            {{"vastaitech.com/va-memory", "1"}},
            "refused vastaitech.com/va-memory: ...vastaitech.com/va"},
        Row{"biren", {{"birentech.com/gpu", "1"}}, "biren whole 1"},
        Row{"biren_restricted",
            {{"birentech.com/gpu", "1"}},
            "biren whole 1 [uuid in a]",
            {{"birentech.com/use-gpuuuid", "a"}}},
        Row{"intel_i915", {{"gpu.intel.com/i915", "2"}}, "intel whole 2 [kernelDriver==i915]"},
        Row{"intel_xe", {{"gpu.intel.com/xe", "1"}}, "intel whole 1 [kernelDriver==xe]"},
        Row{"intel_both_drivers",
            {{"gpu.intel.com/i915", "1"}, {"gpu.intel.com/xe", "1"}},
            "intel whole 1 [kernelDriver==i915] + intel whole 1 [kernelDriver==xe]"},
        Row{"ppu", {{"alibabacloud.com/ppu", "2"}}, "thead whole 2"},
        Row{"ppu_part",
            {{"alibabacloud.com/ppu-1g", "1"}},
            "refused alibabacloud.com/ppu-1g: ...alibabacloud.com/ppu: 1 for a whole card"},
        Row{"ppu_domain_is_shared", {{"alibabacloud.com/eni", "1"}}, "nothing"},
        Row{"intel_monitoring",
            {{"gpu.intel.com/i915_monitoring", "1"}},
            "refused gpu.intel.com/i915_monitoring: ...adminAccess"},
        Row{"intel_all_monitoring",
            {{"gpu.intel.com/monitoring", "1"}},
            "refused gpu.intel.com/monitoring: ...adminAccess"},
        Row{"intel_xe_monitoring",
            {{"gpu.intel.com/xe_monitoring", "1"}},
            "refused gpu.intel.com/xe_monitoring: ...adminAccess"},
        Row{"gaudi", {{"habana.ai/gaudi", "8"}, {"memory", "400Gi"}, {"hugepages-2Mi", "20Gi"}}, "habana whole 8"},
        Row{"tpu", {{"google.com/tpu", "4"}}, "google whole 4"},
        Row{"gaudi_unknown", {{"habana.ai/goya", "1"}}, "refused habana.ai/goya: ...habana.ai/gaudi"},
        Row{"two_vendors", {{"nvidia.com/gpu", "1"}, {"amd.com/gpu", "2"}}, "amd whole 2 + nvidia whole 1"}}),
    name_of);

}  // namespace
}  // namespace heddle::dialects::testing
