// Huawei Ascend: section 4 of the facts. Templates come from the hardware catalogue.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "dialects/testing.h"

namespace heddle::dialects::testing {
namespace {

class Ascend : public ::testing::TestWithParam<Row> {};
TEST_P(Ascend, Says) {
  EXPECT_EQ(check(GetParam()), "");
}
std::string name_of(const ::testing::TestParamInfo<Row>& entry) {
  return entry.param.name;
}

Texts npu(const char* chip, const char* count, const char* memory = nullptr, const char* cores = nullptr) {
  const std::string base = std::string("huawei.com/Ascend") + chip;
  Texts out = {{base, count}};
  if (memory != nullptr) out[base + "-memory"] = memory;
  if (cores != nullptr) out[base + "-core"] = cores;
  return out;
}

const Texts kSoft = {{"huawei.com/vnpu-mode", "hami-core"}};

INSTANTIATE_TEST_SUITE_P(
    Hard, Ascend,
    ::testing::ValuesIn(std::vector<Row>{
        Row{"whole", npu("910B4", "2"), "ascend whole 2 [model in 910B4,Ascend910B4]"},
        Row{"chip_is_exact", npu("910B4-1", "1"), "ascend whole 1 [model in 910B4-1,Ascend910B4-1]"},
        Row{"p310_1", npu("310P", "1", "1"),
            "ascend template 1 3072Mi [model in 310P3,310P,Ascend310P3,Ascend310P] [profile==vir01]"},
        Row{"p310_3072", npu("310P", "1", "3072"), "ascend template 1 3072Mi ...[profile==vir01]"},
        Row{"p310_3073", npu("310P", "1", "3073"), "ascend template 1 6144Mi ...[profile==vir02]"},
        Row{"p310_12288", npu("310P", "1", "12288"), "ascend template 1 12288Mi ...[profile==vir04]"},
        Row{"p310_12289", npu("310P", "1", "12289"), "ascend whole 1 ..."},
        Row{"p310_21527", npu("310P", "1", "21527"), "ascend whole 1 ..."},
        Row{"p310_24576", npu("310P", "1", "24576"), "ascend whole 1 ..."},
        Row{"p310_24577", npu("310P", "1", "24577"), "refused huawei.com/Ascend310P-memory: ...24576 MiB"},
        Row{"a910", npu("910A", "1", "2000"), "ascend template 1 2184Mi [model in 910A,Ascend910A] [profile==vir02]"},
        Row{"a910_17476", npu("910A", "1", "17476"), "ascend template 1 17476Mi ...[profile==vir16]"},
        Row{"a910_17477", npu("910A", "1", "17477"), "ascend whole 1 ..."},
        Row{"b2", npu("910B2", "1", "8192"), "ascend template 1 8192Mi ...[profile==vir03_1c_8g]"},
        Row{"b2_32768", npu("910B2", "1", "32768"), "ascend template 1 32768Mi ...[profile==vir12_3c_32g]"},
        Row{"b3", npu("910B3", "1", "2000"), "ascend template 1 16384Mi ...[profile==vir05_1c_16g]"},
        Row{"b4", npu("910B4", "1", "2000"), "ascend template 1 8192Mi ...[profile==vir05_1c_8g]"},
        Row{"b4_1_is_not_b4", npu("910B4-1", "1", "16384"), "ascend template 1 16384Mi ...[profile==vir05_1c_16g]"},
        Row{"c", npu("910C", "1", "16384"),
            "ascend template 1 16384Mi [model in 910C,Ascend910C,Ascend910] [profile==vir05_1c_16g]"},
        Row{"c_module", npu("910C", "1"), "ascend whole 2 ..."},
        Row{"c_even", npu("910C", "4"), "ascend whole 4 ..."},
        Row{"c_odd", npu("910C", "3"), "refused huawei.com/Ascend910C: ...multiple of 2"},
        Row{"c_whole_by_memory", npu("910C", "1", "65536"), "ascend whole 2 ..."},
        Row{"several_templates", npu("910B4", "2", "8192"),
            "refused huawei.com/Ascend910B4-memory: ...a part of one NPU"},
        Row{"several_whole_by_memory", npu("910B4", "2", "32768"), "ascend whole 2 ..."},
        Row{"cores_need_soft", npu("910B4", "1", "8192", "25"),
            "refused huawei.com/Ascend910B4-core: ...vnpu-mode: hami-core"},
        Row{"without_count",
            {{"huawei.com/Ascend910B4-memory", "8192"}},
            "refused huawei.com/Ascend910B4-memory: ...huawei.com/Ascend910B4: 1"},
        Row{"zero", npu("910B4", "0", "0"), "nothing"},
        Row{"memory_0", npu("910B4", "1", "0"), "refused huawei.com/Ascend910B4-memory: ...leave the key out"},
        Row{"bytes", npu("910B4", "1", "8Gi"), "refused huawei.com/Ascend910B4-memory: ...write 8192"},
        Row{"old_910B", npu("910B", "1"), "refused huawei.com/Ascend910B: ...write the chip, huawei.com/Ascend910B2"},
        Row{"old_910B_memory", npu("910B", "1", "2000"),
            "refused huawei.com/Ascend910B: ...refused huawei.com/Ascend910B-memory: "},
        Row{"unknown_chip", npu("910B5", "1"),
            "refused huawei.com/Ascend910B5: ...nearest known one is huawei.com/Ascend910B"},
        Row{"uuid",
            npu("910B4", "1"),
            "ascend whole 1 [model in 910B4,Ascend910B4] [uuid in a] [uuid not in b]",
            {{"hami.io/use-Ascend910B4-uuid", "a"},
             {"hami.io/no-use-Ascend910B4-uuid", "b"},
             {"hami.io/use-Ascend910B4-1-uuid", "c"}}},
        Row{"uuid_of_the_npu_of_a_template",
            npu("910B4", "1", "16000"),
            "ascend template 1 16384Mi [model in 910B4,Ascend910B4] [profile==vir10_3c_16g] [parentUUID in a]",
            {{"hami.io/use-Ascend910B4-uuid", "a"}}},
        Row{"json_of_the_scheduler",
            npu("910B4", "1"),
            "ascend whole 1 [model in 910B4,Ascend910B4]",
            {{"huawei.com/Ascend910B4", R"([{"UUID":"x","temp":"vir05_1c_8g"}])"}, {"predicate-time", "1"}}},
        Row{"misplaced",
            npu("910B4", "1"),
            "refused @huawei.com/Ascend910B4-memory: ...use resources.limits",
            {{"huawei.com/Ascend910B4-memory", "8192"}}}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Soft, Ascend,
    ::testing::ValuesIn(std::vector<Row>{
        Row{"soft_exact", npu("910B4", "1", "5000"),
            "ascend share 1 5000Mi cores=0 [model in 910B4,Ascend910B4] [isolation==soft]", kSoft},
        Row{"soft_cores", npu("910B4", "1", "5000", "30"), "ascend share 1 5000Mi cores=30 ...", kSoft},
        Row{"soft_cores_0", npu("910B4", "1", "5000", "0"), "refused huawei.com/Ascend910B4-core: ...1 to 100", kSoft},
        Row{"soft_several_memory", npu("910B4", "2", "5000"), "refused huawei.com/Ascend910B4-memory: ...their sum",
            kSoft},
        Row{"soft_several_cores", npu("910B4", "2", nullptr, "30"), "ascend share 2 cores=30 ...", kSoft},
        Row{"soft_whole", npu("910B4", "2"), "ascend whole 2 ...", kSoft},
        Row{"soft_too_much", npu("910B4", "1", "32769"), "refused huawei.com/Ascend910B4-memory: ...32768 MiB", kSoft},
        Row{"enpu",
            npu("910B4", "1", "5000"),
            "refused @huawei.com/vnpu-mode: ...no mode that Heddle knows",
            {{"huawei.com/vnpu-mode", "enpu"}}}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    MindCluster, Ascend,
    ::testing::ValuesIn(std::vector<Row>{
        Row{"any_910", {{"huawei.com/Ascend910", "8"}}, "ascend whole 8 [model starts 910,Ascend910]"},
        Row{"a310", {{"huawei.com/Ascend310", "1"}}, "ascend whole 1 [model in 310,Ascend310]"},
        Row{"p310", {{"huawei.com/Ascend310P", "1"}}, "ascend whole 1 [model in 310P3,310P,Ascend310P3,Ascend310P]"},
        Row{"static_2c",
            {{"huawei.com/Ascend910-2c", "1"}},
            "ascend partition 1 [model starts 910,Ascend910] [profile==vir02]"},
        Row{"static_16c",
            {{"huawei.com/Ascend910-16c", "1"}},
            "ascend partition 1 [model starts 910,Ascend910] [profile==vir16]"},
        Row{"static_310",
            {{"huawei.com/Ascend310P-4c.3cpu", "1"}},
            "ascend partition 1 [model starts 310P,Ascend310P] [profile==vir04_3c]"},
        Row{"static_b",
            {{"huawei.com/Ascend910-5c.1cpu.16g", "1"}},
            "ascend partition 1 [model starts 910,Ascend910] [profile==vir05_1c_16g]"},
        Row{"static_bad", {{"huawei.com/Ascend910-c", "1"}}, "refused huawei.com/Ascend910-c: ...has this name"},
        Row{"npu_without_a_chip", {{"huawei.com/npu", "1"}}, "refused huawei.com/npu: ...names no chip"},
        Row{"old_910_memory",
            {{"huawei.com/Ascend910", "1"}, {"huawei.com/Ascend910-memory", "2000"}},
            "refused huawei.com/Ascend910-memory: ...huawei.com/Ascend910A-memory"},
        Row{"npu_core", {{"huawei.com/npu-core", "4"}}, "refused huawei.com/npu-core: ...huawei.com/Ascend<chip>"}}),
    name_of);

// What the hardware makes of a request is told to the user, and stands in the claim.
TEST(AscendRounding, IsNeverSilent) {
  const auto out = translate_pod(rules(), pod_json(npu("910B4", "1", "5000")), "0123456789");
  ASSERT_TRUE(out && out->refusals.empty());
  const std::string rounding =
      "huawei.com/Ascend910B4-memory: 5000 MiB asked, 8192 MiB granted, template vir05_1c_8g with 5 of 20 AI cores";
  ASSERT_EQ(out->requests.size(), 1U);
  EXPECT_EQ(out->requests[0].roundings, std::vector<std::string>{rounding});
  ASSERT_EQ(out->explanations.size(), 1U);
  EXPECT_NE(out->explanations[0].find(rounding), std::string::npos);
  const auto back = parse_requests(requests_json(out->requests));
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ((*back)[0].roundings, out->requests[0].roundings);
  const auto exact = translate_pod(rules(), pod_json(npu("910B4", "1", "8192")), "0123456789");
  EXPECT_TRUE(exact->requests[0].roundings.empty());
}

}  // namespace
}  // namespace heddle::dialects::testing
