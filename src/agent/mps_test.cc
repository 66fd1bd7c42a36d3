#include "agent/mps.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace heddle::agent {
namespace {

class MpsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "heddle-mps-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    ASSERT_TRUE(make_directories(folder_ + "/pipe", 0755));
  }
  void TearDown() override { ASSERT_TRUE(remove_tree(folder_)); }
  void write(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(write_file_atomic(folder_ + name, text, 0644));
  }
  void process(int pid, const std::string& name, int parent) const {
    ASSERT_TRUE(make_directories(folder_ + "/proc/" + std::to_string(pid), 0755));
    write("/proc/" + std::to_string(pid) + "/stat",
          std::to_string(pid) + " (" + name + ") S " + std::to_string(parent) + " 1 1 0");
  }
  std::string folder_;
};

TEST_F(MpsTest, CardsAreServedWhileTheControlIsThere) {
  vendors::Card card;
  card.vendor = "nvidia";
  vendors::Card part = card;
  part.partition.parent_uuid = "GPU-1";
  vendors::Card npu;
  npu.vendor = "ascend";
  const auto served = [&] {
    std::vector<bool> all;
    for (const auto& one : with_mps({card, part, npu}, folder_ + "/pipe")) all.push_back(one.mps);
    return all;
  };
  EXPECT_EQ(served(), (std::vector<bool>{false, false, false}));
  write("/pipe/control", "");
  EXPECT_EQ(served(), (std::vector<bool>{true, false, false}));
  EXPECT_FALSE(with_mps({card}, "")[0].mps);
}

TEST_F(MpsTest, OnlyTheChildrenOfTheDaemonAreItsServers) {
  vendors::CardStatus card;
  card.processes = {{11, 5}, {12, 5}, {13, 5}, {14, 5}};
  process(11, "nvidia-cuda-mps", 7);
  process(12, "nvidia-cuda-mps", 9);
  process(13, "a) S 7 (b", 9);
  const auto left = [&] {
    std::vector<int64_t> pids;
    const auto rest = without_mps_servers({card}, folder_ + "/pipe", folder_ + "/proc");
    for (const auto& one : rest.at(0).processes) pids.push_back(one.pid);
    return pids;
  };
  EXPECT_EQ(left(), (std::vector<int64_t>{11, 12, 13, 14})) << "no daemon has left its pid";
  write("/pipe/nvidia-cuda-mps-control.pid", "7\n");
  EXPECT_EQ(left(), (std::vector<int64_t>{12, 13, 14})) << "a name is not believed";
  write("/pipe/nvidia-cuda-mps-control.pid", "none");
  EXPECT_EQ(left(), (std::vector<int64_t>{11, 12, 13, 14}));
}

}  // namespace
}  // namespace heddle::agent
