// The machine as programs and the management library meet it.
#include <ascend_abi/dcmi.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "test/harness.h"

namespace {

using nvsim::test::Finished;
using nvsim::test::Process;
using ::testing::HasSubstr;

class NpuMachine {
 public:
  explicit NpuMachine(const std::string& yaml) {
    std::string pattern = std::filesystem::temp_directory_path() / "ascendsim-test-XXXXXX";
    root_ = mkdtemp(pattern.data());
    std::ofstream(root_ + "/cards.yaml") << yaml;
    created_ = tool({"create", "--config", root_ + "/cards.yaml"});
  }
  ~NpuMachine() {
    std::error_code error;
    std::filesystem::remove_all(root_, error);
  }
  NpuMachine(const NpuMachine&) = delete;
  NpuMachine& operator=(const NpuMachine&) = delete;

  [[nodiscard]] const std::string& root() const { return root_; }
  [[nodiscard]] const Finished& created() const { return created_; }
  [[nodiscard]] Finished tool(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), ASCENDSIM_TOOL);
    arguments.insert(arguments.end(), {"--root", root_});
    return Process(arguments, {}).finish();
  }
  [[nodiscard]] std::vector<std::string> environment() const {
    return {"ASCENDSIM_ROOT=" + root_, std::string("LD_LIBRARY_PATH=") + ASCENDSIM_LIBRARIES};
  }
  [[nodiscard]] Finished run(std::vector<std::string> steps) const {
    steps.insert(steps.begin(), ASCENDSIM_RUN);
    return Process(steps, environment()).finish();
  }

 private:
  std::string root_;
  Finished created_;
};

TEST(Ascendsim, MemoryIsTakenInPagesAndGivenBack) {
  const NpuMachine machine("cards: [{model: 910B4}]");
  ASSERT_EQ(machine.created().code, 0);
  // A context of 100 MiB; 3000 MiB and 32 bytes more are 1501 pages of 2 MiB; 512 KiB stay 4 KiB pages.
  const Finished done = machine.run({"mem", "alloc=3000Mi", "mem", "alloc=512Ki", "mem", "physical=64Mi", "mem",
                                     "free-all", "mem", "expect-oom=40Gi", "rt-expect-oom=40Gi"});
  EXPECT_EQ(done.code, 0) << done.output;
  EXPECT_EQ(done.output,
            "free=32668 total=32768\nfree=29666 total=32768\nfree=29665 total=32768\nfree=29601 total=32768\n"
            "free=32668 total=32768\n");
}

TEST(Ascendsim, AProcessThatIsKilledLeavesNothing) {
  const NpuMachine machine("cards: [{model: 310P}]");
  Process holder({ASCENDSIM_RUN, "alloc=10Gi", "ready"}, machine.environment());
  ASSERT_EQ(holder.wait_line("ready"), "ready");
  EXPECT_THAT(machine.tool({"show"}).output, HasSubstr("memory 10302/24576 MiB"));
  holder.signal(SIGKILL);
  EXPECT_EQ(holder.finish().code, 128 + SIGKILL);
  EXPECT_THAT(machine.tool({"show"}).output, HasSubstr("memory 0/24576 MiB"));
}

TEST(Ascendsim, KernelsTakeTheirTimeAndProcessesShareTheCard) {
  const NpuMachine machine("cards: [{model: 910B4, kernel: 1ms}]");
  const Finished alone = machine.run({"launch=2000*50", "sync", "rt-launch=100*10", "sync", "share=1000:200"});
  EXPECT_EQ(alone.code, 0);
  const std::size_t at = alone.output.find("share=");
  ASSERT_NE(at, std::string::npos) << alone.output;
  const double share = std::atof(alone.output.c_str() + at + 6);
  EXPECT_GT(share, 50);
  EXPECT_LE(share, 100.5);
}

TEST(Ascendsim, FaultsShowInPrograms) {
  const NpuMachine machine("cards: [{model: 910B4, count: 2}]");
  EXPECT_EQ(machine.tool({"fault", "--kind", "lost", "--card", "1"}).code, 0);
  EXPECT_EQ(machine.run({"alloc=1Mi"}).code, 0);
  EXPECT_EQ(machine.run({"device=1"}).code, 2);
  EXPECT_EQ(machine.tool({"fault", "--kind", "init"}).code, 0);
  EXPECT_EQ(machine.run({"alloc=1Mi"}).code, 2);
  EXPECT_EQ(machine.tool({"fault", "--kind", "clear"}).code, 0);
  EXPECT_EQ(machine.run({"device=1", "physical-id"}).output, "physical=1\n");
}

TEST(Ascendsim, AMistakeInTheDescriptionIsNamed) {
  const NpuMachine machine("cards: [{model: 910B9}]");
  EXPECT_EQ(machine.created().code, 3);
}

TEST(Ascendsim, NpusAreCutByTemplateWhileThereIsRoom) {
  const NpuMachine machine("cards: [{model: 910B4}, {model: 310P}, {model: 910C, count: 2}]");
  const auto cut = [&machine](const char* card, const char* name) {
    return machine.tool({"vnpu", "--card", card, "--template", name});
  };
  EXPECT_EQ(cut("0", "vir05_1c_8g").output, "100\n");
  EXPECT_EQ(cut("1", "vir02").output, "116\n");
  EXPECT_EQ(cut("0", "vir10_3c_16g_nm").output, "101\n");
  EXPECT_TRUE(std::filesystem::exists(machine.root() + "/dev/vdavinci116"));
  EXPECT_THAT(machine.tool({"show"}).output, HasSubstr("vnpu 101  vir10_3c_16g_nm  10 AI cores  16384 MiB"));
  EXPECT_THAT(machine.tool({"show"}).output, HasSubstr("vnpu 116  vir02  2 AI cores  6144 MiB"));
  EXPECT_NE(cut("0", "vir10_3c_16g").code, 0) << "5 cores are left";
  EXPECT_EQ(cut("0", "vir05_1c_8g").code, 0);
  for (const char* bad : {"vir", "vir05x", "05_1c_8g", "vir20_1c_8g", "vir05_1c_64g"}) {
    EXPECT_NE(cut("1", bad).code, 0) << bad;
  }
  EXPECT_NE(cut("2", "vir05_1c_16g").code, 0) << "a 910C has none";
  EXPECT_EQ(machine.tool({"vnpu", "--card", "1", "--destroy", "116"}).code, 0);
  EXPECT_NE(machine.tool({"vnpu", "--card", "1", "--destroy", "116"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(machine.root() + "/dev/vdavinci116"));
}

// One machine for the whole process: the library opens it once.
TEST(Ascendsim, TheManagementLibraryDescribesCardsAndChips) {
  const NpuMachine machine(
      "machine: {driver: 25.5.1}\n"
      "cards: [{model: 910C, count: 2, server: 3, numa: 1}, {model: 310P}]");
  setenv("ASCENDSIM_ROOT", machine.root().c_str(), 1);
  void* library = dlopen((std::string(ASCENDSIM_LIBRARIES) + "/libdcmi.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
#define CALL(name) reinterpret_cast<decltype(&::name)>(dlsym(library, #name))
  ASSERT_EQ(CALL(dcmi_init)(), DCMI_OK);
  int cards[8] = {};
  int count = 0;
  ASSERT_EQ(CALL(dcmi_get_card_list)(&count, cards, 8), DCMI_OK);
  ASSERT_EQ(count, 2);
  int devices = 0;
  ASSERT_EQ(CALL(dcmi_get_device_num_in_card)(cards[0], &devices), DCMI_OK);
  EXPECT_EQ(devices, 2);
  dcmi_unit_type unit = INVALID_TYPE;
  EXPECT_EQ(CALL(dcmi_get_device_type)(0, 2, &unit), DCMI_OK);
  EXPECT_EQ(unit, MCU_TYPE);

  dcmi_chip_info_v2 chip{};
  ASSERT_EQ(CALL(dcmi_get_device_chip_info_v2)(0, 1, &chip), DCMI_OK);
  EXPECT_STREQ(reinterpret_cast<const char*>(chip.chip_name), "Ascend910");
  EXPECT_EQ(chip.aicore_cnt, 20U);
  dcmi_hbm_info hbm{};
  ASSERT_EQ(CALL(dcmi_get_device_hbm_info)(0, 1, &hbm), DCMI_OK);
  EXPECT_EQ(hbm.memory_size, 65536U);
  EXPECT_EQ(CALL(dcmi_get_device_hbm_info)(1, 0, &hbm), DCMI_ERR_CODE_NOT_SUPPORT);
  dcmi_get_memory_info_stru ddr{};
  ASSERT_EQ(CALL(dcmi_get_device_memory_info_v3)(1, 0, &ddr), DCMI_OK);
  EXPECT_EQ(ddr.memory_size, 21527U) << "without what the driver keeps of 24 GiB";
  EXPECT_EQ(ddr.memory_available, 21527U);
  dcmi_spod_info pod{};
  unsigned size = sizeof(pod);
  ASSERT_EQ(CALL(dcmi_get_device_info)(0, 1, DCMI_MAIN_CMD_CHIP_INF, DCMI_CHIP_INF_SUB_CMD_SPOD_INFO, &pod, &size),
            DCMI_OK);
  EXPECT_EQ(pod.super_pod_id, 1U);
  EXPECT_EQ(pod.server_id, 3U);
  EXPECT_EQ(CALL(dcmi_get_device_info)(1, 0, DCMI_MAIN_CMD_CHIP_INF, DCMI_CHIP_INF_SUB_CMD_SPOD_INFO, &pod, &size),
            DCMI_ERR_CODE_NOT_SUPPORT);

  Process holder({ASCENDSIM_RUN, "device=2", "alloc=1Gi", "ready"}, machine.environment());
  ASSERT_EQ(holder.wait_line("ready"), "ready");
  dcmi_proc_mem_info processes[64] = {};
  ASSERT_EQ(CALL(dcmi_get_device_resource_info)(1, 0, processes, &count), DCMI_OK);
  ASSERT_EQ(count, 1);
  EXPECT_EQ(processes[0].proc_id, holder.pid());
  EXPECT_EQ(processes[0].proc_mem_usage, (1026UL + 60UL) << 20U);
  holder.signal(SIGUSR1);
  holder.finish();
  ASSERT_EQ(CALL(dcmi_get_device_resource_info)(1, 0, processes, &count), DCMI_OK);
  EXPECT_EQ(count, 0);

  // The 310P is cut, listed and made whole again.
  dcmi_create_vdev_res_stru wanted{};
  wanted.vdev_id = 0xFFFFFFFF;
  std::snprintf(wanted.template_name, sizeof(wanted.template_name), "vir04");
  dcmi_create_vdev_out made{};
  ASSERT_EQ(CALL(dcmi_create_vdevice)(1, 0, &wanted, &made), DCMI_OK);
  EXPECT_EQ(made.vdev_id, 132U) << "the first of NPU 2";
  EXPECT_EQ(CALL(dcmi_create_vdevice)(1, 0, &wanted, &made), DCMI_OK);
  EXPECT_EQ(CALL(dcmi_create_vdevice)(1, 0, &wanted, &made), DCMI_ERR_CODE_RESOURCE_OCCUPIED);
  EXPECT_EQ(CALL(dcmi_create_vdevice)(0, 0, &wanted, &made), DCMI_ERR_CODE_NOT_SUPPORT);
  const auto query = CALL(dcmi_get_device_info);
  dcmi_soc_total_resource all{};
  size = sizeof(all);
  ASSERT_EQ(query(1, 0, DCMI_MAIN_CMD_VDEV_MNG, DCMI_VMNG_SUB_CMD_GET_TOTAL_RESOURCE, &all, &size), DCMI_OK);
  ASSERT_EQ(all.vdev_num, 2U);
  EXPECT_EQ(all.vdev_id[1], 133U);
  dcmi_vdev_query_stru one{};
  one.vdev_id = 133;
  size = sizeof(one);
  ASSERT_EQ(query(1, 0, DCMI_MAIN_CMD_VDEV_MNG, DCMI_VMNG_SUB_CMD_GET_VDEV_RESOURCE, &one, &size), DCMI_OK);
  EXPECT_STREQ(one.query_info.name, "vir04");
  EXPECT_EQ(one.query_info.computing.memory_size, 12288U);
  for (const unsigned id : {132U, 133U}) EXPECT_EQ(CALL(dcmi_set_destroy_vdevice)(1, 0, id), DCMI_OK);
  EXPECT_EQ(CALL(dcmi_set_destroy_vdevice)(1, 0, 132), DCMI_ERR_CODE_INVALID_PARAMETER);
  // Under an id that the caller names, if it is one of the NPU's and free.
  wanted.vdev_id = 147;
  ASSERT_EQ(CALL(dcmi_create_vdevice)(1, 0, &wanted, &made), DCMI_OK);
  EXPECT_EQ(made.vdev_id, 147U);
  EXPECT_EQ(CALL(dcmi_create_vdevice)(1, 0, &wanted, &made), DCMI_ERR_CODE_INVALID_PARAMETER);
  wanted.vdev_id = 148;
  EXPECT_EQ(CALL(dcmi_create_vdevice)(1, 0, &wanted, &made), DCMI_ERR_CODE_INVALID_PARAMETER);
  EXPECT_EQ(CALL(dcmi_set_destroy_vdevice)(1, 0, 147), DCMI_OK);

  EXPECT_EQ(machine.tool({"fault", "--kind", "error", "--card", "2", "--value", "2149974016"}).code, 0);
  unsigned health = 0;
  ASSERT_EQ(CALL(dcmi_get_device_health)(1, 0, &health), DCMI_OK);
  EXPECT_EQ(health, 2U);
  unsigned codes[4] = {};
  ASSERT_EQ(CALL(dcmi_get_device_errorcode_v2)(1, 0, &count, codes, 4), DCMI_OK);
  EXPECT_EQ(codes[0], 2149974016U);
  EXPECT_EQ(machine.tool({"fault", "--kind", "lost", "--card", "0"}).code, 0);
  EXPECT_EQ(CALL(dcmi_get_device_chip_info_v2)(0, 0, &chip), DCMI_ERR_CODE_NOT_READY);
  ASSERT_EQ(CALL(dcmi_get_device_health)(0, 0, &health), DCMI_OK);
  EXPECT_EQ(health, 0xFFFFFFFFU);
#undef CALL
}

}  // namespace
