#include "vendors/nvidia/probe.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nvml.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/file.h"
#include "base/temporary_folder.h"
#include "vendors/partition.h"
#include "vendors/wire.h"

namespace heddle::vendors::nvidia {
namespace {

TEST(Probe, NeverFollowsTheLibraryPathOfTheEnvironment) {
  const TemporaryFolder temporary;
  const std::string& dir = temporary.path();
  ASSERT_TRUE(write_file_atomic(dir + "/libnvidia-ml.so.1", "not a library", 0600));
  ::setenv("LD_LIBRARY_PATH", dir.c_str(), 1);
  Probe probe({"", dir + "/root", "/sys"});
  const Inventory inventory = probe.discover();
  EXPECT_EQ(inventory.state, LibraryState::kMissing);
  EXPECT_TRUE(inventory.library_path.empty());
  ::unsetenv("LD_LIBRARY_PATH");
}

TEST(Probe, FindsTheLibraryUnderTheDriverRoot) {
  const TemporaryFolder temporary;
  const std::string& dir = temporary.path();
  ASSERT_TRUE(make_directories(dir + "/usr/lib64", 0755));
  ASSERT_TRUE(write_file_atomic(dir + "/usr/lib64/libnvidia-ml.so.1", "not a library", 0600));
  Probe probe({"", dir + "/", "/sys"});
  const Inventory inventory = probe.discover();
  EXPECT_EQ(inventory.library_path, dir + "/usr/lib64/libnvidia-ml.so.1");
  EXPECT_EQ(inventory.state, LibraryState::kMissing) << "it cannot be loaded";
  EXPECT_FALSE(inventory.detail.empty());
}

// On the simulated machine, whose library is the vendor's in names and layouts.
TEST(Probe, FindsTheInstancesOfAPartitionedCardAndWhoIsOnThem) {
  const char* tools = std::getenv("HEDDLE_BINARY_DIR");
  ASSERT_NE(tools, nullptr);
  const TemporaryFolder temporary;
  const std::string& dir = temporary.path();
  ASSERT_TRUE(write_file_atomic(
      dir + "/cards.yaml", "cards: [{model: H100, mig-instances: ['3g.40gb@4', '1g.10gb@2']}, {model: H100}]", 0600));
  const std::string bin = tools;
  ASSERT_EQ(
      std::system(
          (bin + "/bin/nvsim create --config " + dir + "/cards.yaml --root " + dir + " >" + dir + "/log").c_str()),
      0);
  ::setenv("NVSIM_ROOT", dir.c_str(), 1);
  {
    Probe probe({bin + "/sim/nvidia/lib/libnvidia-ml.so.1", dir, "/sys"});
    const Inventory found = probe.discover();
    ASSERT_EQ(found.cards.size(), 4U);
    EXPECT_TRUE(found.cards[0].partitioned);
    EXPECT_FALSE(found.cards[0].is_partition());
    const Card& small = found.cards[1];
    EXPECT_EQ(small.partition.profile, "1g.10gb");
    EXPECT_EQ(small.partition.start, 2);
    EXPECT_EQ(small.partition.gpu_instance, 9);
    EXPECT_EQ(small.partition.parent_uuid, found.cards[0].uuid);
    EXPECT_EQ(small.memory_bytes, int64_t{9984} << 20);
    EXPECT_EQ(small.minor, 0);
    EXPECT_EQ(small.model, "NVIDIA H100 80GB HBM3");
    EXPECT_EQ(found.cards[2].partition.profile, "3g.40gb");
    EXPECT_FALSE(found.cards[3].partitioned);
    // It crosses the pipe of the worker whole.
    const auto parsed = parse_inventory(inventory_json(found));
    ASSERT_TRUE(parsed) << parsed.error().text();
    EXPECT_EQ(parsed->cards[1].partition.gpu_instance, 9);
    EXPECT_FALSE(parsed->cards[3].is_partition());
    // A process on an instance is on it, and not on its card.
    const std::string run = "cd " + dir + "; CUDA_VISIBLE_DEVICES=" + small.uuid + " " + bin +
                            "/bin/nvsim-run lib=" + bin +
                            "/sim/nvidia/lib/libcuda.so.1 expect-total=9984Mi alloc=100Mi touch=" + dir + "/up hold >" +
                            dir + "/run 2>&1 & echo $! >" + dir + "/pid";
    ASSERT_EQ(std::system(run.c_str()), 0);
    while (!file_exists(dir + "/up") && read_file(dir + "/run").value_or("").find("ok=0") == std::string::npos) {
      ::usleep(1000);
    }
    const StatusReport status = probe.status();
    ASSERT_EQ(status.cards.size(), 4U);
    EXPECT_TRUE(status.cards[0].processes.empty());
    EXPECT_EQ(status.cards[1].processes.size(), 1U) << read_file(dir + "/run").value_or("");
    EXPECT_TRUE(status.cards[2].processes.empty());
    // Instances made on request beside those of others, which stay.
    PartitionOrder order{found.cards[0].uuid, "1g.10gb", 0};
    EXPECT_TRUE(found.cards[0].cuts);
    EXPECT_FALSE(found.cards[3].cuts) << "its MIG mode is off";
    EXPECT_EQ(probe.place(order, {}), 0);
    for (int i = 0; i < 2; ++i) {
      const auto made = probe.make(order);
      ASSERT_TRUE(made) << made.error().text();
      EXPECT_EQ(made->cards.size(), 5U) << "a call that is repeated makes nothing new";
      const Card* instance = find_partition(made->cards, order);
      ASSERT_NE(instance, nullptr);
      EXPECT_TRUE(instance->uuid.starts_with("MIG-")) << instance->uuid;
      EXPECT_EQ(instance->memory_bytes, int64_t{9984} << 20);
    }
    EXPECT_EQ(probe.place({order.parent_uuid, "1g.10gb", 2}, {}).error().code, Code::kConflict) << "another's";
    EXPECT_EQ(probe.place({order.parent_uuid, "2g.20gb", 2}, {}).error().code, Code::kConflict) << "a part of it is";
    EXPECT_EQ(probe.make({order.parent_uuid, "4g.40gb", 0}).error().code, Code::kExhausted);
    EXPECT_EQ(probe.make({order.parent_uuid, "4g.40gb", 1}).error().code, Code::kInvalidArgument);
    EXPECT_EQ(probe.make({order.parent_uuid, "5g.50gb", 0}).error().code, Code::kInvalidArgument);
    EXPECT_EQ(probe.drop({order.parent_uuid, "1g.10gb", 2}).error().code, Code::kConflict) << "a process is on it";
    EXPECT_EQ(probe.drop({order.parent_uuid, "1g.10gb", 1})->cards.size(), 5U) << "there is none";
    for (int i = 0; i < 2; ++i) EXPECT_EQ(probe.drop(order)->cards.size(), 4U);
    EXPECT_EQ(probe.drop({found.cards[3].uuid, "1g.10gb", 0})->cards.size(), 4U) << "its MIG mode is off";
    // One without a compute instance, which no device shows: what is left beside it is not known.
    void* nvml = ::dlopen((bin + "/sim/nvidia/lib/libnvidia-ml.so.1").c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(nvml, nullptr);
    const auto by_index =
        reinterpret_cast<decltype(&nvmlDeviceGetHandleByIndex_v2)>(::dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2"));
    const auto create =
        reinterpret_cast<decltype(&nvmlDeviceCreateGpuInstance)>(::dlsym(nvml, "nvmlDeviceCreateGpuInstance"));
    const auto destroy = reinterpret_cast<decltype(&nvmlGpuInstanceDestroy)>(::dlsym(nvml, "nvmlGpuInstanceDestroy"));
    nvmlDevice_t card_in_mig_mode = nullptr;
    nvmlGpuInstance_t empty = nullptr;
    ASSERT_EQ(by_index(0, &card_in_mig_mode), NVML_SUCCESS);
    ASSERT_EQ(create(card_in_mig_mode, 19, &empty), NVML_SUCCESS);
    EXPECT_FALSE(probe.discover().cards[0].cuts);
    ASSERT_EQ(destroy(empty), NVML_SUCCESS);
    EXPECT_TRUE(probe.discover().cards[0].cuts);
    ::kill(static_cast<pid_t>(std::stol(read_file(dir + "/pid").value_or("0"))), SIGKILL);
    // What befalls the card befalls its instances.
    ASSERT_EQ(std::system((bin + "/bin/nvsim fault --root " + dir + " --card 0 --kind xid --value 79").c_str()), 0);
    EXPECT_EQ(probe.status().events.size(), 3U);
  }
  ::unsetenv("NVSIM_ROOT");
}

// As on a tray of an NVL72: its NVLinks go to the other machines of the rack, too.
TEST(Probe, NamesTheFabricOfACardThatIsRegisteredWithOne) {
  const char* tools = std::getenv("HEDDLE_BINARY_DIR");
  ASSERT_NE(tools, nullptr);
  const TemporaryFolder temporary;
  const std::string& dir = temporary.path();
  const std::string cluster = "fabric-cluster: 6c1e0b4a-32f5-4d0c-9a52-0c7b8c1d2e3f";
  ASSERT_TRUE(write_file_atomic(dir + "/cards.yaml",
                                "cards:\n- {model: B200, " + cluster + ", fabric-clique: 32766}\n- {model: B200, " +
                                    cluster + ", fabric-state: in-progress}\n- {model: B200, " + cluster +
                                    ", fabric-status: 999}\n- {model: H100}\n- {model: T4}\n- {model: H100, " +
                                    cluster + ", mig-instances: ['1g.10gb@2']}\n",
                                0600));
  const std::string bin = tools;
  ASSERT_EQ(
      std::system(
          (bin + "/bin/nvsim create --config " + dir + "/cards.yaml --root " + dir + " >" + dir + "/log").c_str()),
      0);
  ::setenv("NVSIM_ROOT", dir.c_str(), 1);
  {
    // A copy: the library itself may be loaded already, and then it knows the machine of another test.
    const std::string library = dir + "/libnvidia-ml.so.1";
    std::filesystem::copy_file(bin + "/sim/nvidia/lib/libnvidia-ml.so.1", library);
    Probe probe({library, dir, "/sys"});
    const Inventory found = probe.discover();
    ASSERT_EQ(found.cards.size(), 7U);
    EXPECT_EQ(found.cards[0].link_domain, "6c1e0b4a-32f5-4d0c-9a52-0c7b8c1d2e3f.32766");
    EXPECT_EQ(found.cards[1].link_domain, "") << "not yet";
    EXPECT_EQ(found.cards[2].link_domain, "") << "its registration failed";
    EXPECT_EQ(found.cards[3].link_domain, "") << "the fabric of the machine alone";
    EXPECT_EQ(found.cards[4].link_domain, "") << "it has none";
    EXPECT_EQ(found.cards[5].link_domain, "6c1e0b4a-32f5-4d0c-9a52-0c7b8c1d2e3f.0");
    EXPECT_TRUE(found.cards[6].is_partition());
    EXPECT_EQ(found.cards[6].link_domain, "") << "an instance has no NVLink";
  }
  ::unsetenv("NVSIM_ROOT");
}

TEST(Probe, TellsTheDeviceTimeOfEachProcessOnce) {
  const char* folder = std::getenv("HEDDLE_TEST_DIR");
  ASSERT_NE(folder, nullptr);
  const TemporaryFolder temporary;
  const std::string& dir = temporary.path();
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
}

}  // namespace
}  // namespace heddle::vendors::nvidia
