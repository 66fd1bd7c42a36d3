#include "cli/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/layout.h"

namespace heddle::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kStatus = R"({"version":"0.1.0","node":"box","simulated":true,"machine":"h100x2","startedAt":"x",
"cards":[{"name":"gpu-0","simulated":true,"vendor":"nvidia","model":"NVIDIA H100","uuid":"GPU-1","index":0,"healthy":true,
"healthMessage":"","memoryBytes":10737418240,"grantedBytes":5368709120,"grantedCores":30,"holders":[{"job":1,
"memoryBytes":5368709120,"cores":30}]},
{"name":"gpu-1","simulated":true,"vendor":"nvidia","model":"NVIDIA H100","uuid":"GPU-2","index":1,"healthy":false,
"healthMessage":"XID 79","memoryBytes":10737418240,"grantedBytes":0,"grantedCores":0,"holders":[]}],
"jobs":[{"id":1,"name":"a","state":"running","owner":"ann","what":"5Gi of a card","request":{"command":["sleep","\u001b[31m1"]},
"position":0,"reasons":[],"shares":[{"card":"gpu-0","usedBytes":1048576,"memoryBytes":5368709120,"cores":30}]},
{"id":2,"name":"","state":"running","owner":"ann","what":"x","request":{"command":["b"]},
"position":0,"reasons":[],"shares":[{"card":"gpu-0","usedBytes":null,"memoryBytes":1,"cores":0}]},
{"id":3,"name":"","state":"waiting","owner":"bob","what":"8Gi of a card","request":{"command":["c"]},"position":1,
"reasons":[{"code":"Capacity","message":"8Gi wanted, 5Gi free on gpu-0"}],"shares":[]}],
"ended":[{"id":9,"name":"old","owner":"ann","endedAt":"2026-01-01T00:00:00Z","outcome":"done","request":{"command":["d"]}}]})";

TEST(StatusTable, SaysWhoHasWhatAndWhoWaits) {
  const auto text = status_table(kStatus, Ended::kHide, 0).value();
  EXPECT_THAT(text, HasSubstr("SIMULATED"));
  EXPECT_THAT(text, HasSubstr("[############............]  5120Mi of 10240Mi  30%"));
  EXPECT_THAT(text, HasSubstr("UNHEALTHY: XID 79"));
  EXPECT_THAT(text, HasSubstr("1. job 3: 8Gi wanted, 5Gi free on gpu-0"));
  EXPECT_THAT(text, HasSubstr("1Mi"));
  EXPECT_THAT(text, HasSubstr("gpu-0  -     b")) << "unknown usage is not 0";
  EXPECT_THAT(text, Not(HasSubstr("\x1b"))) << "a command line must not reach the terminal as it is";
  EXPECT_THAT(text, Not(HasSubstr("ENDED")));
  EXPECT_THAT(status_table(kStatus, Ended::kShow, 0).value(), HasSubstr("2026-01-01T00:00:00Z  done"));
}

TEST(StatusTable, WithQueuesEachJobSaysItsOwnAndPlacesAreInThem) {
  EXPECT_THAT(status_table(kStatus, Ended::kHide, 0).value(), Not(HasSubstr("QUEUE")));
  std::string status = kStatus;
  const std::string waits = R"("what":"8Gi of a card",)";
  status.insert(status.find(waits), R"("queue":"training",)");
  const auto text = status_table(status, Ended::kHide, 0).value();
  EXPECT_THAT(text, HasSubstr("USER  QUEUE     STATE"));
  EXPECT_THAT(text, HasSubstr("bob   training  waiting"));
  EXPECT_THAT(text, HasSubstr("ann   -         running"));
  EXPECT_THAT(text, HasSubstr("  training 1. job 3: 8Gi wanted"));
}

TEST(StatusTable, FitsTheTerminal) {
  std::istringstream lines(status_table(kStatus, Ended::kShow, 40).value());
  std::string line;
  std::getline(lines, line);  // the heading may be longer
  while (std::getline(lines, line)) EXPECT_LE(line.size(), 40U) << line;
}

TEST(StatusTable, AtEightyColumnsAmountsAndReasonsAreWhole) {
  std::string status = kStatus;
  const auto put = [&status](const std::string& old, const std::string& with) {
    const size_t at = status.find(old);
    ASSERT_NE(at, std::string::npos) << old;
    status.replace(at, old.size(), with);
  };
  put("NVIDIA H100", "NVIDIA H100 80GB HBM3");
  put(R"("what":"5Gi of a card")", R"("what":"5000Mi and 30% of the compute of a card")");
  put("8Gi wanted, 5Gi free on gpu-0",
      "8Gi wanted, 5Gi free on gpu-0, and that is held by job 1 of ann and job 2 of ann: fits when job 1 ends");
  const auto text = status_table(status, Ended::kHide, 80).value();
  EXPECT_THAT(text, testing::ContainsRegex("5120Mi of 10240Mi +30% +1\n"));
  EXPECT_THAT(text, HasSubstr("5000Mi, 30%  gpu-0"));
  EXPECT_THAT(text, HasSubstr("sleep ?[31m1\n"));
  EXPECT_THAT(text, HasSubstr("  1. job 3: 8Gi wanted, 5Gi free on gpu-0, and that is held by job 1 of ann and\n"
                              "    job 2 of ann: fits when job 1 ends\n"));
  EXPECT_THAT(status_table(status, Ended::kHide, 200).value(),
              HasSubstr("5000Mi and 30% of the compute of a card  gpu-0"))
      << "where there is room nothing is shorter";
}

TEST(Wrap, BreaksAtSpacesAndLongWordsWhereTheLineEnds) {
  EXPECT_EQ(wrap("a text", 0, 2), "a text");
  EXPECT_EQ(wrap("one two three", 13, 2), "one two three");
  EXPECT_EQ(wrap("one two three", 8, 2), "one two\n  three");
  EXPECT_EQ(wrap("one two three", 7, 2), "one two\n  three");
  EXPECT_EQ(wrap("  abcdefghij kl", 6, 1), "  abcd\n efghi\n j kl");
  EXPECT_EQ(wrap("\u00e4\u00f6 \u00fc\u00df\u00e4", 4, 0), "\u00e4\u00f6\n\u00fc\u00df\u00e4") << "columns, not bytes";
  EXPECT_EQ(wrap("ab", 1, 4), "ab") << "no room at all";
}

TEST(StatusTable, RefusesWhatItDoesNotUnderstand) {
  EXPECT_FALSE(status_table("{}", Ended::kHide, 0));
  EXPECT_FALSE(status_table("nonsense", Ended::kHide, 0));
  EXPECT_FALSE(job_text("[]"));
}

TEST(JobText, SaysWhyAJobWaits) {
  const auto text = job_text(
      R"({"id":3,"name":"n","state":"waiting","owner":"bob","what":"8Gi of a card","request":{"command":["c"]},"position":2,
      "submittedAt":"2026-01-01T00:00:00Z","grantedAt":null,"startedAt":null,
      "reasons":[{"code":"Capacity","message":"8Gi wanted"}],"shares":[]})");
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, HasSubstr("place      2 in the queue"));
  EXPECT_THAT(*text, HasSubstr("Capacity   8Gi wanted"));
}

TEST(JobText, SaysTheQueueWhereThereAreQueues) {
  const auto text = job_text(
      R"({"id":3,"name":"n","state":"waiting","owner":"bob","what":"8Gi of a card","request":{"command":["c"]},"position":2,
      "queue":"training","submittedAt":"x","grantedAt":null,"startedAt":null,"reasons":[],"shares":[]})");
  EXPECT_THAT(text.value(), HasSubstr("queue      training\n  place      2 in the queue\n"));
}

TEST(JobText, SaysWhatADetachedJobHadAndWhereItsOutputIs) {
  const auto text = job_text(
      R"({"id":3,"name":"n","state":"ended","owner":"bob","what":"8Gi of a card","request":{"command":["c"]},"position":0,
      "submittedAt":"2026-01-01T00:00:00Z","grantedAt":"2026-01-01T00:00:01Z","startedAt":"2026-01-01T00:00:02Z",
      "endedAt":"2026-01-01T00:00:03Z","outcome":"exit code 5\u001b[2J","output":"/state/jobs/3/output",
      "reasons":[],"shares":[{"card":"gpu-0","usedBytes":null,"memoryBytes":8589934592,"cores":30}]})");
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, HasSubstr("had        gpu-0: 8192Mi and 30% of the compute\n"));
  EXPECT_THAT(*text, HasSubstr("output     /state/jobs/3/output\n"));
  EXPECT_THAT(*text, HasSubstr("ended      2026-01-01T00:00:03Z: exit code 5?[2J"));
}

}  // namespace
}  // namespace heddle::cli
