#include "vendors/ascend/injection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/temporary_folder.h"

namespace heddle::vendors {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class AscendInjection : public ::testing::Test {
 protected:
  void SetUp() override { options_.driver_root = root_; }
  void touch(const std::string& path) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << "x";
  }
  const TemporaryFolder folder_of_test_;
  const std::string root_ = folder_of_test_.path();
  InjectionOptions options_;
};

TEST_F(AscendInjection, OffersTheManagerTheControlNodesAndTheDriversFilesThatThereAre) {
  for (const char* path : {"/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc", "/dev/davinci3",
                           "/usr/local/Ascend/driver/lib64/driver/libdcmi.so", "/usr/local/bin/npu-smi"}) {
    touch(path);
  }
  options_.driver_root_on_host = "/host";
  const auto common = common_injection("ascend", options_);
  ASSERT_TRUE(common);
  EXPECT_THAT(common->nodes, IsEmpty());  // regular files are a simulated driver's
  ASSERT_THAT(common->mounts, SizeIs(5));
  EXPECT_EQ(common->mounts[0].host_path, "/host/dev/davinci_manager");
  EXPECT_FALSE(common->mounts[0].read_only);
  using Mount = Injection::Mount;
  EXPECT_THAT(common->mounts, Contains(Field(&Mount::container_path, "/usr/local/Ascend/driver/lib64")));
  EXPECT_THAT(common->mounts, Not(Contains(Field(&Mount::container_path, "/usr/local/dcmi"))));
  EXPECT_TRUE(common->mounts.back().read_only);

  Card card;
  card.minor = 3;
  const auto one = card_injection("ascend", options_, card);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->mounts.at(0).container_path, "/dev/davinci3");
  card.minor = 4;
  EXPECT_EQ(card_injection("ascend", options_, card).error().code, Code::kNotFound);
}

TEST_F(AscendInjection, TheManagerForContainersTakesThePlainName) {
  touch("/dev/davinci_manager");
  touch("/dev/davinci_manager_docker");
  const auto common = common_injection("ascend", options_);
  ASSERT_TRUE(common);
  EXPECT_EQ(common->mounts.at(0).host_path, root_ + "/dev/davinci_manager_docker");
  EXPECT_EQ(common->mounts.at(0).container_path, "/dev/davinci_manager");
}

TEST_F(AscendInjection, WithoutADriverNothingIsGiven) {
  EXPECT_EQ(common_injection("ascend", options_).error().code, Code::kNotFound);
  EXPECT_EQ(common_injection("acme", options_).error().code, Code::kUnsupported);
}

TEST_F(AscendInjection, TheVendorsOwnRuntimeIsToldTheGrantedOnesOnly) {
  Card a;
  a.minor = 1;
  Card b;
  b.minor = 6;
  EXPECT_EQ(visible_cards("ascend", {a, b}, Spread::kEverywhere), (Environment{{"ASCEND_VISIBLE_DEVICES", "1,6"}}));
}

TEST_F(AscendInjection, AVnpuHasTheNodeOfItsIdUnderTheNameOfAnNpu) {
  touch("/dev/vdavinci101");
  Card vnpu;
  vnpu.minor = 3;
  vnpu.partition = {"parent", "vir05_1c_8g", 101, 101, 0};
  const auto one = card_injection("ascend", options_, vnpu);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->mounts.at(0).host_path, root_ + "/dev/vdavinci101");
  EXPECT_EQ(one->mounts.at(0).container_path, "/dev/davinci101");
  EXPECT_EQ(visible_cards("ascend", {vnpu}, Spread::kEverywhere),
            (Environment{{"ASCEND_VISIBLE_DEVICES", "101"}, {"ASCEND_RUNTIME_OPTIONS", "VIRTUAL"}}));
  vnpu.partition.gpu_instance = 102;
  EXPECT_EQ(card_injection("ascend", options_, vnpu).error().code, Code::kNotFound) << "it was destroyed";
}

}  // namespace
}  // namespace heddle::vendors
