#include "vendors/nvidia/injection.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <map>
#include <set>

#include "base/file.h"
#include "base/temporary_folder.h"
#include "catalog/catalog.h"
#include "vendors/paths.h"

namespace heddle::vendors::nvidia {
namespace {

class InjectionTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(make_directories(root_ + "/usr/lib64", 0755));
    ASSERT_TRUE(make_directories(root_ + "/usr/bin", 0755));
    ASSERT_TRUE(make_directories(root_ + "/opt", 0755));
    ASSERT_TRUE(make_directories(root_ + "/dev", 0755));
    touch("/opt/libcuda.so.570.86");
    touch("/usr/lib64/libnvidia-ml.so.570.86");
    touch("/usr/lib64/libc.so.6");
    touch("/usr/lib64/libcudart.so.12");
    touch("/usr/bin/nvidia-smi");
    link("/opt/libcuda.so.570.86", "/usr/lib64/libcuda.so.1");  // absolute, inside the root
    link("libcuda.so.1", "/usr/lib64/libcuda.so");
    link("libnvidia-ml.so.570.86", "/usr/lib64/libnvidia-ml.so.1");
    link("/nowhere", "/usr/lib64/libnvidia-cfg.so.1");
    touch("/dev/nvidiactl");
    touch("/dev/nvidia2");
    options_.driver_root = root_;
  }

  void touch(const std::string& path) { ASSERT_TRUE(write_file_atomic(root_ + path, "x", 0644)); }
  void link(const std::string& target, const std::string& path) {
    ASSERT_EQ(::symlink(target.c_str(), (root_ + path).c_str()), 0);
  }
  static std::map<std::string, std::string> by_container_path(const Injection& injection) {
    std::map<std::string, std::string> result;
    for (const auto& mount : injection.mounts) result[mount.container_path] = mount.host_path;
    return result;
  }

  const TemporaryFolder folder_of_test_;
  const std::string root_ = folder_of_test_.path();
  InjectionOptions options_;
};

TEST_F(InjectionTest, MountsDriverFilesUnderEachOfTheirNamesAndNothingElse) {
  const auto injection = common_injection(options_);
  ASSERT_TRUE(injection) << injection.error().text();
  const std::map<std::string, std::string> expected = {
      {"/dev/nvidiactl", root_ + "/dev/nvidiactl"},
      {"/usr/bin/nvidia-smi", root_ + "/usr/bin/nvidia-smi"},
      {"/usr/lib/x86_64-linux-gnu/libcuda.so", root_ + "/opt/libcuda.so.570.86"},
      {"/usr/lib/x86_64-linux-gnu/libcuda.so.1", root_ + "/opt/libcuda.so.570.86"},
      {"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", root_ + "/usr/lib64/libnvidia-ml.so.570.86"},
      {"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.86", root_ + "/usr/lib64/libnvidia-ml.so.570.86"}};
  EXPECT_EQ(by_container_path(*injection), expected);
  ASSERT_EQ(injection->environment.size(), 1U);
  EXPECT_EQ(injection->environment[0].second, "void");
}

TEST_F(InjectionTest, APartitionNeedsItsCardAndBothOfItsCapabilities) {
  Card card;
  card.minor = 2;
  card.partition = {"GPU-2", "1g.10gb", 3, 10, 0};
  ASSERT_TRUE(make_directories(root_ + "/proc/driver/nvidia-caps", 0755));
  ASSERT_TRUE(make_directories(root_ + "/dev/nvidia-caps", 0755));
  ASSERT_TRUE(write_file_atomic(root_ + "/proc/driver/nvidia-caps/mig-minors",
                                "config 1\nmonitor 2\ngpu2/gi1/access 282\ngpu2/gi10/access 363\n"
                                "gpu2/gi10/ci0/access 364\ngpu2/gi10/ci1/access 365\n",
                                0644));
  touch("/dev/nvidia-caps/nvidia-cap363");
  EXPECT_EQ(card_injection(options_, card).error().code, Code::kNotFound) << "one node alone is of no use";
  touch("/dev/nvidia-caps/nvidia-cap364");
  const auto injection = card_injection(options_, card);
  ASSERT_TRUE(injection) << injection.error().text();
  const std::map<std::string, std::string> expected = {
      {"/dev/nvidia2", root_ + "/dev/nvidia2"},
      {"/dev/nvidia-caps/nvidia-cap363", root_ + "/dev/nvidia-caps/nvidia-cap363"},
      {"/dev/nvidia-caps/nvidia-cap364", root_ + "/dev/nvidia-caps/nvidia-cap364"}};
  EXPECT_EQ(by_container_path(*injection), expected);
  card.partition.gpu_instance = 4;
  const auto unknown = card_injection(options_, card);
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().text().find("gpu2/gi4/access"), std::string::npos);
}

// The catalogue is what users read; what is injected must be what it says.
TEST_F(InjectionTest, InjectsWhatTheCatalogueSays) {
  const auto catalog = catalog::Catalog::built_in();
  ASSERT_TRUE(catalog) << catalog.error().text();
  const catalog::Vendor* vendor = catalog->find_vendor("nvidia");
  ASSERT_NE(vendor, nullptr);
  std::set<std::string> nodes;
  for (const catalog::DeviceNode& node : vendor->nodes) {
    if (node.per != "driver") continue;
    nodes.insert(node.path);
    touch(node.path);
  }
  std::vector<std::pair<std::string, std::string>> variables;
  for (const catalog::Variable& variable : vendor->variables) {
    if (!variable.in_claim.empty()) variables.emplace_back(variable.name, variable.in_claim);
  }
  const auto injection = common_injection(options_);
  ASSERT_TRUE(injection) << injection.error().text();
  std::set<std::string> injected;
  for (const auto& mount : injection->mounts) {
    if (mount.container_path.starts_with("/dev/")) injected.insert(mount.container_path);
  }
  EXPECT_EQ(injected, nodes);
  EXPECT_EQ(injection->environment, variables);
}

TEST_F(InjectionTest, ASimulatedDeviceIsAWritableMountAndARealOneADevice) {
  Card card;
  card.minor = 2;
  const auto simulated = card_injection(options_, card);
  ASSERT_TRUE(simulated);
  ASSERT_EQ(simulated->mounts.size(), 1U);
  EXPECT_FALSE(simulated->mounts[0].read_only);
  EXPECT_TRUE(simulated->nodes.empty());
  ASSERT_TRUE(remove_file(root_ + "/dev/nvidia2"));
  EXPECT_FALSE(card_injection(options_, card)) << "a card without a node cannot be given";
  if (::mknod((root_ + "/dev/nvidia2").c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0) GTEST_SKIP() << "needs CAP_MKNOD";
  const auto real = card_injection(options_, card);
  ASSERT_TRUE(real);
  ASSERT_EQ(real->nodes.size(), 1U);
  EXPECT_EQ(real->nodes[0].container_path, "/dev/nvidia2");
}

// A freshly booted node: the cards' nodes are there, that of unified memory is not. (A link to /dev/null is a device to
// whoever looks, and needs no rights.)
class FreshBootTest : public InjectionTest {
 protected:
  void SetUp() override {
    InjectionTest::SetUp();
    ASSERT_TRUE(remove_file(root_ + "/dev/nvidiactl"));
    link("/dev/null", "/dev/nvidiactl");
  }
  void install_modprobe() const {
    const char* folder = std::getenv("HEDDLE_TEST_DIR");
    ASSERT_NE(folder, nullptr);
    const auto program = read_file(std::string(folder) + "/fake_modprobe", size_t{16} << 20);
    ASSERT_TRUE(program);
    ASSERT_TRUE(write_file_atomic(root_ + "/usr/bin/nvidia-modprobe", *program, 0755));
  }
  [[nodiscard]] std::string runs() const { return read_file(root_ + "/runs").value_or(""); }
  static bool may_change_root() { return ::geteuid() == 0; }
};

TEST_F(FreshBootTest, WithoutTheNodeOfUnifiedMemoryNothingIsGiven) {
  const auto injection = common_injection(options_);
  ASSERT_FALSE(injection);
  EXPECT_EQ(injection.error().code, Code::kNotFound);
  EXPECT_NE(injection.error().text().find(root_ + "/dev/nvidia-uvm does not exist"), std::string::npos);
  EXPECT_NE(injection.error().text().find("nvidia-modprobe -c0 -u"), std::string::npos);
  link("/dev/null", "/dev/nvidia-uvm");
  const auto mended = common_injection(options_);
  ASSERT_TRUE(mended) << mended.error().text();
  std::set<std::string> nodes;
  for (const auto& node : mended->nodes) nodes.insert(node.container_path);
  EXPECT_EQ(nodes, (std::set<std::string>{"/dev/nvidiactl", "/dev/nvidia-uvm"}));
}

TEST_F(FreshBootTest, TheDriversOwnProgramMakesTheNodeOnce) {
  if (!may_change_root()) GTEST_SKIP() << "needs CAP_SYS_CHROOT";
  install_modprobe();
  for (int i = 0; i < 3; ++i) {
    const auto injection = common_injection(options_);
    ASSERT_TRUE(injection) << injection.error().text();
    EXPECT_EQ(injection->nodes.size(), 2U);
  }
  EXPECT_EQ(runs(), ".");
}

TEST_F(FreshBootTest, AProgramThatDoesNotHelpIsNamed) {
  if (!may_change_root()) GTEST_SKIP() << "needs CAP_SYS_CHROOT";
  install_modprobe();
  touch("/fails");
  const auto failed = common_injection(options_);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().text().find("/usr/bin/nvidia-modprobe ended with 1"), std::string::npos);
  touch("/useless");
  const auto useless = common_injection(options_);
  ASSERT_FALSE(useless);
  EXPECT_NE(useless.error().text().find("/usr/bin/nvidia-modprobe -c0 -u did not make it"), std::string::npos);
  EXPECT_EQ(runs(), "..") << "one try for each container that is refused";
}

TEST_F(InjectionTest, PathsAreThoseOfTheHost) {
  options_.driver_root_on_host = "/";
  const auto injection = common_injection(options_);
  ASSERT_TRUE(injection);
  EXPECT_EQ(by_container_path(*injection).at("/usr/lib/x86_64-linux-gnu/libcuda.so.1"), "/opt/libcuda.so.570.86");
}

TEST_F(InjectionTest, AMissingDriverIsAnError) {
  ASSERT_TRUE(remove_file(root_ + "/opt/libcuda.so.570.86"));
  EXPECT_FALSE(common_injection(options_));
}

TEST_F(InjectionTest, ALoopOfLinksEnds) {
  link("loop-b", "/loop-a");
  link("loop-a", "/loop-b");
  EXPECT_FALSE(resolve_under(root_, "/loop-a"));
  link("../../../../../../etc", "/escape");
  EXPECT_FALSE(resolve_under(root_, "/escape/passwd")) << "dots do not lead out of the root";
}

}  // namespace
}  // namespace heddle::vendors::nvidia
