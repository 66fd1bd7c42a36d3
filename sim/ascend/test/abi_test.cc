// The libraries export what the vendor's header declares, and what our own declarations of the rest name.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace {

std::string library(const char* name) {
  return std::string(ASCENDSIM_LIBRARIES) + "/" + name;
}

TEST(AscendAbi, EveryFunctionOfTheAclHeaderIsExported) {
  void* acl = dlopen(library("libascendcl.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(acl, nullptr) << dlerror();
  std::ifstream names(ASCENDSIM_NAMES);
  int count = 0;
  for (std::string name; std::getline(names, name); ++count) {
    EXPECT_NE(dlsym(acl, name.c_str()), nullptr) << name;
  }
  EXPECT_GT(count, 400);
}

TEST(AscendAbi, TheRuntimeAndTheManagementLibraryExportWhatIsDeclared) {
  const struct {
    const char* library;
    std::initializer_list<const char*> names;
  } cases[] = {{"libruntime.so",
                {"rtMalloc", "rtFree", "rtMallocPhysical", "rtMemGetInfoEx", "rtKernelLaunch",
                 "rtKernelLaunchWithFlagV2", "rtKernelLaunchWithHandleV2", "rtAicpuKernelLaunchExWithArgs",
                 "rtAicpuKernelLaunchWithFlag", "rtModelExecute", "rtGetDevicePhyIdByIndex"}},
               {"libdcmi.so",
                {"dcmi_init", "dcmi_get_card_list", "dcmi_get_device_num_in_card", "dcmi_get_device_chip_info_v2",
                 "dcmi_get_device_die_v2", "dcmi_get_device_hbm_info", "dcmi_get_device_memory_info_v3",
                 "dcmi_get_device_resource_info", "dcmi_get_device_info", "dcmi_get_device_health"}}};
  for (const auto& test : cases) {
    void* handle = dlopen(library(test.library).c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle, nullptr) << dlerror();
    for (const char* name : test.names) EXPECT_NE(dlsym(handle, name), nullptr) << name;
  }
}

}  // namespace
