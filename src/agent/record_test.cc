#include "agent/record.h"

#include <gtest/gtest.h>

namespace heddle::agent {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

GrantedDevice device(const std::string& request, const std::string& uuid, int64_t mib, int64_t cores) {
  return {request, "n/nvidia", "gpu-0", "share", uuid, 0, 8192 * kMiB, mib * kMiB, cores};
}

ClaimRecord claim(const std::string& uid, std::vector<GrantedDevice> devices) {
  return {uid, "ns", "claim-" + uid, std::move(devices), {{"pod", "pod-uid"}}, "v", "boot"};
}

TEST(Record, RoundTrip) {
  const ClaimRecord record = claim("u1", {device("r", "GPU-1", 3000, 30)});
  const auto back = parse_record(record_json(record));
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(*back, record);
  EXPECT_EQ(record_json(record).find("Instance"), std::string::npos) << "cards are written as before";
  ClaimRecord part = record;
  part.devices[0].gpu_instance = 9;
  part.devices[0].compute_instance = 0;
  const auto part_back = parse_record(record_json(part));
  ASSERT_TRUE(part_back) << part_back.error().text();
  EXPECT_EQ(*part_back, part);
  for (const char* text : {"", "{}", "{\"format\":2}", "[1]"}) EXPECT_FALSE(parse_record(text)) << text;
}

TEST(CheckCapacity, IsExactAndKnowsExclusiveShares) {
  const std::vector<ClaimRecord> held = {claim("a", {device("r", "GPU-1", 5000, 50)})};
  struct Case {
    const char* name;
    ClaimRecord wanted;
    bool fits;
  };
  const std::vector<Case> cases = {
      {"exactly what is left", claim("b", {device("r", "GPU-1", 3192, 50)}), true},
      {"one MiB more", claim("b", {device("r", "GPU-1", 3193, 0)}), false},
      {"one percent more", claim("b", {device("r", "GPU-1", 1, 51)}), false},
      {"another card", claim("b", {device("r", "GPU-2", 8192, 100)}), true},
      {"the same claim again", claim("a", {device("r", "GPU-1", 5000, 50)}), true},
      {"two shares in one claim add up", claim("b", {device("r", "GPU-1", 1600, 0), device("s", "GPU-1", 1600, 0)}),
       false},
      {"cores 100 is alone also with little memory", claim("b", {device("r", "GPU-1", 1, 100)}), false}};
  for (const Case& c : cases) {
    const auto result = check_capacity(held, c.wanted);
    EXPECT_EQ(result.has_value(), c.fits) << c.name;
    if (!result) {
      EXPECT_EQ(result.error().code, Code::kExhausted) << c.name;
    }
  }
  const std::vector<ClaimRecord> whole = {claim("w", {device("r", "GPU-1", 100, 100)})};
  const auto beside = check_capacity(whole, claim("b", {device("r", "GPU-1", 100, 0)}));
  ASSERT_FALSE(beside) << "nothing beside a share that has its card alone";
  EXPECT_NE(beside.error().message.find("ns/claim-w"), std::string::npos) << "names the holder";
}

TEST(PlanFolder, OneRequestHasItsFolderSeveralShareOne) {
  EXPECT_EQ(plan_folder(claim("a", {device("gpu", "GPU-1", 100, 10), device("gpu", "GPU-2", 100, 10)})).name, "gpu");
  const FolderPlan plan = plan_folder(
      claim("a", {device("x", "GPU-1", 100, 10), device("y", "GPU-1", 200, 20), device("y", "GPU-2", 1, 0)}));
  EXPECT_EQ(plan.name, "_claim");
  ASSERT_EQ(plan.devices.size(), 2U);
  EXPECT_EQ(plan.devices[0].memory_bytes, 300 * kMiB);
  EXPECT_EQ(plan.devices[0].cores, 30);
}

}  // namespace
}  // namespace heddle::agent
