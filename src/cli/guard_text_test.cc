#include "cli/guard_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/temporary_folder.h"
#include "base/unique_fd.h"
#include "cli/guard_selftest.h"

namespace heddle::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kMiB = int64_t{1} << 20;

GuardView view() {
  guard::ClaimLimits limits{
      "uid-1", "gpu", {{"GPU-1", 3000 * kMiB, 30, false, 0}, {"GPU-2", 80000 * kMiB, 100, true, 0}}, {}, 0, 0};
  guard::UsageReport usage;
  usage.devices = {{"GPU-1", 512 * kMiB, 0}, {"GPU-2", 0, 0}};
  usage.processes = {{{7, 1, 100}, 10, 2000000, {512 * kMiB, 0}, {0, 0}}};
  usage.throttled_ns = 2000000000;
  return {"/s/claims/uid-1/gpu", limits, {{0.8, 0.95, true}, {}}, usage};
}

TEST(GuardText, ShowsWhatIsGivenTakenAndLent) {
  const std::string text = guard_table({view()});
  EXPECT_THAT(text, testing::ContainsRegex("uid-1 +gpu +GPU-1 +512Mi +3000Mi +30% +80.0% +0.95 +1 +2.0s"));
  EXPECT_THAT(text, testing::ContainsRegex("GPU-2 +0Mi +whole card +- +all +- +1 +2.0s"));
  EXPECT_THAT(guard_table({}), HasSubstr("no claim"));
}

TEST(GuardText, NamesTheJobsOfAMachine) {
  const auto jobs =
      guard_jobs(R"({"jobs":[{"id":27,"name":"tr\u001bain","claim":"uid-1"},{"id":28,"name":"","claim":"u"},
                                  {"id":29,"name":"of an earlier Heddle"}]})");
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[1].label, "28");
  std::vector<GuardView> views = {view(), view()};
  views[1].limits.claim_uid = "of nobody";
  name_jobs(views, jobs);
  EXPECT_THAT(guard_table(views), testing::ContainsRegex("JOB +CLAIM"));
  EXPECT_THAT(guard_table(views), testing::ContainsRegex("27 \\(tr.ain\\) +uid-1 +gpu"));
  EXPECT_THAT(guard_table(views), testing::ContainsRegex("- +of nobody +gpu"));
  EXPECT_EQ(nlohmann::json::parse(guard_json(views))["claims"][0]["job"], 27);
  EXPECT_FALSE(nlohmann::json::parse(guard_json(views))["claims"][1].contains("job"));
  EXPECT_TRUE(guard_jobs("nonsense").empty());
}

TEST(GuardText, ManagedMemoryBeyondTheGrantIsToldApart) {
  GuardView beyond = view();
  beyond.limits.devices[0].virtual_bytes = 9000 * kMiB;
  beyond.usage->devices[0].managed_bytes = 4000 * kMiB;
  beyond.usage->devices[0].managed_resident_bytes = 100 * kMiB;
  EXPECT_THAT(guard_table({beyond}), HasSubstr("512Mi + 4000Mi managed"));
  EXPECT_THAT(guard_table({beyond}), HasSubstr("3000Mi (9000Mi virtual)"));
  const auto json = nlohmann::json::parse(guard_json({beyond}));
  EXPECT_EQ(json["claims"][0]["devices"][0]["virtualBytes"], 9000 * kMiB);
  EXPECT_EQ(json["claims"][0]["devices"][0]["managedBytes"], 4000 * kMiB);
  EXPECT_EQ(json["claims"][0]["devices"][0]["managedResidentBytes"], 100 * kMiB);
  EXPECT_FALSE(json["claims"][0]["devices"][1].contains("virtualBytes"));
}

TEST(GuardText, AWordThatIsOldOrOfAStrictClaimDoesNotCount) {
  GuardView old = view();
  old.hints[0].fresh = false;
  EXPECT_THAT(guard_table({old}), testing::ContainsRegex("3000Mi +30% +30.0% +- "));
  GuardView strict = view();
  strict.limits.flags.strict_share = true;
  EXPECT_THAT(guard_table({strict}), testing::ContainsRegex("3000Mi +30% +30.0% "));
}

TEST(GuardText, ShowsWhatATenantThatGivesWayHas) {
  GuardView giving = view();
  giving.limits.devices[0].cores_percent = 0;
  giving.limits.devices[0].gives_way = true;
  giving.hints[0].rate = 0;
  EXPECT_THAT(guard_table({giving}), testing::ContainsRegex("3000Mi +- +0.0% "));
  EXPECT_EQ(nlohmann::json::parse(guard_json({giving}))["claims"][0]["devices"][0]["givesWay"], true);
  GuardView alone = giving;
  alone.hints[0].rate = 1;
  EXPECT_THAT(guard_table({alone}), testing::ContainsRegex("3000Mi +- +all "));
  EXPECT_THAT(guard_changes(alone, giving), ElementsAre("GPU-1 may be used 0.0% now (gives way)"));
  alone.hints[0].fresh = false;
  EXPECT_THAT(guard_table({alone}), testing::ContainsRegex("3000Mi +- +all ")) << "nobody tells it anything";
}

TEST(GuardText, SaysWhyAnAccountCannotBeRead) {
  GuardView damaged = view();
  damaged.usage = fail(Code::kInvalidArgument, "the usage file is cut");
  EXPECT_THAT(guard_table({damaged}), HasSubstr("/s/claims/uid-1/gpu: the usage file is cut"));
  const auto json = nlohmann::json::parse(guard_json({damaged, view()}));
  EXPECT_EQ(json["claims"][0]["usageError"], "the usage file is cut");
  EXPECT_EQ(json["claims"][1]["devices"][0]["chargedBytes"], 512 * kMiB);
  EXPECT_EQ(json["claims"][1]["devices"][0]["rate"], 0.8);
  EXPECT_FALSE(json["claims"][1]["devices"][1].contains("rate"));
}

TEST(GuardText, TellsEveryChangeOnce) {
  const GuardView before = view();
  EXPECT_THAT(guard_changes(before, before), IsEmpty());
  GuardView after = view();
  after.usage->devices[0].charged_bytes = 256 * kMiB;
  after.usage->processes[0].launches = 15;
  after.usage->processes[0].throttled_ns = 4500000;
  after.usage->processes.push_back({{8, 1, 101}, 0, 0, {0, 0}, {0, 0}});
  after.hints[0].rate = 0.3;
  EXPECT_THAT(guard_changes(before, after),
              ElementsAre("GPU-1 charged 256Mi (-256Mi)", "GPU-1 may be used 30.0% now (its share: 30%)",
                          "process 7 launched 5, held back 2.5 ms", "process 8 began"));
  EXPECT_THAT(guard_changes(after, before), testing::Contains("process 8 ended"));
}

TEST(GuardText, FindsTheClaimsOfAStateFolder) {
  const TemporaryFolder temporary;
  const std::string& state = temporary.path();
  EXPECT_FALSE(guard_folders(state));
  const GuardView made = view();
  const std::string folder = state + "/claims/uid-1/gpu";
  ASSERT_TRUE(make_directories(folder, 0755));
  ASSERT_TRUE(make_directories(state + "/claims/other/no-guard", 0755));
  ASSERT_TRUE(write_file_atomic(folder + "/limits", guard::encode_limits(made.limits).value(), 0644));
  EXPECT_THAT(guard_folders(state).value(), ElementsAre(folder));
  auto look = look_at_guard(folder, 1000);
  ASSERT_TRUE(look);
  EXPECT_FALSE(look->usage) << "the file is not there";
  EXPECT_EQ(look->limits.devices.size(), 2u);
  EXPECT_FALSE(look->hints.at(0).fresh);
}

constexpr int64_t kLimit = 1024 * kMiB;

ProbeAnswers good_answers() {
  return parse_answers(
      "uuid GPU-1\ntotal 1073741824\ncontext 0\ninfo 0\nshown_total 1073741824\nshown_free 800000000\nbeyond 2\n"
      "piece 67108864\nfilled 11\nfill_code 2\nfull_info 0\nfull_free 1000\nagain 0\n");
}

TEST(GuardSelftest, HoldsOnlyWhenEverythingIsAsItShouldBe) {
  EXPECT_TRUE(all_good(judge_probe(good_answers(), kLimit, 0, 0)));
  EXPECT_THAT(verdict_text(judge_probe(good_answers(), kLimit, 0, 0)), HasSubstr("The guard holds here."));
  struct Case {
    const char* name;
    const char* value;
    const char* check;
  };
  const Case cases[] = {{"total", "80000000000", "total"},
                        {"context", "999", "context"},
                        {"shown_total", "80000000000", "info"},
                        {"beyond", "0", "beyond"},
                        {"beyond", "1", "beyond"},
                        {"filled", "64", "fill"},
                        {"fill_code", "0", "fill"},
                        {"full_free", "18446744073709551615", "full"},
                        {"again", "2", "again"},
                        {"free_code", "1", "again"},
                        {"error", "it died", "driver"}};
  for (const Case& c : cases) {
    ProbeAnswers answers = good_answers();
    answers[c.name] = c.value;
    const auto checks = judge_probe(answers, kLimit, 0, 0);
    EXPECT_FALSE(all_good(checks)) << c.name;
    for (const Check& check : checks) EXPECT_EQ(check.good, check.name != c.check) << c.name << " " << check.name;
    EXPECT_THAT(verdict_text(checks), HasSubstr("does NOT hold"));
  }
  EXPECT_FALSE(all_good(judge_probe(good_answers(), kLimit, 4096, 0)));
  EXPECT_FALSE(all_good(judge_probe(good_answers(), kLimit, 0, 3)));
  EXPECT_FALSE(all_good(judge_probe({}, kLimit, 0, 0))) << "a probe that said nothing";
}

}  // namespace
}  // namespace heddle::cli
