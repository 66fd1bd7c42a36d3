// The same core over ACL and the runtime, against the simulated NPUs: what is charged is what the device holds, and two
// processes never pass the limit together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <regex>

#include "guard/harness.h"
#include "guard/ticking.h"
#include "test/harness.h"

namespace heddle::guard::test {
namespace {

using nvsim::test::Finished;
using nvsim::test::Process;
using ::testing::HasSubstr;

constexpr int64_t kContext = 100 * kMiB;

class AscendGuardTest : public testing::Test {
 protected:
  AscendGuardTest() {
    std::ofstream(folder_.path("cards.yaml")) << "cards: [{model: 910B4, count: 2}]\n";
    const Finished made = tool({"create", "--config", folder_.path("cards.yaml")});
    EXPECT_EQ(made.code, 0) << made.output;
  }
  [[nodiscard]] Finished tool(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), ASCENDSIM_TOOL);
    arguments.insert(arguments.end(), {"--root", folder_.path("machine")});
    return Process(arguments, {}).finish();
  }
  // Limits of the NPU with this physical id alone.
  void give(int64_t mib, int cores = 0, int64_t number = 0) const {
    DeviceLimit limit{"0A1B2C3D-00000000-11111111-22222222-33333333", mib * kMiB, cores, false, kContext, number};
    write_guard_files(folder_.path(), limits_for({limit}));
  }
  [[nodiscard]] std::unique_ptr<Process> start(std::vector<std::string> steps,
                                               const std::string& more = "HEDDLE_TEST=1") const {
    steps.insert(steps.begin(), ASCENDSIM_RUN);
    return std::make_unique<Process>(
        steps, std::vector<std::string>{"ASCENDSIM_ROOT=" + folder_.path("machine"), more, quota_, priority_, fixed_,
                                        place_, std::string("LD_LIBRARY_PATH=") + ASCENDSIM_LIBRARIES,
                                        std::string("LD_PRELOAD=") + ASCEND_GUARD, "HEDDLE_GUARD_DIR=" + guard_dir_});
  }
  [[nodiscard]] Finished run(std::vector<std::string> steps, const std::string& more = "HEDDLE_TEST=1") const {
    return start(std::move(steps), more)->finish();
  }
  // What the machine says that its processes hold.
  [[nodiscard]] int64_t taken() const {
    const std::string text = tool({"show"}).output;
    int64_t bytes = 0;
    const std::regex line("  pid [0-9]+  memory ([0-9]+) KiB");
    for (auto at = std::sregex_iterator(text.begin(), text.end(), line); at != std::sregex_iterator(); ++at) {
      bytes += std::stoll((*at)[1]) * 1024;
    }
    return bytes;
  }
  [[nodiscard]] int64_t charged_now() const { return charged(folder_.path(), 0); }

  // Of a step share=; -1: there is none.
  static double share_of(const Finished& done) {
    const size_t at = done.output.find("share=");
    EXPECT_EQ(done.code, 0) << done.output;
    return at == std::string::npos ? -1 : std::atof(done.output.c_str() + at + 6);
  }

  Folder folder_;
  std::string guard_dir_ = folder_.path();
  // HAMi's variables.
  std::string quota_ = "NPU_MEM_QUOTA=", priority_ = "NPU_PRIORITY=", fixed_ = "NPU_FIXED_SHARE_RATIO=";
  std::string place_ = "NPU_LOCAL_SHM_PATH=" + folder_.path("vnpu_local_shmem");
};

TEST_F(AscendGuardTest, EveryFamilyIsChargedWithWhatTheDeviceTakes) {
  give(3000);
  const std::vector<std::string> steps = {"launch=10*1", "alloc=100Mi",   "small=5Ki", "alloc=700Ki", "rt-alloc=3Mi",
                                          "dvpp=7Mi",    "physical=64Mi", "free-all",  "alloc=11Mi",  "reset"};
  std::vector<std::string> all;
  for (const std::string& step : steps) all.insert(all.end(), {step, "ready"});
  const auto process = start(all);
  for (const std::string& step : steps) {
    ASSERT_EQ(process->wait_line("ready"), "ready") << step;
    EXPECT_EQ(charged_now(), taken()) << "after " << step;
    const bool context_alone = step == "launch=10*1";
    EXPECT_EQ(charged_now() == kContext, context_alone || step == "free-all");
    EXPECT_EQ(charged_now() == 0, step == "reset");
    const auto report = read_usage(folder_.path("usage"));
    EXPECT_TRUE(report && report->launches == 1) << step;
    process->signal(SIGUSR1);
  }
  EXPECT_EQ(process->finish().code, 0);
}

TEST_F(AscendGuardTest, BeyondTheLimitEachLayerAnswersOutOfMemoryAndQueriesShowTheShare) {
  give(3000);
  const Finished done = run({"mem", "alloc=2800Mi", "mem", "expect-oom=200Mi", "rt-expect-oom=200Mi",
                             "physical-oom=200Mi", "alloc=50Mi", "mem", "free-all", "mem"});
  EXPECT_EQ(done.code, 0) << done.output;
  // A context of 100 MiB; ACL's 32 bytes more make one page of 2 MiB more.
  EXPECT_EQ(done.output, "free=2900 total=3000\nfree=98 total=3000\nfree=46 total=3000\nfree=2900 total=3000\n");
  EXPECT_EQ(run({"mem"}).output, "free=2900 total=3000\n") << "what the first one left is swept";
}

TEST_F(AscendGuardTest, ProcessesTogetherNeverPassTheLimit) {
  give(2000);
  std::vector<std::unique_ptr<Process>> processes;
  for (int i = 0; i < 6; ++i) processes.push_back(start({"ready", "fill=30Mi", "ready"}));
  for (const auto& process : processes) ASSERT_EQ(process->wait_line("ready"), "ready");
  for (const auto& process : processes) process->signal(SIGUSR1);
  int64_t chunks = 0;
  for (const auto& process : processes) {
    const std::string line = process->wait_line("filled=");
    EXPECT_THAT(line, HasSubstr("code=207001"));
    chunks += std::atoll(line.c_str() + 7);
    ASSERT_EQ(process->wait_line("ready"), "ready");
  }
  EXPECT_EQ(taken(), charged_now());
  EXPECT_LE(taken(), 2000 * kMiB);
  EXPECT_EQ(chunks, (2000 - 600) / 32) << "and nothing of it is left unused";

  // Killed with all that they hold: nothing stays charged.
  for (const auto& process : processes) process->signal(SIGKILL);
  for (const auto& process : processes) process->finish();
  EXPECT_EQ(taken(), 0);
  EXPECT_EQ(run({"mem", "alloc=1890Mi"}).output, "free=1900 total=2000\n");
}

TEST_F(AscendGuardTest, TheLimitIsThatOfTheDeviceHoweverTheProgramNumbersIt) {
  give(1000, 0, 1);
  EXPECT_EQ(run({"mem"}, "ASCEND_RT_VISIBLE_DEVICES=1").output, "free=900 total=1000\n");
  EXPECT_EQ(run({"device=1", "expect-oom=1Gi"}).code, 0);
  // The other one is not in the limits: no memory at all.
  EXPECT_EQ(run({"expect-oom=1Mi"}).code, 0);
}

TEST_F(AscendGuardTest, PhysicalMemoryIsThatOfTheDeviceThatItNames) {
  const std::string first = "0A1B2C3D-00000000-11111111-22222222-33333333";
  const std::string second = "0A1B2C3D-00000000-11111111-22222222-44444444";
  write_guard_files(folder_.path(), limits_for({{first, 1000 * kMiB, 0, false, kContext, 0},
                                                {second, 300 * kMiB, 0, false, kContext, 1}}));
  const auto process = start({"physical-on=1", "physical=200Mi", "ready", "physical-oom=102Mi", "physical=100Mi",
                              "physical-on=0", "physical=500Mi", "ready", "free-all", "ready"});
  ASSERT_EQ(process->wait_line("ready"), "ready");
  EXPECT_EQ(charged(folder_.path(), 0), kContext);
  EXPECT_EQ(charged(folder_.path(), 1), 200 * kMiB);
  process->signal(SIGUSR1);
  ASSERT_EQ(process->wait_line("ready"), "ready");
  EXPECT_EQ(charged(folder_.path(), 0), kContext + 500 * kMiB);
  EXPECT_EQ(charged(folder_.path(), 1), 300 * kMiB);
  EXPECT_EQ(taken(), kContext + 800 * kMiB);
  process->signal(SIGUSR1);
  ASSERT_EQ(process->wait_line("ready"), "ready");
  EXPECT_EQ(charged(folder_.path(), 0), kContext);
  EXPECT_EQ(charged(folder_.path(), 1), 0);
  process->signal(SIGUSR1);
  EXPECT_EQ(process->finish().code, 0);
}

TEST_F(AscendGuardTest, WithoutLimitsEveryCallPasses) {
  EXPECT_EQ(run({"mem", "alloc=20Gi"}).output, "free=32668 total=32768\n");
}

TEST_F(AscendGuardTest, DamagedLimitsRefuseMemory) {
  give(1000);
  std::ofstream(folder_.path("limits"), std::ios::in | std::ios::out) << "x";
  EXPECT_EQ(run({"expect-oom=1Mi", "rt-expect-oom=1Mi"}).code, 0);
}

TEST_F(AscendGuardTest, AShareOfComputeHoldsForBothLayers) {
  for (const char* step : {"share=2000:3000", "share=20000:3000"}) {
    ::unlink(folder_.path("usage").c_str());
    give(1000, 30);
    const double share = share_of(run({step}));
    std::printf("%s under 30 %%: %.1f %%\n", step, share);
    EXPECT_GT(share, 24);
    EXPECT_LT(share, 34);
  }
}

// The law of two tenants of an NPU, as share_test.cc has it for CUDA: what the owner of 70 leaves idle is lent, and
// comes back. Bounds are as generous as there.
TEST_F(AscendGuardTest, TenantsOfOneNpuGetTheirSharesAndWhatIsIdleIsLent) {
  const Folder other;
  give(1000, 30);
  write_guard_files(
      other.path(),
      limits_for({{"0A1B2C3D-00000000-11111111-22222222-33333333", 1000 * kMiB, 70, false, kContext, 0}}));
  const Ticking ticking(
      {{"a", folder_.path("limits"), folder_.path("usage")}, {"b", other.path("limits"), other.path("usage")}});
  const double alone = share_of(run({"share=1000:1000"}));
  const auto a = start({"ready", "share=1000:2000"});
  guard_dir_ = other.path();
  const auto b = start({"ready", "share=1000:2000"});
  for (const auto* tenant : {&a, &b}) ASSERT_EQ((*tenant)->wait_line("ready"), "ready");
  for (const auto* tenant : {&a, &b}) (*tenant)->signal(SIGUSR1);
  const double shared = share_of(a->finish());
  const double owner = share_of(b->finish());
  std::printf("30 alone: %.1f %%; beside a busy 70: %.1f %% and %.1f %%\n", alone, shared, owner);
  EXPECT_GE(alone, 55);
  EXPECT_LE(shared, 40);
  EXPECT_GE(shared, 12);
  EXPECT_GE(owner, 40);
}

TEST_F(AscendGuardTest, HamisQuotaLowersTheLimitAndNeverRaisesIt) {
  give(3000);
  quota_ = "NPU_MEM_QUOTA=2000";
  EXPECT_EQ(run({"mem", "expect-oom=1950Mi", "rt-expect-oom=1950Mi"}).output, "free=1900 total=2000\n");
  for (const char* more : {"9000", "3001", "0", "", "2000MB", "-1", "99999999999999999999999"}) {
    quota_ = std::string("NPU_MEM_QUOTA=") + more;
    EXPECT_EQ(run({"mem", "expect-oom=2950Mi"}).output, "free=2900 total=3000\n") << more;
  }
  // A whole NPU: what it was granted is all of it.
  DeviceLimit whole{"0A1B2C3D-00000000-11111111-22222222-33333333", 32768 * kMiB, 100, true, kContext, 0};
  ::unlink(folder_.path("usage").c_str());
  write_guard_files(folder_.path(), limits_for({whole}));
  quota_ = "NPU_MEM_QUOTA=2000";
  EXPECT_EQ(run({"mem", "expect-oom=1950Mi"}).output, "free=1900 total=2000\n");
}

TEST_F(AscendGuardTest, WithoutAClaimHamisQuotaIsTheLimitOfAllProcessesTogether) {
  quota_ = "NPU_MEM_QUOTA=2000";
  const auto first = start({"mem", "alloc=1500Mi", "ready"});
  EXPECT_THAT(first->wait_line("free="), HasSubstr("total=2000"));
  ASSERT_EQ(first->wait_line("ready"), "ready");
  EXPECT_EQ(run({"expect-oom=600Mi", "alloc=400Mi"}).code, 0);
  EXPECT_EQ(run({"device=1", "alloc=1900Mi", "expect-oom=200Mi"}).code, 0) << "each NPU has as much";
  first->signal(SIGKILL);
  first->finish();
  EXPECT_EQ(run({"alloc=1900Mi"}).code, 0) << "what a killed one had is free again";
  place_ = "NPU_LOCAL_SHM_PATH=/nowhere/at/all";
  EXPECT_EQ(run({"expect-oom=1Mi"}).code, 0) << "memory is refused where it cannot be counted";
}

TEST_F(AscendGuardTest, HamisFixedShareLowersTheShareAndAPlainPriorityIsNone) {
  const auto share = [this](const std::string& priority, const std::string& fixed) {
    ::unlink(folder_.path("usage").c_str());
    give(1000, 50);
    priority_ = "NPU_PRIORITY=" + priority;
    fixed_ = "NPU_FIXED_SHARE_RATIO=" + fixed;
    return share_of(run({"share=2000:2000"}));
  };
  const double lowered = share("20", "true");
  EXPECT_GT(lowered, 5);
  EXPECT_LT(lowered, 27);
  for (const double same : {share("80", "1"), share("20", "0")}) {
    EXPECT_GT(same, 30);
    EXPECT_LT(same, 57);
  }
}

}  // namespace
}  // namespace heddle::guard::test
