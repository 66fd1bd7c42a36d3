// The guard's own code in a program that is built as the tests are, so with their sanitizers, which the library that
// goes into every program cannot have. The probe is linked to it instead of being given it by LD_PRELOAD; what looks
// names up (dlsym.cc) is left out.
#include <gtest/gtest.h>

#include "guard/harness.h"

namespace heddle::guard::test {
namespace {

class CheckedTest : public testing::Test {
 protected:
  CheckedTest() : machine_(folder_, {2, 8192, 300, 64}) {
    write_guard_files(folder_.path(), limits_for({{machine_.uuid(0), 4000 * kMiB, 60, false, 300 * kMiB},
                                                  {machine_.uuid(1), 2000 * kMiB, 0, false, 300 * kMiB}}));
  }
  [[nodiscard]] Probe start() const {
    Probe::Setup setup;
    setup.program = CHECKED_PROBE;
    setup.guarded = false;
    // Handles of the driver that the guard keeps lie in memory that no sanitizer looks into.
    setup.environment["ASAN_OPTIONS"] = "detect_leaks=0";
    return {folder_.path(), HEDDLE_SIM_LIBRARIES, setup};
  }
  static int64_t second(Probe& p, const std::string& line) {
    const auto answer = p.tell(line);
    EXPECT_EQ(answer.at(0), kOk) << line;
    return answer.size() > 1 ? answer[1] : 0;
  }

  Folder folder_;
  Machine machine_;
};

TEST_F(CheckedTest, EveryKindOfMemory) {
  Probe p = start();
  for (const char* line : {"init", "ctx 0", "stream"}) ASSERT_EQ(p.code(line), kOk) << line;
  std::vector<int64_t> plain;
  for (const char* line : {"alloc 1000", "alloc 3000000", "managed 5000000", "pitch 1000 1000"}) {
    plain.push_back(second(p, line));
  }
  const int64_t pooled = second(p, "async 7000000");
  EXPECT_EQ(charged(folder_.path(), 0), machine_.taken(0));
  EXPECT_EQ(p.code("alloc 5000000000"), kOutOfMemory);
  EXPECT_EQ(p.code("info"), kOk);
  EXPECT_EQ(p.code("free-async " + text(pooled)), kOk);
  EXPECT_EQ(p.code("sync"), kOk);
  for (const int64_t address : plain) EXPECT_EQ(p.code("free " + text(address)), kOk);
  const int64_t handle = second(p, "create 4194304");
  EXPECT_EQ(p.code("release-handle " + text(handle)), kOk);
  const int64_t array = second(p, "array 1000 1000");
  EXPECT_EQ(p.code("array-destroy " + text(array)), kOk);
  const int64_t module = second(p, "module 5000000 3000000");
  EXPECT_EQ(p.code("module-unload " + text(module)), kOk);
  EXPECT_EQ(charged(folder_.path(), 0), machine_.taken(0));
  EXPECT_EQ(p.end(), 0);
}

TEST_F(CheckedTest, LaunchesWaitsAndContextsThatEnd) {
  Probe p = start();
  ASSERT_EQ(p.code("init"), kOk);
  for (int i = 0; i < 3; ++i) {
    const int64_t context = second(p, "ctx 0");
    for (const char* line : {"stream", "kernel 300", "run 150 0", "run 100 3", "launch", "through event", "launch"}) {
      EXPECT_EQ(p.code(line), kOk) << line;
    }
    EXPECT_EQ(p.code("ctx-destroy " + text(context)), kOk);
  }
  EXPECT_GT(read_usage(folder_.path("usage"))->throttled_ns, 0);
  for (const char* line : {"ctx 0", "stream", "kernel 300", "graph 5 100", "retain 1", "release 1"}) {
    EXPECT_EQ(p.code(line), kOk) << line;
  }
  EXPECT_EQ(p.end(), 0);
}

TEST_F(CheckedTest, ManyThreadsAndAChild) {
  Probe p = start();
  for (const char* line : {"init", "ctx 0"}) ASSERT_EQ(p.code(line), kOk) << line;
  EXPECT_EQ(p.tell("storm 8 200 1000000").size(), 3u);
  EXPECT_EQ(charged(folder_.path(), 0), machine_.taken(0));
  EXPECT_GE(p.code("fork alloc 1048576"), 0);
  EXPECT_EQ(p.code("info"), kOk);
  EXPECT_EQ(p.end(), 0);
}

}  // namespace
}  // namespace heddle::guard::test
