// A mask of the multiprocessors, held by the simulated MPS: the guard keeps the percentage whatever the program does to
// its variables, and lets no work begin where MPS would not hold it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "guard/harness.h"

namespace heddle::guard::test {
namespace {

constexpr int kMpsConnectionFailed = 805;

class MaskTest : public testing::Test {
 protected:
  MaskTest() : machine_(folder_, {1, 8192, 300, 64}) {
    EXPECT_EQ(::mkdir(pipe_.c_str(), 0755), 0);
    std::ofstream(pipe_ + "/control") << "";
    ClaimLimits limits = limits_for({{machine_.uuid(0), 2000 * kMiB, 0, false, 300 * kMiB}});
    limits.mask_percent = 25;
    limits.mask_pipe = pipe_;
    write_guard_files(folder_.path(), limits);
  }

  // What the machine's own tool says of the processes on its card.
  std::string shown() const {
    const std::string command = std::string(HEDDLE_NVSIM) + " show --root " + folder_.path("machine");
    std::string text;
    FILE* pipe = ::popen(command.c_str(), "r");
    char block[4096];
    for (size_t got = 0; (got = std::fread(block, 1, sizeof(block), pipe)) > 0;) text.append(block, got);
    ::pclose(pipe);
    return text;
  }

  Folder folder_;
  Machine machine_;
  std::string pipe_ = folder_.path("mps");
};

TEST_F(MaskTest, HoldsWhateverTheProgramsVariablesSay) {
  for (const char* percent : {"", "100", "10"}) {
    Probe::Setup setup;
    if (*percent != 0) setup.environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = percent;
    setup.environment["CUDA_MPS_PIPE_DIRECTORY"] = "/nowhere";
    Probe p(folder_.path(), HEDDLE_SIM_LIBRARIES, setup);
    EXPECT_EQ(p.code("init"), kOk);
    EXPECT_EQ(p.code("ctx 0"), kOk);
    EXPECT_NE(shown().find("mps 25%"), std::string::npos) << percent << ": " << shown();
    EXPECT_EQ(p.code("kernel 100 1"), kOk);
    EXPECT_EQ(p.code("launch"), kOk);
    EXPECT_EQ(p.code("ctx-sync"), kOk);
    EXPECT_EQ(p.code("alloc " + std::to_string(1800 * kMiB)), kOutOfMemory) << "the memory stays with the guard";
    p.kill();
  }
}

TEST_F(MaskTest, NoWorkBeginsWhereMpsIsNotThere) {
  ASSERT_EQ(::unlink((pipe_ + "/control").c_str()), 0);
  Probe p(folder_.path(), HEDDLE_SIM_LIBRARIES, {});
  EXPECT_EQ(p.code("init"), kOk);
  EXPECT_EQ(p.code("ctx 0"), kMpsConnectionFailed);
  EXPECT_EQ(p.code("retain 0"), kMpsConnectionFailed);
  EXPECT_EQ(charged(folder_.path(), 0), 0);
  EXPECT_EQ(machine_.taken(0), 0);
}

TEST_F(MaskTest, OthersAreNoClients) {
  const Folder other;
  write_guard_files(other.path(), limits_for({{machine_.uuid(0), 2000 * kMiB, 0, false, 300 * kMiB}}));
  Probe p(other.path(), HEDDLE_SIM_LIBRARIES, {});
  EXPECT_EQ(p.code("init"), kOk);
  EXPECT_EQ(p.code("ctx 0"), kOk);
  EXPECT_EQ(shown().find("mps"), std::string::npos) << shown();
}

}  // namespace
}  // namespace heddle::guard::test
