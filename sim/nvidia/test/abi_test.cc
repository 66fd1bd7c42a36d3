// What a program that is linked to nothing finds in the libraries: names, versions, structures.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <cstring>

#include "cuda/api.h"
#include "nvml/api.h"
#include "test/harness.h"

namespace nvsim::test {
namespace {

template <typename Function>
Function* find(void* library, const char* name) {
  return std::bit_cast<Function*>(dlsym(library, name));
}

#define NVML(name) find<decltype(::name)>(nvml, #name)

class AbiTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    machine =
        new SimulatedMachine("machine: {driver: 550.1.2, cuda: '12.4'}\ncards: [{model: A100-80, count: 2, numa: 1}]");
    setenv("NVSIM_ROOT", machine->root().c_str(), 1);
    cuda = dlopen(NVSIM_LIBRARIES "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    nvml = dlopen(NVSIM_LIBRARIES "/libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(cuda, nullptr) << dlerror();
    ASSERT_NE(nvml, nullptr) << dlerror();
    ASSERT_EQ(NVML(nvmlInit_v2)(), NVML_SUCCESS);
  }
  static void TearDownTestSuite() { delete machine; }
  static nvmlDevice_t card(unsigned int index) {
    nvmlDevice_t handle = nullptr;
    EXPECT_EQ(NVML(nvmlDeviceGetHandleByIndex_v2)(index, &handle), NVML_SUCCESS);
    return handle;
  }

  inline static SimulatedMachine* machine = nullptr;
  inline static void* cuda = nullptr;
  inline static void* nvml = nullptr;
};

struct ProcCase {
  const char* name;
  int version;
  cuuint64_t flags;
  const char* symbol;  // null: not found
  CUdriverProcAddressQueryResult status;
};

TEST_F(AbiTest, ProcAddressSelectsByVersionAndStream) {
  auto* get = find<decltype(::cuGetProcAddress_v2)>(cuda, "cuGetProcAddress_v2");
  const ProcCase cases[] = {
      {"cuMemAlloc", 12090, 0, "cuMemAlloc_v2", CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuMemAlloc", 3020, 0, "cuMemAlloc_v2", CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuMemAlloc", 2000, 0, "cuMemAlloc", CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuCtxCreate", 3020, 0, "cuCtxCreate_v2", CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuCtxCreate", 11040, 0, "cuCtxCreate_v3", CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuCtxCreate", 12050, 0, "cuCtxCreate_v4", CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuGetProcAddress", 11030, 0, "cuGetProcAddress", CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2", CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuLaunchKernel", 12000, 0, "cuLaunchKernel", CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuLaunchKernel", 12000, 1, "cuLaunchKernel", CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuLaunchKernel", 12000, 2, "cuLaunchKernel_ptsz", CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuMemcpyHtoD", 12000, 2, "cuMemcpyHtoD_v2_ptds", CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuCtxSynchronize", 12000, 2, "cuCtxSynchronize", CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuLaunchKernelEx", 11000, 0, nullptr, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT},
      {"cuNoSuchThing", 12000, 0, nullptr, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND},
      {"cuMemAlloc_v2", 12000, 0, nullptr, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND},
  };
  for (const ProcCase& one : cases) {
    int marker = 0;
    void* address = &marker;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    EXPECT_EQ(get(one.name, &address, one.version, one.flags, &status), CUDA_SUCCESS);
    EXPECT_EQ(status, one.status) << one.name << " " << one.version;
    EXPECT_EQ(address, one.symbol == nullptr ? nullptr : dlsym(cuda, one.symbol)) << one.name << " " << one.version;
  }
  auto* first = find<decltype(::cuGetProcAddress)>(cuda, "cuGetProcAddress");
  void* address = nullptr;
  EXPECT_EQ(first("cuNoSuchThing", &address, 12000, 0), CUDA_ERROR_NOT_FOUND);
  const int version_marker = 0;
  auto* table = find<decltype(::cuGetExportTable)>(cuda, "cuGetExportTable");
  const void* exported = &version_marker;
  const CUuuid id = {};
  EXPECT_EQ(table(&exported, &id), CUDA_ERROR_NOT_FOUND);
}

TEST_F(AbiTest, WhatIsNotModelledSaysSo) {
  EXPECT_EQ(find<decltype(::cuStreamBeginCapture_v2)>(cuda, "cuStreamBeginCapture_v2")(nullptr,
                                                                                       CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_ERROR_NOT_SUPPORTED);
  nvmlGpuInstance_t instance = nullptr;
  EXPECT_EQ(NVML(nvmlDeviceCreateGpuInstance)(card(0), 19, &instance), NVML_ERROR_NOT_SUPPORTED) << "the mode is off";
}

TEST_F(AbiTest, IdentityOfACard) {
  char text[96] = "";
  unsigned int value = 99;
  int version = 0;
  EXPECT_EQ(NVML(nvmlSystemGetDriverVersion)(text, 96), NVML_SUCCESS);
  EXPECT_STREQ(text, "550.1.2");
  EXPECT_EQ(NVML(nvmlSystemGetDriverVersion)(text, 3), NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(NVML(nvmlSystemGetCudaDriverVersion)(&version), NVML_SUCCESS);
  EXPECT_EQ(version, 12040);
  EXPECT_EQ(NVML(nvmlDeviceGetMinorNumber)(card(1), &value), NVML_SUCCESS);
  EXPECT_EQ(value, 1U);
  EXPECT_EQ(NVML(nvmlDeviceGetNumaNodeId)(card(0), &value), NVML_SUCCESS);
  EXPECT_EQ(value, 1U);
  EXPECT_EQ(NVML(nvmlDeviceGetUUID)(card(1), text, 96), NVML_SUCCESS);
  nvmlDevice_t found = nullptr;
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByUUID)(text, &found), NVML_SUCCESS);
  EXPECT_EQ(found, card(1));
  nvmlPciInfo_t pci = {};
  EXPECT_EQ(NVML(nvmlDeviceGetPciInfo_v3)(card(1), &pci), NVML_SUCCESS);
  EXPECT_STREQ(pci.busId, "00000000:1C:00.0");
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByPciBusId_v2)("0000:1c:00.0", &found), NVML_SUCCESS);
  EXPECT_EQ(found, card(1));
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByIndex_v2)(2, &found), NVML_ERROR_INVALID_ARGUMENT);
}

TEST_F(AbiTest, OlderFormsWriteNoMoreThanTheirStructureHolds) {
  unsigned char bytes[sizeof(nvmlPciInfo_t)];
  std::memset(bytes, 0xee, sizeof(bytes));
  EXPECT_EQ(NVML(nvmlDeviceGetPciInfo_v2)(card(0), reinterpret_cast<nvmlPciInfo_t*>(bytes)), NVML_SUCCESS);
  EXPECT_EQ(bytes[35], 0x14);  // the end of the subsystem id
  EXPECT_EQ(bytes[36], 0xee);
  std::memset(bytes, 0xee, sizeof(bytes));
  EXPECT_EQ(NVML(nvmlDeviceGetPciInfo)(card(0), reinterpret_cast<nvmlPciInfo_t*>(bytes)), NVML_SUCCESS);
  EXPECT_EQ(bytes[32], 0xee);
}

TEST_F(AbiTest, StructureVersionsAreChecked) {
  nvmlMemory_v2_t memory = {};
  EXPECT_EQ(NVML(nvmlDeviceGetMemoryInfo_v2)(card(0), &memory), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  memory.version = nvmlMemory_v2;
  EXPECT_EQ(NVML(nvmlDeviceGetMemoryInfo_v2)(card(0), &memory), NVML_SUCCESS);
  EXPECT_EQ(memory.total, 81920ULL << 20U);
  EXPECT_EQ(memory.free, memory.total - memory.reserved);
  nvmlGpuInstanceProfileInfo_v2_t profile = {};
  EXPECT_EQ(NVML(nvmlDeviceGetGpuInstanceProfileInfoV)(card(0), 0, &profile), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  profile.version = nvmlGpuInstanceProfileInfo_v2;
  EXPECT_EQ(NVML(nvmlDeviceGetGpuInstanceProfileInfoV)(card(0), 0, &profile), NVML_SUCCESS);
  EXPECT_STREQ(profile.name, "MIG 1g.10gb");
  EXPECT_EQ(profile.id, 19U);
}

TEST_F(AbiTest, ProcessesInAllLayouts) {
  Process process(machine->run_arguments({"alloc=100Mi", "hold"}), machine->environment());
  ASSERT_NE(process.wait_line("alloc"), "");
  const auto pid = static_cast<unsigned int>(process.pid());
  unsigned int count = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(card(0), &count, nullptr), NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(count, 1U);
  nvmlProcessInfo_t third[2] = {};
  nvmlProcessInfo_v2_t second[2] = {};
  nvmlProcessInfo_v1_t first[2] = {};
  for (unsigned int* size : {&count}) {
    *size = 2;
    EXPECT_EQ(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(card(0), size, third), NVML_SUCCESS);
    *size = 2;
    EXPECT_EQ(NVML(nvmlDeviceGetComputeRunningProcesses_v2)(card(0), size, second), NVML_SUCCESS);
    *size = 2;
    EXPECT_EQ(NVML(nvmlDeviceGetComputeRunningProcesses)(card(0), size, first), NVML_SUCCESS);
  }
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(third[0].pid, pid);
  EXPECT_EQ(second[0].pid, pid);
  EXPECT_EQ(first[0].pid, pid);
  EXPECT_EQ(third[0].usedGpuMemory, 400ULL << 20U);
  EXPECT_EQ(first[0].usedGpuMemory, 400ULL << 20U);
  EXPECT_EQ(first[1].pid, 0U);
  EXPECT_EQ(NVML(nvmlDeviceGetGraphicsRunningProcesses_v3)(card(0), &count, third), NVML_SUCCESS);
  EXPECT_EQ(count, 0U);
}

TEST_F(AbiTest, UtilisationOfACardAndItsProcess) {
  Process process(machine->run_arguments({"launch-async=10ms*900", "hold"}), machine->environment());
  ASSERT_NE(process.wait_line("launch-async"), "");
  nvmlUtilization_t load = {};
  nvmlProcessUtilizationSample_t samples[64];
  unsigned int count = 64;
  // The window fills as time passes; the card is never idle.
  do {
    count = 64;
    ASSERT_EQ(NVML(nvmlDeviceGetUtilizationRates)(card(0), &load), NVML_SUCCESS);
    const nvmlReturn_t code = NVML(nvmlDeviceGetProcessUtilization)(card(0), samples, &count, 0);
    ASSERT_TRUE(code == NVML_SUCCESS || code == NVML_ERROR_NOT_FOUND);
  } while (load.gpu < 95);
  ASSERT_EQ(count, 1U);
  EXPECT_EQ(samples[0].pid, static_cast<unsigned int>(process.pid()));
  EXPECT_GE(samples[0].smUtil, 90U);
  EXPECT_EQ(NVML(nvmlDeviceGetProcessUtilization)(card(0), samples, &count, samples[0].timeStamp + 10'000'000),
            NVML_ERROR_NOT_FOUND);
}

TEST_F(AbiTest, EventsComeOnceAndWaitingEnds) {
  nvmlEventSet_t set = nullptr;
  nvmlEventData_t data = {};
  ASSERT_EQ(NVML(nvmlEventSetCreate)(&set), NVML_SUCCESS);
  ASSERT_EQ(
      NVML(nvmlDeviceRegisterEvents)(card(0), nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError, set),
      NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlDeviceRegisterEvents)(card(0), nvmlEventTypeClock, set), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(NVML(nvmlEventSetWait_v2)(set, &data, 1), NVML_ERROR_TIMEOUT);
  machine->nvsim({"fault", "--kind", "xid", "--card", "0", "--value", "63"});
  EXPECT_EQ(NVML(nvmlEventSetWait_v2)(set, &data, 10'000), NVML_SUCCESS);
  EXPECT_EQ(data.device, card(0));
  EXPECT_EQ(data.eventType, nvmlEventTypeXidCriticalError);
  EXPECT_EQ(data.eventData, 63U);
  EXPECT_EQ(NVML(nvmlEventSetWait_v2)(set, &data, 1), NVML_ERROR_TIMEOUT);
  machine->nvsim({"fault", "--kind", "ecc", "--card", "0", "--value", "3"});
  EXPECT_EQ(NVML(nvmlEventSetWait_v2)(set, &data, 10'000), NVML_SUCCESS);
  EXPECT_EQ(data.eventType, nvmlEventTypeDoubleBitEccError);
  unsigned long long errors = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetTotalEccErrors)(card(0), NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &errors),
            NVML_SUCCESS);
  EXPECT_EQ(errors, 3U);
  EXPECT_EQ(NVML(nvmlEventSetFree)(set), NVML_SUCCESS);
}

TEST_F(AbiTest, LinksAndTopology) {
  nvmlGpuTopologyLevel_t level = NVML_TOPOLOGY_INTERNAL;
  EXPECT_EQ(NVML(nvmlDeviceGetTopologyCommonAncestor)(card(0), card(1), &level), NVML_SUCCESS);
  EXPECT_EQ(level, NVML_TOPOLOGY_NODE);
  nvmlEnableState_t active = NVML_FEATURE_DISABLED;
  EXPECT_EQ(NVML(nvmlDeviceGetNvLinkState)(card(0), 11, &active), NVML_SUCCESS);
  EXPECT_EQ(active, NVML_FEATURE_ENABLED);
  EXPECT_EQ(NVML(nvmlDeviceGetNvLinkState)(card(0), 12, &active), NVML_ERROR_INVALID_ARGUMENT);
  nvmlGpuP2PStatus_t status = NVML_P2P_STATUS_UNKNOWN;
  EXPECT_EQ(NVML(nvmlDeviceGetP2PStatus)(card(0), card(1), NVML_P2P_CAPS_INDEX_NVLINK, &status), NVML_SUCCESS);
  EXPECT_EQ(status, NVML_P2P_STATUS_OK);
}

// Ampere has no fabric; the library looks at the version of the structure first.
TEST_F(AbiTest, AFabricIsOfHopperAndLater) {
  nvmlGpuFabricInfoV_t info = {};
  EXPECT_EQ(NVML(nvmlDeviceGetGpuFabricInfoV)(card(0), &info), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  info.version = nvmlGpuFabricInfo_v2;
  EXPECT_EQ(NVML(nvmlDeviceGetGpuFabricInfoV)(card(0), &info), NVML_ERROR_NOT_SUPPORTED);
  nvmlGpuFabricInfo_t older = {};
  EXPECT_EQ(NVML(nvmlDeviceGetGpuFabricInfo)(card(0), &older), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(NVML(nvmlDeviceGetGpuFabricInfo)(card(0), nullptr), NVML_ERROR_INVALID_ARGUMENT);
}

TEST_F(AbiTest, MigIsOffButKnown) {
  unsigned int current = 9, pending = 9, count = 16;
  EXPECT_EQ(NVML(nvmlDeviceGetMigMode)(card(0), &current, &pending), NVML_SUCCESS);
  EXPECT_EQ(current + pending, 0U);
  nvmlGpuInstancePlacement_t placements[16];
  EXPECT_EQ(NVML(nvmlDeviceGetGpuInstancePossiblePlacements_v2)(card(0), 9, placements, &count), NVML_SUCCESS);
  ASSERT_EQ(count, 2U);
  EXPECT_EQ(placements[1].start, 4U);
  EXPECT_EQ(placements[1].size, 4U);
}

TEST_F(AbiTest, BeforeInitAndAfterShutdown) {
  EXPECT_EQ(NVML(nvmlShutdown)(), NVML_SUCCESS);
  unsigned int count = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetCount_v2)(&count), NVML_ERROR_UNINITIALIZED);
  EXPECT_EQ(NVML(nvmlShutdown)(), NVML_ERROR_UNINITIALIZED);
  EXPECT_EQ(NVML(nvmlInit)(), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlDeviceGetCount)(&count), NVML_SUCCESS);
  EXPECT_EQ(count, 2U);
}

}  // namespace
}  // namespace nvsim::test
