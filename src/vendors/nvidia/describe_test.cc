#include "vendors/nvidia/describe.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/temporary_folder.h"
#include "vendors/sysfs.h"

namespace heddle::vendors::nvidia {
namespace {

TEST(Describe, PciBusIdsAreWrittenAsTheKernelWritesThem) {
  EXPECT_EQ(normal_pci_bus_id("00000000:3B:00.0"), "0000:3b:00.0");
  EXPECT_EQ(normal_pci_bus_id("0000:3b:00.0"), "0000:3b:00.0");
  EXPECT_EQ(normal_pci_bus_id("00010000:01:00.0"), "10000:01:00.0") << "a domain beyond 16 bits keeps its digits";
  EXPECT_EQ(normal_pci_bus_id(""), "");
}

TEST(Describe, VersionsAndNames) {
  EXPECT_EQ(cuda_version_text(12090), "12.9");
  EXPECT_EQ(cuda_version_text(13000), "13.0");
  EXPECT_EQ(cuda_version_text(0), "");
  EXPECT_EQ(architecture_name(9), "Hopper");
  EXPECT_EQ(architecture_name(0xffffffff), "");
  EXPECT_TRUE(is_application_xid(31));
  EXPECT_FALSE(is_application_xid(79));
}

TEST(Describe, AFabricIsNamedAsItsLabelIs) {
  unsigned char cluster[16] = {};
  EXPECT_EQ(fabric_name(cluster, 3), "") << "of one machine alone";
  for (unsigned char i = 0; i < 16; ++i) cluster[i] = static_cast<unsigned char>(0xf0 + i);
  EXPECT_EQ(fabric_name(cluster, 3), "f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff.3");
}

TEST(Describe, ReadsTheTopologyFromSysfs) {
  const TemporaryFolder temporary;
  const std::string& sysfs = temporary.path();
  const std::string device = sysfs + "/devices/pci0000:3a/0000:3a:01.0/0000:3b:00.0";
  ASSERT_TRUE(make_directories(device, 0755));
  ASSERT_TRUE(make_directories(sysfs + "/bus/pci/devices", 0755));
  ASSERT_EQ(::symlink("../../../devices/pci0000:3a/0000:3a:01.0/0000:3b:00.0",
                      (sysfs + "/bus/pci/devices/0000:3b:00.0").c_str()),
            0);
  ASSERT_TRUE(write_file_atomic(device + "/numa_node", "-1\n", 0644));
  EXPECT_EQ(pcie_root(sysfs, "0000:3b:00.0"), "pci0000:3a");
  EXPECT_EQ(numa_node(sysfs, "0000:3b:00.0"), -1);
  ASSERT_TRUE(write_file_atomic(device + "/numa_node", "1\n", 0644));
  EXPECT_EQ(numa_node(sysfs, "0000:3b:00.0"), 1);
  EXPECT_EQ(pcie_root(sysfs, "0000:ff:00.0"), "");
  EXPECT_EQ(numa_node(sysfs, ""), -1);
}

}  // namespace
}  // namespace heddle::vendors::nvidia
