// MIG as a program that is linked to nothing finds it: mode, instances, devices, and what their processes get.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "nvml/api.h"
#include "test/harness.h"

namespace nvsim::test {
namespace {

using ::testing::HasSubstr;
constexpr long long kMi = 1LL << 20U;

template <typename Function>
Function* find(void* library, const char* name) {
  return std::bit_cast<Function*>(dlsym(library, name));
}

#define NVML(name) find<decltype(::name)>(nvml, #name)

class MigTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    machine = new SimulatedMachine(
        "cards: [{model: H100, count: 2}, {model: A100-80}, {model: A30, mig-instances: ['2g.12gb@2', '1g.6gb@0']}, "
        "{model: B200}, {model: L4}, {model: H200}, {model: A100-80, mig-reset: external}]");
    setenv("NVSIM_ROOT", machine->root().c_str(), 1);
    nvml = dlopen(NVSIM_LIBRARIES "/libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(nvml, nullptr) << dlerror();
    ASSERT_EQ(NVML(nvmlInit_v2)(), NVML_SUCCESS);
  }
  static void TearDownTestSuite() { delete machine; }
  void TearDown() override {
    EXPECT_EQ(machine->nvsim({"reset"}).code, 0);
    for (const unsigned int index : {0U, 1U, 2U, 3U, 4U, 6U, 7U}) set_mode(index, 0);
    EXPECT_EQ(machine->nvsim({"reset"}).code, 0);
  }

  static nvmlDevice_t card(unsigned int index) {
    nvmlDevice_t handle = nullptr;
    EXPECT_EQ(NVML(nvmlDeviceGetHandleByIndex_v2)(index, &handle), NVML_SUCCESS);
    return handle;
  }
  static nvmlReturn_t set_mode(unsigned int index, unsigned int mode) {
    nvmlReturn_t activation = NVML_ERROR_UNKNOWN;
    EXPECT_EQ(NVML(nvmlDeviceSetMigMode)(card(index), mode, &activation), NVML_SUCCESS);
    return activation;
  }
  static std::vector<unsigned int> mode(unsigned int index) {
    unsigned int current = 9, pending = 9;
    EXPECT_EQ(NVML(nvmlDeviceGetMigMode)(card(index), &current, &pending), NVML_SUCCESS);
    return {current, pending};
  }
  static nvmlReturn_t make(unsigned int index, unsigned int profile, nvmlGpuInstancePlacement_t place,
                           nvmlGpuInstance_t* out) {
    return NVML(nvmlDeviceCreateGpuInstanceWithPlacement)(card(index), profile, &place, out);
  }
  // A GPU instance with all of its compute in one; its MIG device's uuid.
  static std::string make_device(unsigned int index, unsigned int profile, nvmlGpuInstancePlacement_t place,
                                 unsigned int compute, nvmlGpuInstance_t* gpu, nvmlComputeInstance_t* ci) {
    EXPECT_EQ(make(index, profile, place, gpu), NVML_SUCCESS);
    EXPECT_EQ(NVML(nvmlGpuInstanceCreateComputeInstance)(*gpu, compute, ci), NVML_SUCCESS);
    nvmlDevice_t device = nullptr;
    EXPECT_EQ(NVML(nvmlDeviceGetMigDeviceHandleByIndex)(card(index), place.start, &device), NVML_SUCCESS);
    char uuid[96] = "";
    EXPECT_EQ(NVML(nvmlDeviceGetUUID)(device, uuid, 96), NVML_SUCCESS);
    return uuid;
  }

  inline static SimulatedMachine* machine = nullptr;
  inline static void* nvml = nullptr;
};

TEST_F(MigTest, ProfilesOfEveryModelAreMadeWhereTheDriverSays) {
  for (const unsigned int index : {0U, 2U, 3U, 4U, 6U}) {
    EXPECT_EQ(machine->nvsim({"reset", "--card", std::to_string(index)}).code, 0);
    ASSERT_EQ(set_mode(index, 1), NVML_SUCCESS);
    unsigned int made = 0;
    for (unsigned int profile = 0; profile < NVML_GPU_INSTANCE_PROFILE_COUNT; ++profile) {
      nvmlGpuInstanceProfileInfo_v2_t info = {};
      info.version = nvmlGpuInstanceProfileInfo_v2;
      const nvmlReturn_t code = NVML(nvmlDeviceGetGpuInstanceProfileInfoV)(card(index), profile, &info);
      if (code == NVML_ERROR_NOT_SUPPORTED) continue;
      ASSERT_EQ(code, NVML_SUCCESS);
      nvmlGpuInstancePlacement_t places[16];
      unsigned int count = 16, room = 0;
      ASSERT_EQ(NVML(nvmlDeviceGetGpuInstancePossiblePlacements_v2)(card(index), info.id, places, &count),
                NVML_SUCCESS);
      EXPECT_EQ(NVML(nvmlDeviceGetGpuInstanceRemainingCapacity)(card(index), info.id, &room), NVML_SUCCESS);
      EXPECT_EQ(room, info.instanceCount) << info.name << ": of an empty card";
      for (unsigned int place = 0; place < count; ++place) {
        nvmlGpuInstance_t instance = nullptr;
        ASSERT_EQ(make(index, info.id, places[place], &instance), NVML_SUCCESS) << info.name;
        nvmlGpuInstanceInfo_t got = {};
        EXPECT_EQ(NVML(nvmlGpuInstanceGetInfo)(instance, &got), NVML_SUCCESS);
        EXPECT_EQ(got.profileId, info.id);
        EXPECT_EQ(got.placement.start, places[place].start);
        EXPECT_EQ(NVML(nvmlGpuInstanceDestroy)(instance), NVML_SUCCESS);
        EXPECT_EQ(NVML(nvmlGpuInstanceDestroy)(instance), NVML_ERROR_INVALID_ARGUMENT) << "it is gone";
        ++made;
      }
    }
    EXPECT_GT(made, 10U);
  }
}

TEST(MigGeometry, AnAdministratorsInstancesAreThereFromTheStart) {
  const SimulatedMachine machine("cards: [{model: A30, mig-instances: ['2g.12gb@2', '1g.6gb@0']}]");
  const Finished shown = machine.nvsim({"show"});
  EXPECT_THAT(shown.output, HasSubstr("mig mode 1 pending 1"));
  EXPECT_THAT(shown.output, HasSubstr("mig 2g.12gb@2  gi 4  ci 0"));
  const std::size_t at = shown.output.find("MIG-", shown.output.find("1g.6gb@0"));
  const Finished used = machine.run({"expect-total=5836Mi"}, {"CUDA_VISIBLE_DEVICES=" + shown.output.substr(at, 40)});
  EXPECT_EQ(used.code, 0) << shown.output << used.output;
  EXPECT_EQ(machine.run({"devices=1"}).code, 0) << "where nothing is named, the first instance";
}

TEST_F(MigTest, PlacementsExcludeEachOther) {
  ASSERT_EQ(set_mode(0, 1), NVML_SUCCESS);
  nvmlGpuInstance_t three = nullptr, more = nullptr;
  ASSERT_EQ(make(0, 9, {4, 4}, &three), NVML_SUCCESS);
  EXPECT_EQ(make(0, 9, {4, 4}, &more), NVML_ERROR_INSUFFICIENT_RESOURCES);
  EXPECT_EQ(make(0, 19, {5, 1}, &more), NVML_ERROR_INSUFFICIENT_RESOURCES);
  EXPECT_EQ(make(0, 0, {0, 8}, &more), NVML_ERROR_INSUFFICIENT_RESOURCES);
  EXPECT_EQ(make(0, 14, {1, 2}, &more), NVML_ERROR_INVALID_ARGUMENT) << "not a place of this profile";
  EXPECT_EQ(make(0, 20, {0, 1}, &more), NVML_SUCCESS);
  EXPECT_EQ(make(0, 20, {1, 1}, &more), NVML_ERROR_INSUFFICIENT_RESOURCES) << "one +me a card";
  // 4 memory slices are left but one, and 3 compute slices.
  unsigned int room = 9;
  EXPECT_EQ(NVML(nvmlDeviceGetGpuInstanceRemainingCapacity)(card(0), 19, &room), NVML_SUCCESS);
  EXPECT_EQ(room, 3U);
  EXPECT_EQ(set_mode(0, 0), NVML_ERROR_IN_USE) << "with instances the mode stays";
}

TEST_F(MigTest, TheModeChangesAsOnEachArchitecture) {
  Process hopper(machine->run_arguments({"alloc=10Mi", "hold"}),
                 {"NVSIM_ROOT=" + machine->root(), "CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=0"});
  Process ampere(machine->run_arguments({"alloc=10Mi", "hold"}),
                 {"NVSIM_ROOT=" + machine->root(), "CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=2"});
  hopper.wait_line("alloc");
  ampere.wait_line("alloc");
  EXPECT_EQ(set_mode(0, 1), NVML_ERROR_IN_USE);
  EXPECT_EQ(mode(0), (std::vector<unsigned int>{0, 0}));
  EXPECT_EQ(set_mode(2, 1), NVML_ERROR_IN_USE);
  EXPECT_EQ(mode(2), (std::vector<unsigned int>{0, 1})) << "pending until the next reset";
  EXPECT_EQ(set_mode(7, 1), NVML_ERROR_RESET_REQUIRED);
  EXPECT_EQ(mode(7), (std::vector<unsigned int>{0, 1}));
  hopper.signal(SIGKILL);
  ampere.signal(SIGKILL);
  hopper.finish();
  ampere.finish();
  EXPECT_EQ(set_mode(0, 1), NVML_SUCCESS);
  EXPECT_EQ(machine->nvsim({"reset"}).code, 0);
  EXPECT_EQ(mode(0), (std::vector<unsigned int>{0, 0})) << "a Hopper card forgets the mode";
  EXPECT_EQ(mode(2), (std::vector<unsigned int>{1, 1})) << "an Ampere card keeps it";
  EXPECT_EQ(mode(7), (std::vector<unsigned int>{1, 1}));
  EXPECT_EQ(set_mode(2, 0), NVML_SUCCESS);
  nvmlReturn_t activation = NVML_SUCCESS;
  EXPECT_EQ(NVML(nvmlDeviceSetMigMode)(card(5), 1, &activation), NVML_ERROR_NOT_SUPPORTED) << "an L4";
}

TEST_F(MigTest, AProcessHasItsInstanceAndNothingElse) {
  ASSERT_EQ(set_mode(0, 1), NVML_SUCCESS);
  nvmlGpuInstance_t gpu[2];
  nvmlComputeInstance_t compute[2];
  const std::string first = make_device(0, 19, {3, 1}, 0, &gpu[0], &compute[0]);
  const std::string second = make_device(0, 9, {4, 4}, 2, &gpu[1], &compute[1]);
  EXPECT_EQ(first.substr(0, 4), "MIG-");
  EXPECT_NE(first, second);
  // CUDA: the memory of the instance less one context, and not a byte more.
  const Finished small = machine->run({"expect-total=9984Mi", "alloc=9684Mi", "expect-oom=2Mi", "devices=1"},
                                      {"CUDA_VISIBLE_DEVICES=" + first});
  EXPECT_EQ(small.code, 0) << small.output;
  Process holder(machine->run_arguments({"alloc=9000Mi", "hold"}),
                 {"NVSIM_ROOT=" + machine->root(), "CUDA_VISIBLE_DEVICES=" + first});
  ASSERT_THAT(holder.wait_line("alloc"), HasSubstr("ok=1"));
  const Finished other = machine->run({"expect-total=40448Mi", "alloc=40100Mi"}, {"CUDA_VISIBLE_DEVICES=" + second});
  EXPECT_EQ(other.code, 0) << "what the other instance holds is not counted: " << other.output;
  // NVML: who is where.
  nvmlProcessInfo_t infos[8];
  unsigned int count = 8;
  ASSERT_EQ(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(card(0), &count, infos), NVML_SUCCESS);
  ASSERT_EQ(count, 1U);
  nvmlGpuInstanceInfo_t info = {};
  ASSERT_EQ(NVML(nvmlGpuInstanceGetInfo)(gpu[0], &info), NVML_SUCCESS);
  EXPECT_EQ(infos[0].gpuInstanceId, info.id);
  EXPECT_EQ(infos[0].computeInstanceId, 0U);
  EXPECT_EQ(infos[0].usedGpuMemory, 9300ULL * kMi);
  nvmlDevice_t device = nullptr;
  ASSERT_EQ(NVML(nvmlDeviceGetHandleByUUID)(second.c_str(), &device), NVML_SUCCESS);
  count = 8;
  EXPECT_EQ(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, infos), NVML_SUCCESS);
  EXPECT_EQ(count, 0U);
  nvmlMemory_t memory = {};
  EXPECT_EQ(NVML(nvmlDeviceGetMemoryInfo)(device, &memory), NVML_SUCCESS);
  EXPECT_EQ(memory.total, 40448ULL * kMi);
  nvmlDeviceAttributes_t attributes = {};
  EXPECT_EQ(NVML(nvmlDeviceGetAttributes_v2)(device, &attributes), NVML_SUCCESS);
  EXPECT_EQ(attributes.multiprocessorCount, 60U);
  EXPECT_EQ(attributes.gpuInstanceSliceCount, 3U);
  nvmlUtilization_t load = {};
  EXPECT_EQ(NVML(nvmlDeviceGetUtilizationRates)(card(0), &load), NVML_ERROR_NOT_SUPPORTED);
  // An instance in use stays; the process's death frees it.
  EXPECT_EQ(NVML(nvmlComputeInstanceDestroy)(compute[0]), NVML_ERROR_IN_USE);
  EXPECT_EQ(NVML(nvmlGpuInstanceDestroy)(gpu[0]), NVML_ERROR_IN_USE);
  holder.signal(SIGKILL);
  holder.finish();
  EXPECT_EQ(NVML(nvmlGpuInstanceDestroy)(gpu[0]), NVML_ERROR_IN_USE) << "its compute instance comes first";
  EXPECT_EQ(NVML(nvmlComputeInstanceDestroy)(compute[0]), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlGpuInstanceDestroy)(gpu[0]), NVML_SUCCESS);
  EXPECT_EQ(machine->run({"expect-init=100"}, {"CUDA_VISIBLE_DEVICES=" + first}).code, 0) << "it is gone";
}

TEST_F(MigTest, DevicesHaveGapsAndCapabilitiesDecideWhoSeesThem) {
  ASSERT_EQ(set_mode(1, 1), NVML_SUCCESS);
  nvmlGpuInstance_t gpu = nullptr;
  nvmlComputeInstance_t compute = nullptr;
  const std::string uuid = make_device(1, 14, {4, 2}, 1, &gpu, &compute);
  nvmlDevice_t device = nullptr;
  std::set<unsigned int> found;
  unsigned int most = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetMaxMigDeviceCount)(card(1), &most), NVML_SUCCESS);
  EXPECT_EQ(most, 7U);
  for (unsigned int index = 0; index < most; ++index) {
    const nvmlReturn_t code = NVML(nvmlDeviceGetMigDeviceHandleByIndex)(card(1), index, &device);
    EXPECT_TRUE(code == NVML_SUCCESS || code == NVML_ERROR_NOT_FOUND);
    if (code == NVML_SUCCESS) found.insert(index);
  }
  EXPECT_EQ(found, std::set<unsigned int>{4});
  unsigned int id = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetMigDeviceHandleByIndex)(card(1), 4, &device), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlDeviceGetGpuInstanceId)(device, &id), NVML_SUCCESS);
  EXPECT_EQ(id, 5U);
  nvmlDevice_t parent = nullptr;
  EXPECT_EQ(NVML(nvmlDeviceGetDeviceHandleFromMigDeviceHandle)(device, &parent), NVML_SUCCESS);
  EXPECT_EQ(parent, card(1));
  // The minor numbers as the kernel lists them, and in the access file of what exists.
  std::ostringstream minors, access;
  minors << std::ifstream(machine->root() + "/proc/driver/nvidia-caps/mig-minors").rdbuf();
  access << std::ifstream(machine->root() + "/proc/driver/nvidia/capabilities/gpu1/mig/gi5/ci0/access").rdbuf();
  EXPECT_THAT(minors.str(), HasSubstr("gpu0/gi0/access 3\n"));
  EXPECT_THAT(minors.str(), HasSubstr("gpu1/gi5/ci0/access 184\n"));
  EXPECT_THAT(access.str(), HasSubstr("DeviceFileMinor: 184\n"));
  EXPECT_EQ(machine->run({"devices=1"}, {"CUDA_VISIBLE_DEVICES=" + uuid}).code, 0);
  ASSERT_TRUE(std::filesystem::remove(machine->root() + "/dev/nvidia-caps/nvidia-cap184"));
  EXPECT_EQ(machine->run({"expect-init=100"}, {"CUDA_VISIBLE_DEVICES=" + uuid}).code, 0) << "without its node";
}

TEST_F(MigTest, InstancesRunBesideEachOther) {
  ASSERT_EQ(set_mode(0, 1), NVML_SUCCESS);
  nvmlGpuInstance_t gpu[2];
  nvmlComputeInstance_t compute[2];
  const std::string first = make_device(0, 9, {0, 4}, 2, &gpu[0], &compute[0]);
  const std::string second = make_device(0, 9, {4, 4}, 2, &gpu[1], &compute[1]);
  Process busy(machine->run_arguments({"launch-async=20ms*900", "hold"}),
               {"NVSIM_ROOT=" + machine->root(), "CUDA_VISIBLE_DEVICES=" + first});
  ASSERT_THAT(busy.wait_line("launch-async"), HasSubstr("ok=1"));
  // With turns of 2 ms between two processes of one card an event would see twice the time.
  const Finished beside = machine->run({"event-time=100ms"}, {"CUDA_VISIBLE_DEVICES=" + second});
  EXPECT_EQ(beside.code, 0) << beside.output;
  EXPECT_LT(number(beside.output, "measured_us"), 150'000) << beside.output;
}

}  // namespace
}  // namespace nvsim::test
