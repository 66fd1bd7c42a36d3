#include "vendors/nvidia/probe.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>

#include "base/file.h"

namespace heddle::vendors::nvidia {
namespace {

TEST(Probe, NeverFollowsTheLibraryPathOfTheEnvironment) {
  std::string dir = testing::TempDir() + "heddle-probe-XXXXXX";
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  ASSERT_TRUE(write_file_atomic(dir + "/libnvidia-ml.so.1", "not a library", 0600));
  ::setenv("LD_LIBRARY_PATH", dir.c_str(), 1);
  Probe probe({"", dir + "/root", "/sys"});
  const Inventory inventory = probe.discover();
  EXPECT_EQ(inventory.state, LibraryState::kMissing);
  EXPECT_TRUE(inventory.library_path.empty());
  ::unsetenv("LD_LIBRARY_PATH");
  ASSERT_TRUE(remove_tree(dir));
}

TEST(Probe, FindsTheLibraryUnderTheDriverRoot) {
  std::string dir = testing::TempDir() + "heddle-probe-XXXXXX";
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  ASSERT_TRUE(make_directories(dir + "/usr/lib64", 0755));
  ASSERT_TRUE(write_file_atomic(dir + "/usr/lib64/libnvidia-ml.so.1", "not a library", 0600));
  Probe probe({"", dir + "/", "/sys"});
  const Inventory inventory = probe.discover();
  EXPECT_EQ(inventory.library_path, dir + "/usr/lib64/libnvidia-ml.so.1");
  EXPECT_EQ(inventory.state, LibraryState::kMissing) << "it cannot be loaded";
  EXPECT_FALSE(inventory.detail.empty());
  ASSERT_TRUE(remove_tree(dir));
}

TEST(Probe, TellsTheDeviceTimeOfEachProcessOnce) {
  const char* folder = std::getenv("HEDDLE_TEST_DIR");
  ASSERT_NE(folder, nullptr);
  std::string dir = testing::TempDir() + "heddle-probe-XXXXXX";
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  const std::string fault = dir + "/fault";
  ::setenv("FAKE_NVML_FAULT_FILE", fault.c_str(), 1);
  Probe probe({std::string(folder) + "/fake_nvml.so", dir, "/sys"});
  EXPECT_TRUE(probe.times().empty()) << "nothing is known before the cards are";
  ASSERT_EQ(probe.discover().cards.size(), 2u);
  ASSERT_EQ(probe.times().size(), 2u) << "nobody had a card, and that is known";
  ASSERT_TRUE(write_file_atomic(fault, "times", 0600));
  const TimesReport first = probe.times();
  ASSERT_EQ(first.size(), 1u) << "since when they have card 0 is not known";
  EXPECT_EQ(first[0].uuid, "GPU-fake-1");
  const TimesReport second = probe.times();
  ASSERT_EQ(second.size(), 2u);
  ASSERT_EQ(second[0].processes.size(), 2u);
  EXPECT_EQ(second[0].processes[0].pid, 5000000);
  EXPECT_EQ(second[0].processes[0].busy_ns, 200000000);
  EXPECT_EQ(second[0].processes[1].busy_ns, 50000000);
  ASSERT_TRUE(write_file_atomic(fault, "none", 0600));
  EXPECT_TRUE(probe.times().at(0).processes.empty());
  ASSERT_TRUE(write_file_atomic(fault, "times", 0600));
  EXPECT_EQ(probe.times().size(), 1u) << "and after a rest again not";
  ::unsetenv("FAKE_NVML_FAULT_FILE");
  ASSERT_TRUE(remove_tree(dir));
}

}  // namespace
}  // namespace heddle::vendors::nvidia
