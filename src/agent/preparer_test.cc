#include "agent/preparer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>
#include <thread>

#include "agent/cdi.h"
#include "base/file.h"

namespace heddle::agent {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int kKilled = 77;

class PreparerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "heddle-prepare-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    for (const char* folder : {"/driver/usr/lib64", "/driver/dev", "/cdi"}) {
      ASSERT_TRUE(make_directories(dir_ + folder, 0755));
    }
    for (const char* file : {"/driver/usr/lib64/libcuda.so.1", "/driver/dev/nvidiactl", "/driver/dev/nvidia0",
                             "/driver/dev/nvidia1", "/guard.so", "/hook", "/boot"}) {
      ASSERT_TRUE(write_file_atomic(dir_ + file, std::string("content of ") + file, 0644));
    }
  }
  void TearDown() override {
    // Whatever a killed child left mounted.
    if (const auto claims = list_directory(dir_ + "/state/claims")) {
      for (const std::string& claim : *claims) {
        ::umount2((dir_ + "/state/claims/" + claim + "/gpu").c_str(), MNT_DETACH);
        ::umount2((dir_ + "/state/claims/" + claim + "/_claim").c_str(), MNT_DETACH);
      }
    }
    ASSERT_TRUE(remove_tree(dir_));
  }

  PreparerOptions options(std::function<void(std::string_view)> step = [](std::string_view) {}) const {
    PreparerOptions result;
    result.state_dir = dir_ + "/state";
    result.cdi_root = dir_ + "/cdi";
    result.guard_library = dir_ + "/guard.so";
    result.guard_hook = dir_ + "/hook";
    result.injection.driver_root = dir_ + "/driver";
    result.boot_id_file = dir_ + "/boot";
    result.before_step = std::move(step);
    return result;
  }
  std::unique_ptr<Preparer> open() const {
    auto preparer = Preparer::open(options(), log_);
    EXPECT_TRUE(preparer) << preparer.error().text();
    return *std::move(preparer);
  }
  std::unique_ptr<Preparer> open_with(const PreparerOptions& with) const {
    auto preparer = Preparer::open(with, log_);
    EXPECT_TRUE(preparer) << preparer.error().text();
    return *std::move(preparer);
  }
  static ClaimRecord grant(const std::string& uid, int64_t mib, int64_t cores = 10, int64_t minor_number = 0) {
    const std::string uuid = "GPU-" + std::to_string(minor_number);
    return {uid,
            "ns",
            "c-" + uid,
            {{"gpu", "n/nvidia", "gpu-" + std::to_string(minor_number), "share-" + uid, uuid, minor_number, 8192 * kMiB,
              mib * kMiB, cores}},
            {{"pod", "pod-" + uid}},
            {},
            {}};
  }
  // Everything that the claim has on disk, in words; empty when there is nothing.
  std::string on_disk(const std::string& uid) const {
    std::string text;
    if (file_exists(cdi_file(dir_ + "/cdi", uid))) text += "cdi ";
    for (const char* name : {"/claim.json", "/gpu/limits", "/gpu/usage"}) {
      if (file_exists(dir_ + "/state/claims/" + uid + name)) text += std::string(name) + " ";
    }
    return text;
  }
  static constexpr const char* kComplete = "cdi /claim.json /gpu/limits /gpu/usage ";

  std::string dir_;
  SystemClock clock_;
  Logger log_{"test", LogLevel::kError, clock_};
};

TEST_F(PreparerTest, AShareOfAnAscendNpuGetsItsNodesItsNumberAndTheGuardOfItsVendor) {
  for (const char* file :
       {"/driver/dev/davinci_manager", "/driver/dev/davinci2", "/driver/dev/hisi_hdc", "/ascend.so"}) {
    ASSERT_TRUE(write_file_atomic(dir_ + file, "ascend", 0644));
  }
  PreparerOptions with = options();
  with.ascend_guard_library = dir_ + "/ascend.so";
  const auto preparer = open_with(with);
  ClaimRecord npu = grant("u1", 3000, 30, 2);
  npu.devices[0].pool = "n/ascend";
  npu.devices[0].device = "npu-2";
  const auto record = preparer->prepare(npu);
  ASSERT_TRUE(record) << record.error().text();
  const auto limits = guard::decode_limits(*read_file(dir_ + "/state/claims/u1/gpu/limits"));
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->devices.at(0).number, 2);
  const std::string text = *read_file(cdi_file(dir_ + "/cdi", "u1"));
  for (const char* part :
       {"/dev/davinci2", "/dev/davinci_manager", "/dev/hisi_hdc", "ASCEND_VISIBLE_DEVICES=2", "/run/heddle/limits"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
  EXPECT_EQ(text.find("libcuda"), std::string::npos) << text;
  // The folder of the version holds the vendor's guard under the one name that containers know.
  EXPECT_EQ(*read_file(dir_ + "/state/guard/" + record->guard_version + "/lib/libheddle_guard.so"), "ascend");
  const auto cuda = preparer->prepare(grant("u2", 100));
  ASSERT_TRUE(cuda);
  EXPECT_NE(cuda->guard_version, record->guard_version);
  EXPECT_EQ(guard::decode_limits(*read_file(dir_ + "/state/claims/u2/gpu/limits"))->devices.at(0).number, -1);

  ClaimRecord mixed = grant("u3", 100);
  mixed.devices.push_back(npu.devices[0]);
  mixed.devices[1].memory_bytes = 100 * kMiB;
  EXPECT_EQ(preparer->prepare(mixed).error().code, Code::kUnsupported);
  EXPECT_EQ(on_disk("u3"), "");
}

TEST_F(PreparerTest, WithoutTheVendorsGuardItsSharesAreRefused) {
  for (const char* file : {"/driver/dev/davinci_manager", "/driver/dev/davinci2"}) {
    ASSERT_TRUE(write_file_atomic(dir_ + file, "ascend", 0644));
  }
  const auto preparer = open();
  ClaimRecord npu = grant("u1", 3000, 30, 2);
  npu.devices[0].pool = "n/ascend";
  EXPECT_EQ(preparer->prepare(npu).error().code, Code::kUnsupported);
  npu.devices[0].memory_bytes = npu.devices[0].card_memory_bytes;
  npu.devices[0].cores = 100;
  EXPECT_TRUE(preparer->prepare(npu)) << "a whole card needs none";
}

TEST_F(PreparerTest, ALowPriorityIsInTheLimitsAndGivesWayWithoutCores) {
  const auto preparer = open();
  struct Case {
    const char* uid;
    int64_t cores, priority;
    bool gives_way;
  };
  for (const Case& c : {Case{"u1", 0, 1, true}, Case{"u2", 30, 1, false}, Case{"u3", 0, 0, false}}) {
    ClaimRecord claim = grant(c.uid, 100, c.cores);
    claim.devices[0].priority = c.priority;
    ASSERT_TRUE(preparer->prepare(claim)) << c.uid;
    const auto limits = guard::decode_limits(*read_file(dir_ + "/state/claims/" + c.uid + "/gpu/limits"));
    ASSERT_TRUE(limits);
    EXPECT_EQ(limits->priority, c.priority) << c.uid;
    EXPECT_EQ(limits->devices.at(0).gives_way, c.gives_way) << c.uid;
  }
}

TEST_F(PreparerTest, VirtualMemoryIsInTheLimitsAndAWholeCardWithItIsGuarded) {
  const auto preparer = open();
  ClaimRecord claim = grant("u1", 3000, 30);
  claim.devices[0].virtual_bytes = 9000 * kMiB;
  ASSERT_TRUE(preparer->prepare(claim));
  auto limits = guard::decode_limits(*read_file(dir_ + "/state/claims/u1/gpu/limits"));
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->devices.at(0).memory_bytes, 3000 * kMiB);
  EXPECT_EQ(limits->devices.at(0).virtual_bytes, 9000 * kMiB);
  ASSERT_TRUE(preparer->unprepare("u1"));
  ClaimRecord whole = grant("u2", 8192, 100);
  whole.devices[0].memory_bytes = whole.devices[0].card_memory_bytes;
  whole.devices[0].virtual_bytes = 20000 * kMiB;
  ASSERT_TRUE(preparer->prepare(whole));
  limits = guard::decode_limits(*read_file(dir_ + "/state/claims/u2/gpu/limits"));
  ASSERT_TRUE(limits);
  EXPECT_FALSE(limits->devices.at(0).whole_card);
  EXPECT_EQ(limits->devices.at(0).virtual_bytes, 20000 * kMiB);
  const auto record = parse_record(*read_file(dir_ + "/state/claims/u2/claim.json"));
  ASSERT_TRUE(record);
  EXPECT_EQ(record->devices.at(0).virtual_bytes, 20000 * kMiB);
}

TEST_F(PreparerTest, AMaskIsHeldByTheNodesMpsAndKeptByTheGuard) {
  PreparerOptions with = options();
  with.mps_pipe = "/var/mps/pipe";
  with.mps_shm = "/var/mps/shm";
  const auto preparer = open_with(with);
  ClaimRecord claim = grant("u1", 3000, 30);
  claim.devices[0].mps = true;
  ASSERT_TRUE(preparer->prepare(claim));
  const auto limits = guard::decode_limits(*read_file(dir_ + "/state/claims/u1/gpu/limits"));
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->mask_percent, 30);
  EXPECT_EQ(limits->devices.at(0).cores_percent, 0) << "not paced as well";
  const std::string spec = *read_file(cdi_file(dir_ + "/cdi", "u1"));
  for (const char* part :
       {"CUDA_MPS_PIPE_DIRECTORY=/run/heddle/mps", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=GPU-0=3000M", "/var/mps/pipe", "/var/mps/shm", "/dev/shm"}) {
    EXPECT_NE(spec.find(part), std::string::npos) << part;
  }
  const auto record = parse_record(*read_file(dir_ + "/state/claims/u1/claim.json"));
  ASSERT_TRUE(record);
  EXPECT_TRUE(record->devices.at(0).mps);
}

TEST_F(PreparerTest, AMaskNeedsAnAgentThatKnowsOfMps) {
  const auto preparer = open();
  ClaimRecord claim = grant("u1", 3000, 30);
  claim.devices[0].mps = true;
  EXPECT_EQ(preparer->prepare(claim).error().code, Code::kUnavailable);
}

TEST_F(PreparerTest, PrepareWritesEverythingAndUnprepareTakesItAway) {
  const auto preparer = open();
  const auto record = preparer->prepare(grant("u1", 3000, 30));
  ASSERT_TRUE(record) << record.error().text();
  EXPECT_EQ(on_disk("u1"), kComplete);
  const auto limits = guard::decode_limits(*read_file(dir_ + "/state/claims/u1/gpu/limits"));
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->claim_uid, "u1");
  ASSERT_EQ(limits->devices.size(), 1U);
  EXPECT_EQ(limits->devices[0].memory_bytes, 3000 * kMiB);
  EXPECT_EQ(limits->devices[0].cores_percent, 30);
  EXPECT_FALSE(limits->devices[0].whole_card);
  const auto cdi = nlohmann::json::parse(*read_file(cdi_file(dir_ + "/cdi", "u1")));
  EXPECT_EQ(cdi.at("kind"), "heddle.dev/claim");
  EXPECT_EQ(cdi.at("devices").at(0).at("name"), "u1-gpu");
  std::map<std::string, std::string> mounts;
  for (const auto& mount : cdi.at("containerEdits").at("mounts")) {
    mounts[mount.at("containerPath")] = mount.at("options").at(0);
    EXPECT_TRUE(file_exists(mount.at("hostPath"))) << mount;
  }
  EXPECT_EQ(mounts.at("/run/heddle/limits"), "ro");
  EXPECT_EQ(mounts.at("/run/heddle/usage"), "rw");
  EXPECT_EQ(mounts.at("/run/heddle/lib"), "ro");
  EXPECT_EQ(mounts.at("/etc/ld.so.preload"), "ro");
  const auto env = cdi.at("containerEdits").at("env").get<std::vector<std::string>>();
  EXPECT_EQ(env, (std::vector<std::string>{"NVIDIA_VISIBLE_DEVICES=void", "CUDA_VISIBLE_DEVICES=GPU-0"}));
  ASSERT_TRUE(preparer->unprepare("u1"));
  EXPECT_EQ(on_disk("u1"), "");
  EXPECT_TRUE(list_directory(dir_ + "/state/claims")->empty());
  EXPECT_TRUE(preparer->unprepare("u1")) << "again";
  EXPECT_TRUE(preparer->unprepare("never-heard-of"));
  EXPECT_FALSE(preparer->unprepare("../../etc")) << "a uid is a file name";
}

TEST_F(PreparerTest, TheLimitsSayWhatAContextTakesWhereTheAgentIsTold) {
  PreparerOptions told = options();
  told.context_bytes = 450 * kMiB;
  const auto preparer = open_with(told);
  ASSERT_TRUE(preparer->prepare(grant("u1", 3000)));
  const auto limits = guard::decode_limits(*read_file(dir_ + "/state/claims/u1/gpu/limits"));
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->devices.at(0).context_overhead_bytes, 450 * kMiB);
}

TEST_F(PreparerTest, RepeatsGiveTheSameAndKeepTheFilesThatContainersHold) {
  const auto preparer = open();
  const auto first = preparer->prepare(grant("u1", 3000));
  ASSERT_TRUE(first);
  struct stat before{};
  ASSERT_EQ(::stat((dir_ + "/state/claims/u1/gpu/usage").c_str(), &before), 0);
  struct stat limits_before{};
  ASSERT_EQ(::stat((dir_ + "/state/claims/u1/gpu/limits").c_str(), &limits_before), 0);
  const auto second = preparer->prepare(grant("u1", 3000));
  ASSERT_TRUE(second);
  EXPECT_EQ(*first, *second);
  struct stat after{};
  ASSERT_EQ(::stat((dir_ + "/state/claims/u1/gpu/usage").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  ASSERT_EQ(::stat((dir_ + "/state/claims/u1/gpu/limits").c_str(), &after), 0);
  EXPECT_EQ(limits_before.st_ino, after.st_ino);
  // A reboot empties the CDI folder; both a repeated Prepare and a new agent make it good.
  ASSERT_TRUE(remove_file(cdi_file(dir_ + "/cdi", "u1")));
  ASSERT_TRUE(preparer->prepare(grant("u1", 3000)));
  EXPECT_EQ(on_disk("u1"), kComplete);
  ASSERT_TRUE(remove_file(cdi_file(dir_ + "/cdi", "u1")));
  const auto restarted = open();
  restarted->repair_all();
  EXPECT_EQ(on_disk("u1"), kComplete);
}

TEST_F(PreparerTest, RefusesMoreThanTheCardAndGivesBackWhatFailed) {
  const auto preparer = open();
  ASSERT_TRUE(preparer->prepare(grant("u1", 5000)));
  const auto too_much = preparer->prepare(grant("u2", 3193));
  ASSERT_FALSE(too_much);
  EXPECT_EQ(too_much.error().code, Code::kExhausted);
  EXPECT_EQ(on_disk("u2"), "");
  // A card whose node is missing cannot be prepared; its shares must not stay taken.
  ASSERT_FALSE(preparer->prepare(grant("u3", 8192, 100, 5)));
  EXPECT_EQ(on_disk("u3"), "");
  EXPECT_EQ(preparer->records().size(), 1U);
  ASSERT_TRUE(preparer->prepare(grant("u2", 3192)));
}

TEST_F(PreparerTest, OtherDevicesForAPreparedClaimOnlyAfterAReboot) {
  const auto preparer = open();
  ASSERT_TRUE(preparer->prepare(grant("u1", 3000, 10, 0)));
  const auto moved = preparer->prepare(grant("u1", 3000, 10, 1));
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code, Code::kConflict);
  ASSERT_TRUE(write_file_atomic(dir_ + "/boot", "another boot", 0644));
  const auto rebooted = open();
  const auto again = rebooted->prepare(grant("u1", 3000, 10, 1));
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(again->devices[0].card_uuid, "GPU-1");
}

TEST_F(PreparerTest, AWholeCardHasItsFolderButNoGuard) {
  const auto preparer = open();
  ASSERT_TRUE(preparer->prepare(grant("u1", 8192, 100)));
  EXPECT_EQ(on_disk("u1"), kComplete);
  const std::string cdi = *read_file(cdi_file(dir_ + "/cdi", "u1"));
  EXPECT_EQ(cdi.find("ld.so.preload"), std::string::npos);
  EXPECT_NE(cdi.find("nvidia0"), std::string::npos);
}

TEST_F(PreparerTest, APartitionGetsItsCapabilitiesAndNoGuardAndIsGrantedOnce) {
  ASSERT_TRUE(make_directories(dir_ + "/driver/proc/driver/nvidia-caps", 0755));
  ASSERT_TRUE(make_directories(dir_ + "/driver/dev/nvidia-caps", 0755));
  ASSERT_TRUE(write_file_atomic(dir_ + "/driver/proc/driver/nvidia-caps/mig-minors",
                                "gpu0/gi10/access 93\ngpu0/gi10/ci0/access 94\n", 0644));
  for (const char* node : {"93", "94"}) {
    ASSERT_TRUE(write_file_atomic(dir_ + "/driver/dev/nvidia-caps/nvidia-cap" + node, "", 0644));
  }
  ClaimRecord part = grant("u1", 8192, 100);
  part.devices[0].device = "gpu-0-1g-10gb-3";
  part.devices[0].card_uuid = "MIG-1";
  part.devices[0].gpu_instance = 10;
  part.devices[0].compute_instance = 0;
  const auto preparer = open();
  ASSERT_TRUE(preparer->prepare(part));
  const std::string cdi = read_file(dir_ + "/cdi/heddle.dev-claim-u1.json").value_or("");
  for (const char* text : {"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap93", "/dev/nvidia-caps/nvidia-cap94",
                           "CUDA_VISIBLE_DEVICES=MIG-1", "NVIDIA_VISIBLE_DEVICES=void"}) {
    EXPECT_NE(cdi.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(cdi.find("/run/heddle"), std::string::npos) << "the hardware holds the limit";
  ClaimRecord again = part;
  again.uid = "u2";
  EXPECT_EQ(preparer->prepare(again).error().code, Code::kExhausted);
  EXPECT_TRUE(preparer->unprepare("u1"));
  EXPECT_TRUE(preparer->prepare(again));
}

TEST_F(PreparerTest, AVnpuGetsItsOwnNodeAndNoGuardAndIsGrantedOnce) {
  for (const char* file : {"/driver/dev/davinci_manager", "/driver/dev/vdavinci101", "/driver/dev/davinci2"}) {
    ASSERT_TRUE(write_file_atomic(dir_ + file, "ascend", 0644));
  }
  ClaimRecord vnpu = grant("u1", 8192, 100, 2);
  vnpu.devices[0].pool = "n/ascend";
  vnpu.devices[0].device = "npu-2-vir05-1c-8g-101";
  vnpu.devices[0].card_uuid = "DIE-vnpu-101";
  vnpu.devices[0].gpu_instance = 101;
  const auto preparer = open();
  ASSERT_TRUE(preparer->prepare(vnpu));
  const std::string cdi = read_file(dir_ + "/cdi/heddle.dev-claim-u1.json").value_or("");
  for (const char* text :
       {"/dev/vdavinci101", "/dev/davinci101", "ASCEND_VISIBLE_DEVICES=101", "ASCEND_RUNTIME_OPTIONS=VIRTUAL"})
    EXPECT_NE(cdi.find(text), std::string::npos) << text << " in " << cdi;
  EXPECT_EQ(cdi.find("/dev/davinci2"), std::string::npos) << "not the NPU that it lies on";
  EXPECT_EQ(cdi.find("/run/heddle"), std::string::npos) << "the hardware holds the limit";
  ClaimRecord again = vnpu;
  again.uid = "u2";
  EXPECT_EQ(preparer->prepare(again).error().code, Code::kExhausted);
}

TEST_F(PreparerTest, AGuardVersionStaysWhileAClaimUsesIt) {
  std::string old_version;
  {
    const auto preparer = open();
    const auto record = preparer->prepare(grant("u1", 1000));
    ASSERT_TRUE(record);
    old_version = record->guard_version;
  }
  ASSERT_TRUE(write_file_atomic(dir_ + "/guard.so", "a new guard", 0644));
  const auto preparer = open();
  const auto repeated = preparer->prepare(grant("u1", 1000));
  ASSERT_TRUE(repeated);
  EXPECT_EQ(repeated->guard_version, old_version) << "its processes have it loaded";
  const auto fresh = preparer->prepare(grant("u2", 1000));
  ASSERT_TRUE(fresh);
  EXPECT_NE(fresh->guard_version, old_version);
  EXPECT_EQ(list_directory(dir_ + "/state/guard")->size(), 2U);
  ASSERT_TRUE(preparer->unprepare("u1"));
  EXPECT_EQ(*list_directory(dir_ + "/state/guard"), std::vector<std::string>{fresh->guard_version});
}

TEST_F(PreparerTest, TwoInstancesSeeEachOthersClaims) {
  const auto old_agent = open();
  const auto new_agent = open();
  ASSERT_TRUE(old_agent->prepare(grant("u1", 5000)));
  EXPECT_FALSE(new_agent->prepare(grant("u2", 5000))) << "the card is full";
  ASSERT_TRUE(new_agent->unprepare("u1"));
  ASSERT_TRUE(old_agent->prepare(grant("u2", 5000))) << "and is free again";
  EXPECT_EQ(on_disk("u2"), kComplete);
}

// A folder on a file system of its own that the test can fill, or make read-only.
class SmallDisk {
 public:
  explicit SmallDisk(std::string path) : path_(std::move(path)) {
    mounted_ = make_directories(path_, 0755) && ::mount("test", path_.c_str(), "tmpfs", 0, "size=512k") == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  [[nodiscard]] bool mounted() const { return mounted_; }
  void fill() const {
    const int fd = ::open((path_ + "/filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    for (const std::string block(4096, 'x'); ::write(fd, block.data(), block.size()) > 0;) continue;
    ::close(fd);
  }
  void empty() const { ASSERT_EQ(::unlink((path_ + "/filler").c_str()), 0); }
  void remount(unsigned long flags) const {
    ASSERT_EQ(::mount("test", path_.c_str(), "tmpfs", MS_REMOUNT | flags, "size=512k"), 0);
  }

 private:
  std::string path_;
  bool mounted_ = false;
};

TEST_F(PreparerTest, AFullDiskIsAnErrorAndTakesNoShare) {
  const SmallDisk state(dir_ + "/state");
  const SmallDisk cdi(dir_ + "/cdi");
  if (!state.mounted() || !cdi.mounted()) GTEST_SKIP() << "no right to mount";
  const auto preparer = open();
  ASSERT_TRUE(preparer->prepare(grant("u1", 1000)));
  for (const SmallDisk* disk : {&state, &cdi}) {
    disk->fill();
    EXPECT_FALSE(preparer->prepare(grant("u2", 7000)));
    EXPECT_EQ(on_disk("u2"), "");
    EXPECT_EQ(preparer->records().size(), 1U) << "the share is not taken";
    EXPECT_TRUE(preparer->prepare(grant("u1", 1000))) << "what is there needs no room";
    ASSERT_TRUE(preparer->unprepare("u1")) << "nor does taking away";
    EXPECT_EQ(on_disk("u1"), "");
    disk->empty();
    EXPECT_TRUE(preparer->prepare(grant("u1", 1000)));
  }
  cdi.remount(MS_RDONLY);
  const auto refused = preparer->prepare(grant("u2", 7000));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text().find("/cdi/"), std::string::npos) << refused.error().text();
  EXPECT_EQ(preparer->records().size(), 1U);
  EXPECT_FALSE(preparer->unprepare("u1")) << "the file cannot go: the kubelet asks again";
  EXPECT_EQ(on_disk("u1"), kComplete);
  cdi.remount(0);
  EXPECT_TRUE(preparer->unprepare("u1"));
  EXPECT_TRUE(preparer->prepare(grant("u2", 7000)));
  EXPECT_TRUE(preparer->unprepare("u2"));
}

TEST_F(PreparerTest, AStoppedAgentDoesNotStopTheNext) {
  ASSERT_TRUE(open()->prepare(grant("u1", 5000)));
  PreparerOptions impatient = options();
  impatient.lock_patience = Duration::millis(50);
  const auto preparer = open_with(impatient);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {  // stopped in the middle of a Prepare
    auto other = Preparer::open(options([&](std::string_view step) {
                                  if (step != "limits") return;
                                  if (::write(ends[1], "x", 1) == 1) ::pause();
                                }),
                                log_);
    if (other) (void)(*other)->prepare(grant("u2", 1000));
    ::_exit(0);
  }
  char held = 0;
  ASSERT_EQ(::read(ends[0], &held, 1), 1);
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const auto refused = preparer->prepare(grant("v" + std::to_string(i), 100));
      EXPECT_TRUE(!refused && refused.error().code == Code::kUnavailable);
      EXPECT_FALSE(preparer->unprepare("u1"));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(Preparer::open(impatient, log_)) << "nor does a new one start beside it";
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(preparer->unprepare("u1"));
  EXPECT_TRUE(preparer->unprepare("u2"));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(PreparerTest, ADamagedRecordStillCountsAndItsContainersCanRestart) {
  {
    const auto preparer = open();
    ASSERT_TRUE(preparer->prepare(grant("u1", 5000)));
    ASSERT_TRUE(preparer->prepare(grant("u2", 1000)));
  }
  const std::vector<std::string> guards = *list_directory(dir_ + "/state/guard");
  ASSERT_TRUE(write_file_atomic(dir_ + "/guard.so", "a new guard", 0644));
  const std::string cdi = *read_file(cdi_file(dir_ + "/cdi", "u1"));
  for (const char* content : {"", "{\"format\":99}", "\x01\x02"}) {
    ASSERT_TRUE(write_file_atomic(dir_ + "/state/claims/u1/claim.json", content, 0600));
    const auto preparer = open();
    preparer->repair_all();
    EXPECT_EQ(*read_file(cdi_file(dir_ + "/cdi", "u1")), cdi) << "a container that restarts needs it";
    EXPECT_EQ(on_disk("u1"), kComplete);
    EXPECT_TRUE(file_exists(dir_ + "/state/guard/" + guards.at(0))) << "as does the guard that it loads";
    EXPECT_FALSE(preparer->prepare(grant("u3", 3000))) << "5000 and 1000 of 8192 MiB are taken";
    EXPECT_EQ(preparer->records().size(), 2U);
  }
  ASSERT_TRUE(open()->prepare(grant("u1", 5000))) << "the kubelet asks again: it is whole again";
  EXPECT_EQ(open()->records().at(0).name, "c-u1");
  ASSERT_TRUE(write_file_atomic(dir_ + "/state/claims/u1/claim.json", "", 0600));
  const auto preparer = open();
  ASSERT_TRUE(preparer->unprepare("u1"));
  EXPECT_EQ(on_disk("u1"), "");
  ASSERT_TRUE(preparer->prepare(grant("u3", 7000)));
}

TEST_F(PreparerTest, ParallelCallsNeverGrantTwice) {
  const auto preparer = open();
  std::vector<std::thread> threads;
  threads.reserve(16);
  std::atomic<int> granted = 0;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 3; ++round) {
        if (preparer->prepare(grant("u" + std::to_string(i), 1024, 5))) ++granted;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(granted, 8 * 3) << "eight claims of an eighth each fit, and keep fitting when repeated";
  EXPECT_EQ(preparer->records().size(), 8U);
  std::vector<std::thread> removers;
  removers.reserve(16);
  for (int i = 0; i < 16; ++i) {
    removers.emplace_back([&, i] { EXPECT_TRUE(preparer->unprepare("u" + std::to_string(i))); });
  }
  for (std::thread& thread : removers) thread.join();
  EXPECT_TRUE(preparer->records().empty());
  EXPECT_TRUE(list_directory(dir_ + "/cdi")->empty());
}

// The process is killed before each step in turn; the next one must be able to finish, or to undo.
TEST_F(PreparerTest, AKillAtAnyStepLosesNothingAndLeavesNothing) {
  const auto killed_at = [&](const std::string& fatal, const std::function<void(Preparer&)>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto preparer = Preparer::open(options([fatal](std::string_view step) {
                                       if (step == fatal) ::_exit(kKilled);
                                     }),
                                     log_);
      if (preparer) work(**preparer);
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  for (const char* step : {"folder", "record", "limits", "cdi", "answer"}) {
    ASSERT_EQ(killed_at(step, [](Preparer& p) { (void)p.prepare(grant("u1", 5000)); }), kKilled) << step;
    {  // The kubelet asks again.
      const auto preparer = open();
      ASSERT_TRUE(preparer->prepare(grant("u1", 5000))) << step;
      EXPECT_EQ(on_disk("u1"), kComplete) << step;
      EXPECT_FALSE(preparer->prepare(grant("u2", 5000))) << step;
      ASSERT_TRUE(preparer->unprepare("u1")) << step;
      EXPECT_EQ(on_disk("u1"), "") << step;
    }
    ASSERT_EQ(killed_at(step, [](Preparer& p) { (void)p.prepare(grant("u1", 5000)); }), kKilled) << step;
    {  // The pod was deleted meanwhile.
      const auto preparer = open();
      ASSERT_TRUE(preparer->unprepare("u1")) << step;
      EXPECT_EQ(on_disk("u1"), "") << step;
      EXPECT_TRUE(list_directory(dir_ + "/state/claims")->empty()) << step;
      EXPECT_TRUE(list_directory(dir_ + "/cdi")->empty()) << step;
    }
  }
  for (const char* step : {"remove cdi", "remove folders", "remove record", "unprepared"}) {
    ASSERT_TRUE(open()->prepare(grant("u1", 5000))) << step;
    ASSERT_EQ(killed_at(step, [](Preparer& p) { (void)p.unprepare("u1"); }), kKilled) << step;
    const auto preparer = open();
    ASSERT_TRUE(preparer->unprepare("u1")) << step;
    EXPECT_EQ(on_disk("u1"), "") << step;
    EXPECT_TRUE(preparer->records().empty()) << step;
    ASSERT_TRUE(preparer->prepare(grant("u2", 8192))) << step;
    ASSERT_TRUE(preparer->unprepare("u2")) << step;
  }
}

}  // namespace
}  // namespace heddle::agent
