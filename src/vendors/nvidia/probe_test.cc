#include "vendors/nvidia/probe.h"

#include <gtest/gtest.h>
#include <stdlib.h>

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

}  // namespace
}  // namespace heddle::vendors::nvidia
