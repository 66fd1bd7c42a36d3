// The machine as programs see it: several processes, death, faults, and what each can see.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <regex>

#include "test/harness.h"

namespace nvsim::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr long long kMi = 1 << 20;
constexpr const char* kTwoCards =
    "cards: [{model: H100, count: 2, memory: 10000Mi, reserved: 0, context-overhead: 300Mi}]";

// The line of a step in the output of nvsim-run.
std::string line_of(const std::string& output, const std::string& step) {
  const std::size_t at = ("\n" + output).rfind("\n" + step + " ");
  return at == std::string::npos ? "" : output.substr(at, output.find('\n', at) - at);
}

// Busy time of a process as `nvsim show` prints it, in seconds.
double busy_of(const std::string& shown, pid_t pid) {
  const std::regex pattern("pid " + std::to_string(pid) + " .*busy ([0-9.]+) s");
  std::smatch match;
  return std::regex_search(shown, match, pattern) ? std::stod(match[1]) : -1;
}

TEST(MachineTest, MemoryIsSharedByAllProcesses) {
  const SimulatedMachine machine(kTwoCards);
  Process first(machine.run_arguments({"alloc=3000Mi", "hold"}), machine.environment());
  ASSERT_THAT(first.wait_line("alloc"), HasSubstr("ok=1"));
  const Finished second = machine.run({"totals", "expect-oom=6402Mi", "alloc=6400Mi", "expect-oom=1", "nvml-memory",
                                       "nvml-processes", "device=1", "totals"});
  EXPECT_EQ(second.code, 0) << second.output;
  EXPECT_EQ(number(second.output, "free"), (10000 - 3300 - 300) * kMi);
  EXPECT_EQ(number(line_of(second.output, "nvml-memory"), "v2_used"), 10000 * kMi);
  EXPECT_EQ(number(line_of(second.output, "nvml-memory"), "free"), 0);
  EXPECT_EQ(number(line_of(second.output, "totals"), "free"), 9700 * kMi);
  EXPECT_THAT(second.output, HasSubstr(std::to_string(first.pid()) + ":3300"));
  first.signal(SIGTERM);
  EXPECT_EQ(first.finish().code, 0);
  EXPECT_EQ(number(machine.run({"totals"}).output, "free"), 9700 * kMi);
}

TEST(MachineTest, EveryFamilyIsChargedAndGivenBack) {
  const SimulatedMachine machine(kTwoCards);
  for (const char* family : {"plain", "managed", "async", "pool", "pitch", "vmm", "array", "mipmap"}) {
    const std::string step = std::string(family) == "plain" ? "alloc=100Mi" : std::string("alloc-") + family + "=100Mi";
    const Finished done = machine.run({"init", step, "totals"});
    EXPECT_EQ(done.code, 0) << done.output;
    EXPECT_EQ(number(line_of(done.output, "totals"), "free"), (10000 - 300 - 100) * kMi) << family;
    const std::string oom = std::string("expect-oom=") + family + ":9702Mi";
    const Finished after =
        machine.run({"init", step, "free", "sync", "totals", std::string(family) == "managed" ? "sync" : oom});
    EXPECT_EQ(after.code, 0) << after.output;
    if (std::string(family) != "pool") {  // a pool keeps what it has until it is destroyed or trimmed by a sync
      EXPECT_EQ(number(line_of(after.output, "totals"), "free"), 9700 * kMi) << family;
    }
  }
  const Finished host = machine.run({"alloc-host=100Mi", "totals"});
  EXPECT_EQ(number(line_of(host.output, "totals"), "free"), 9700 * kMi);
}

TEST(MachineTest, ManagedMemoryGoesToTheHostWhenOthersNeedTheRoom) {
  const SimulatedMachine machine(kTwoCards);
  Process first(machine.run_arguments({"alloc-managed=30000Mi", "hold"}), machine.environment());
  ASSERT_THAT(first.wait_line("alloc-managed"), HasSubstr("ok=1"));
  const Finished second = machine.run({"init", "totals", "alloc=9000Mi", "totals", "nvml-processes"});
  EXPECT_EQ(second.code, 0) << second.output;
  EXPECT_EQ(number(line_of(second.output, "totals"), "free"), 0) << "what is left is the first's again";
  EXPECT_THAT(second.output, HasSubstr(std::to_string(first.pid()) + ":700")) << "300 of its context and 400 pages";
  const Finished third = machine.run(
      {"init", "expect-oom=9402Mi", "alloc-managed=20000Mi", "alloc=9400Mi", "launch=1ms", "sync", "totals"});
  EXPECT_EQ(third.code, 0) << third.output;
  EXPECT_EQ(number(line_of(third.output, "totals"), "free"), 0);
}

TEST(MachineTest, PoolsKeepWhatTheirThresholdSays) {
  const SimulatedMachine machine(kTwoCards);
  const Finished done = machine.run(
      {"init", "pool=threshold:64Mi", "alloc-async=100Mi", "free", "totals", "pool", "sync", "pool", "pool=trim:10Mi"});
  EXPECT_EQ(done.code, 0) << done.output;
  EXPECT_EQ(number(line_of(done.output, "totals"), "free"), (9700 - 100) * kMi);
  EXPECT_THAT(done.output, HasSubstr("reserved=" + std::to_string(100 * kMi) + " used=0"));
  EXPECT_THAT(done.output, HasSubstr("reserved=" + std::to_string(64 * kMi) + " used=0"));
  EXPECT_EQ(number(line_of(done.output, "pool"), "reserved"), 10 * kMi);
}

TEST(MachineTest, AKilledProcessLeavesNothing) {
  const SimulatedMachine machine(kTwoCards);
  for (int round = 0; round < 5; ++round) {
    Process victim(machine.run_arguments({"alloc=3000Mi", "launch-async=100ms*900", "hold"}), machine.environment());
    ASSERT_THAT(victim.wait_line("launch-async"), HasSubstr("ok=1"));
    victim.signal(SIGKILL);
    EXPECT_EQ(victim.finish().code, 128 + SIGKILL);
    const Finished after = machine.run({"totals", "launch=1ms", "nvml-processes"});
    EXPECT_EQ(number(after.output, "free"), 9700 * kMi);
    EXPECT_EQ(number(line_of(after.output, "nvml-processes"), "count"), 1) << after.output;
    // Were the 90 s of work of the dead still there, half of every slice would be theirs.
    EXPECT_LT(number(line_of(after.output, "launch"), "elapsed_us"), 60'000'000);
  }
}

TEST(MachineTest, KilledWhileLaunchingAtFullSpeed) {
  const SimulatedMachine machine(kTwoCards);
  for (int round = 0; round < 20; ++round) {
    Process victim(machine.run_arguments({"kernel=50us", "init", "threads=2", "measure-share=100s"}),
                   machine.environment());
    ASSERT_THAT(victim.wait_line("init"), HasSubstr("ok=1"));
    usleep(static_cast<useconds_t>(2000 + round * 1371));  // a different place each time; any place must do
    victim.signal(SIGKILL);
    victim.finish();
    const Finished after = machine.run({"totals", "launch=1ms*3"});
    ASSERT_EQ(after.code, 0) << after.output;
    EXPECT_EQ(number(after.output, "free"), 9700 * kMi);
  }
}

TEST(MachineTest, LifeDoesNotHangOnDescriptors) {
  const SimulatedMachine machine(kTwoCards);
  Process process(machine.run_arguments({"alloc=3000Mi", "closefrom=3", "totals", "hold"}), machine.environment());
  ASSERT_THAT(process.wait_line("totals"), HasSubstr("ok=1"));
  const Finished other = machine.run({"totals", "nvml-processes"});
  EXPECT_EQ(number(other.output, "free"), (10000 - 3300 - 300) * kMi);
  EXPECT_THAT(other.output, HasSubstr(std::to_string(process.pid()) + ":3300"));
}

TEST(MachineTest, AForkedChildHasNoPartInTheCard) {
  const SimulatedMachine machine(kTwoCards);
  const Finished done = machine.run({"alloc=100Mi", "fork", "alloc=100Mi", "totals"});
  EXPECT_EQ(done.code, 0) << done.output;
  EXPECT_EQ(number(line_of(done.output, "totals"), "free"), (9700 - 200) * kMi);
  // The child lives on; the parent's memory is free all the same.
  Process parent(machine.run_arguments({"alloc=3000Mi", "fork-idle=100s"}), machine.environment());
  const std::string line = parent.wait_line("fork-idle");
  const auto child = static_cast<pid_t>(number(line, "child"));
  ASSERT_GT(child, 0) << line;
  // The parent's own end is seen once its slot is free; the child holds the pipe, so it cannot be read to its end.
  long long free_bytes = 0;
  for (int tries = 0; tries < 3000 && free_bytes != 9700 * kMi; ++tries) {
    free_bytes = number(machine.run({"totals"}).output, "free");
  }
  EXPECT_EQ(free_bytes, 9700 * kMi);
  kill(child, SIGKILL);
}

TEST(MachineTest, TwoProcessesShareTheTime) {
  const SimulatedMachine machine(kTwoCards);
  Process first(machine.run_arguments({"init", "launch-async=10ms*900", "hold"}), machine.environment());
  Process second(machine.run_arguments({"init", "launch-async=1ms*900", "launch-async=1ms*900", "hold"}),
                 machine.environment());
  first.wait_line("launch-async");
  second.wait_line("launch-async");
  const std::string before = machine.nvsim({"show"}).output;
  std::string after;
  do {
    after = machine.nvsim({"show"}).output;
  } while (busy_of(after, first.pid()) < busy_of(before, first.pid()) + 0.2);
  const double one = busy_of(after, first.pid()) - busy_of(before, first.pid());
  const double other = busy_of(after, second.pid()) - busy_of(before, second.pid());
  // Slices of 2 ms on the card's own clock, however late anybody looks.
  EXPECT_NEAR(one, other, 0.0045);
}

TEST(MachineTest, LaunchesAndTheirTimes) {
  const SimulatedMachine machine(kTwoCards);
  for (const char* via : {"via=getproc", "via=dlsym"}) {
    for (const char* streams : {"streams=legacy", "streams=ptsz"}) {
      const Finished done = machine.run({via, streams, "launch=1ms*5", "launch-ex=1ms*5", "launch-coop=1ms*5",
                                         "launch-graph=100us*50", "event-time=3ms", "alloc=1Mi", "memcpy=100000"});
      EXPECT_EQ(done.code, 0) << done.output;
      for (const char* step : {"launch", "launch-ex", "launch-coop", "launch-graph"}) {
        EXPECT_GE(number(line_of(done.output, step), "elapsed_us"), 5000) << via << " " << streams << " " << step;
      }
      EXPECT_GE(number(line_of(done.output, "event-time"), "us"), 3000);
    }
  }
}

TEST(MachineTest, FaultsAreSeen) {
  const SimulatedMachine machine(kTwoCards);
  EXPECT_EQ(machine.nvsim({"fault", "--kind", "init"}).code, 0);
  EXPECT_EQ(machine.run({"expect-init=100"}).code, 0);
  EXPECT_THAT(machine.run({"nvml-memory"}).output, HasSubstr("error=nvml9"));
  EXPECT_EQ(machine.nvsim({"fault", "--kind", "clear"}).code, 0);
  EXPECT_EQ(machine.nvsim({"fault", "--kind", "lost", "--card", "0"}).code, 0);
  EXPECT_EQ(machine.run({"expect-init=999"}).code, 0);
  EXPECT_THAT(machine.run({"nvml-memory"}).output, HasSubstr("error=nvml15"));
  EXPECT_EQ(machine.run({"device=1", "totals", "nvml-memory"}).code, 0);
  EXPECT_EQ(machine.nvsim({"fault", "--kind", "clear", "--card", "0"}).code, 0);
  EXPECT_EQ(machine.run({"totals"}).code, 0);
  EXPECT_EQ(machine.nvsim({"fault", "--kind", "melt", "--card", "0"}).code, 1);
  EXPECT_EQ(machine.nvsim({"fault", "--kind", "xid"}).code, 1);
  EXPECT_EQ(machine.nvsim({"fault", "--kind", "xid", "--card", "7"}).code, 3);
}

TEST(MachineTest, AHangingCardHangsItsCallsUntilCleared) {
  const SimulatedMachine machine(kTwoCards);
  Process process(machine.run_arguments({"totals", "wait-file=" + machine.root() + "/go", "totals"}),
                  machine.environment());
  ASSERT_THAT(process.wait_line("totals"), HasSubstr("ok=1"));
  machine.nvsim({"fault", "--kind", "hang", "--card", "0"});
  machine.run({"touch=" + machine.root() + "/go"});
  ASSERT_THAT(process.wait_line("wait-file"), HasSubstr("ok=1"));
  // The call is stuck: the process neither ends nor prints. The other card answers meanwhile.
  EXPECT_EQ(machine.run({"device=1", "totals"}).code, 0);
  EXPECT_EQ(waitpid(process.pid(), nullptr, WNOHANG), 0);
  machine.nvsim({"fault", "--kind", "clear", "--card", "0"});
  EXPECT_THAT(process.wait_line("totals"), HasSubstr("ok=1"));
  EXPECT_EQ(process.finish().code, 0);
}

TEST(MachineTest, VisibleDevices) {
  const SimulatedMachine machine(
      "cards: [{model: T4}, {model: H100, uuid: GPU-aaaa1111-0000-0000-0000-000000000000}, {model: L4}]");
  const auto names = [&](const std::string& value) {
    return line_of(machine.run({"devices"}, {"CUDA_VISIBLE_DEVICES=" + value}).output, "devices");
  };
  // The fastest first, unless the order is asked for.
  EXPECT_THAT(line_of(machine.run({"devices"}).output, "devices"),
              HasSubstr("'NVIDIA H100 80GB HBM3,NVIDIA L4,Tesla T4'"));
  EXPECT_THAT(line_of(machine.run({"devices"}, {"CUDA_DEVICE_ORDER=PCI_BUS_ID"}).output, "devices"),
              HasSubstr("'Tesla T4,NVIDIA H100 80GB HBM3,NVIDIA L4'"));
  EXPECT_THAT(names("1"), HasSubstr("'NVIDIA L4'"));
  EXPECT_THAT(names("2,0"), HasSubstr("'Tesla T4,NVIDIA H100 80GB HBM3'"));
  EXPECT_THAT(names("GPU-aaaa1111"), HasSubstr("'NVIDIA H100 80GB HBM3'"));
  EXPECT_THAT(names("0,9,1"), HasSubstr("'NVIDIA H100 80GB HBM3'"));
  EXPECT_THAT(names(""), HasSubstr("CUDA_ERROR_NO_DEVICE"));
  EXPECT_THAT(names("MIG-12345"), HasSubstr("CUDA_ERROR_NO_DEVICE"));
  EXPECT_THAT(names("0,0"), HasSubstr("CUDA_ERROR_NO_DEVICE"));
}

TEST(MachineTest, ACardWithoutItsFileIsNotThere) {
  const SimulatedMachine machine(kTwoCards);
  std::filesystem::create_directories(machine.root() + "/inner/dev");
  for (const char* name : {"nvidiactl", "nvidia1"}) {
    std::filesystem::create_hard_link(machine.root() + "/dev/" + name, machine.root() + "/inner/dev/" + name);
  }
  Process inside(machine.run_arguments({"devices=1", "alloc=100Mi", "hold"}),
                 {"NVSIM_ROOT=" + machine.root() + "/inner"});
  ASSERT_THAT(inside.wait_line("alloc"), HasSubstr("ok=1"));
  // It is the second card of the whole machine.
  EXPECT_EQ(number(machine.run({"device=1", "totals"}).output, "free"), (10000 - 700) * kMi);
  EXPECT_EQ(number(machine.run({"totals"}).output, "free"), 9700 * kMi);
  EXPECT_THAT(machine.run({"totals"}, {}).output, Not(HasSubstr("ok=0")));
}

TEST(MachineTest, PidsAreThoseOfTheCaller) {
  const SimulatedMachine machine(kTwoCards);
  if (Process({"/usr/bin/unshare", "--pid", "--fork", "/bin/true"}, {}).finish().code != 0) {
    GTEST_SKIP() << "this user may not make a pid namespace";
  }
  std::vector<std::string> arguments = {"/usr/bin/unshare", "--pid", "--fork", "--kill-child"};
  for (const std::string& argument : machine.run_arguments({"alloc=100Mi", "closefrom=3", "nvml-processes", "hold"})) {
    arguments.push_back(argument);
  }
  Process inside(arguments, machine.environment());
  EXPECT_THAT(inside.wait_line("nvml-processes"), HasSubstr("pids=1:400"));
  const std::string outside = line_of(machine.run({"nvml-processes"}).output, "nvml-processes");
  const long long pid = number(outside, "pids");
  EXPECT_GT(pid, 1) << outside;
  EXPECT_EQ(std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe").filename(), "nvsim-run") << outside;
}

}  // namespace
}  // namespace nvsim::test
