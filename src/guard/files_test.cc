#include "guard/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>

#include "base/clock.h"
#include "base/file.h"
#include "base/temporary_folder.h"
#include "base/unique_fd.h"
#include "guard/layout.h"
#include "guard/ledger.h"

namespace heddle::guard {
namespace {

constexpr const char* kUuid = "GPU-11111111-2222-3333-4444-555555555555";

ClaimLimits two_devices() {
  ClaimLimits limits;
  limits.claim_uid = "6f1d3c0e-0000-4000-8000-000000000001";
  limits.request = "gpu";
  limits.devices = {{kUuid, int64_t{3000} << 20, 30, false, 0},
                    {"GPU-66666666-7777-8888-9999-000000000000", int64_t{80} << 30, 0, true, int64_t{500} << 20}};
  limits.context_overhead_bytes = int64_t{200} << 20;
  return limits;
}

class FilesTest : public testing::Test {
 protected:
  void SetUp() override { path_ = folder_ + "/usage"; }

  // Writes `bytes` of value into the usage file at `offset`, as a tenant could.
  void scribble(size_t offset, const void* value, size_t bytes) const {
    const UniqueFd fd(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(fd.valid());
    ASSERT_EQ(::pwrite(fd.get(), value, bytes, static_cast<off_t>(offset)), static_cast<ssize_t>(bytes));
  }

  const TemporaryFolder folder_of_test_;
  const std::string folder_ = folder_of_test_.path();
  std::string path_;
};

TEST(Limits, ComeBackAsTheyWere) {
  const auto content = encode_limits(two_devices());
  ASSERT_TRUE(content) << content.error().text();
  EXPECT_EQ(content->size(), sizeof(heddle_guard_limits));
  const auto back = decode_limits(*content);
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(back->claim_uid, two_devices().claim_uid);
  EXPECT_EQ(back->request, "gpu");
  ASSERT_EQ(back->devices.size(), 2u);
  EXPECT_EQ(back->devices[0].uuid, kUuid);
  EXPECT_EQ(back->devices[0].memory_bytes, int64_t{3000} << 20);
  EXPECT_EQ(back->devices[0].cores_percent, 30);
  EXPECT_EQ(back->devices[0].context_overhead_bytes, int64_t{200} << 20)
      << "the claim's value for a device without one";
  EXPECT_FALSE(back->devices[0].whole_card);
  EXPECT_EQ(back->devices[1].context_overhead_bytes, int64_t{500} << 20);
  EXPECT_TRUE(back->devices[1].whole_card);
  EXPECT_TRUE(back->flags.deny_unlisted_devices);
  EXPECT_TRUE(back->flags.fail_closed);
}

TEST(Limits, VirtualMemoryLiesWhereOlderProgramsReadNothing) {
  ClaimLimits limits = two_devices();
  limits.devices[0].virtual_bytes = int64_t{9000} << 20;
  const auto content = encode_limits(limits);
  ASSERT_TRUE(content) << content.error().text();
  EXPECT_EQ(decode_limits(*content)->devices[0].virtual_bytes, int64_t{9000} << 20);
  EXPECT_EQ(decode_limits(*content)->devices[1].virtual_bytes, 0);
  heddle_guard_limits file{};
  std::memcpy(&file, content->data(), sizeof(file));
  EXPECT_EQ(file.version, 2u) << "an agent or a guard of before reads the same grant";
  EXPECT_EQ(file.devices[0].memory_bytes, uint64_t{3000} << 20);
}

TEST(Limits, AMaskComesBackAndStandsAlone) {
  ClaimLimits limits = two_devices();
  limits.devices.resize(1);
  limits.devices[0].cores_percent = 0;
  limits.mask_percent = 30;
  limits.mask_pipe = "/run/heddle/mps";
  const auto content = encode_limits(limits);
  ASSERT_TRUE(content) << content.error().text();
  EXPECT_EQ(decode_limits(*content)->mask_percent, 30);
  EXPECT_EQ(decode_limits(*content)->mask_pipe, "/run/heddle/mps");
  EXPECT_EQ(decode_limits(*encode_limits(two_devices()))->mask_percent, 0);
}

TEST(Limits, RefuseWhatCannotBeMeant) {
  struct Case {
    const char* field;
    std::function<void(ClaimLimits&)> spoil;
  };
  const Case cases[] = {
      {"devices", [](ClaimLimits& l) { l.devices.clear(); }},
      {"devices", [](ClaimLimits& l) { l.devices.resize(17, l.devices[0]); }},
      {"devices[1].uuid", [](ClaimLimits& l) { l.devices[1].uuid = l.devices[0].uuid; }},
      {"devices[0].uuid", [](ClaimLimits& l) { l.devices[0].uuid.clear(); }},
      {"devices[0].uuid", [](ClaimLimits& l) { l.devices[0].uuid.assign(96, 'x'); }},
      {"devices[0].memory_bytes", [](ClaimLimits& l) { l.devices[0].memory_bytes = 0; }},
      {"devices[0].memory_bytes", [](ClaimLimits& l) { l.devices[0].memory_bytes = -1; }},
      {"devices[0].memory_bytes", [](ClaimLimits& l) { l.devices[0].memory_bytes = int64_t{1} << 45; }},
      {"devices[1].cores_percent", [](ClaimLimits& l) { l.devices[1].cores_percent = 101; }},
      {"devices[1].cores_percent", [](ClaimLimits& l) { l.devices[1].cores_percent = -1; }},
      {"devices[0].virtual_bytes", [](ClaimLimits& l) { l.devices[0].virtual_bytes = l.devices[0].memory_bytes; }},
      {"devices[0].virtual_bytes", [](ClaimLimits& l) { l.devices[0].virtual_bytes = int64_t{1} << 45; }},
      {"devices[1].virtual_bytes", [](ClaimLimits& l) { l.devices[1].virtual_bytes = int64_t{1} << 40; }},
      {"mask_percent", [](ClaimLimits& l) { l.mask_percent = 100; }},
      {"mask_percent", [](ClaimLimits& l) { l.mask_percent = 30, l.mask_pipe = "/mps"; }},
      {"mask_pipe", [](ClaimLimits& l) { l.mask_percent = 30; }},
      {"claim_uid", [](ClaimLimits& l) { l.claim_uid.assign(64, 'u'); }},
      {"request", [](ClaimLimits& l) { l.request.assign(64, 'r'); }},
      {"context_overhead_bytes", [](ClaimLimits& l) { l.context_overhead_bytes = -1; }},
  };
  for (const Case& c : cases) {
    ClaimLimits limits = two_devices();
    c.spoil(limits);
    const auto content = encode_limits(limits);
    ASSERT_FALSE(content) << c.field;
    EXPECT_EQ(content.error().code, Code::kInvalidArgument);
    EXPECT_EQ(content.error().field, c.field);
  }
}

TEST(Limits, DamageAndOtherVersionsAreTold) {
  const std::string good = encode_limits(two_devices()).value();
  for (size_t at = 0; at < offsetof(heddle_guard_limits, hints); at += 7) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    EXPECT_FALSE(decode_limits(bad)) << "a flipped bit at " << at;
  }
  for (const size_t size : {size_t{0}, size_t{7}, size_t{100}, good.size() - 1}) {
    EXPECT_FALSE(decode_limits(good.substr(0, size))) << size;
  }
  EXPECT_FALSE(decode_limits(good + "x"));
  heddle_guard_limits file{};
  std::memcpy(&file, good.data(), sizeof(file));
  file.version = HEDDLE_GUARD_VERSION + 1;
  file.checksum = checksum_of(file);
  const auto newer = decode_limits(std::string_view(reinterpret_cast<const char*>(&file), sizeof(file)));
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.error().code, Code::kUnsupported);
}

// A file as version 1 describes it, made by hand from the layout alone. It must be read for as long as
// version 1 is the current or the previous version.
TEST(Limits, VersionOneIsStillRead) {
  const auto golden = read_file(std::string(HEDDLE_SOURCE_DIR) + "/src/guard/testdata/limits_v1.bin");
  ASSERT_TRUE(golden) << golden.error().text();
  const auto limits = decode_limits(*golden);
  ASSERT_TRUE(limits) << limits.error().text();
  EXPECT_EQ(limits->request, "gpu");
  ASSERT_EQ(limits->devices.size(), 2u);
  EXPECT_EQ(limits->devices[0].memory_bytes, int64_t{3000} << 20);
  EXPECT_EQ(limits->devices[1].cores_percent, 0);
  EXPECT_FALSE(has_hints(*golden));
}

// What the agent tells the tenant meanwhile is no damage, and no other limits.
TEST(Limits, HintsAreNoPartOfWhatIsChecked) {
  const std::string before = encode_limits(two_devices()).value();
  std::string after = before;
  after[offsetof(heddle_guard_limits, hints) + 3] = 'x';
  EXPECT_TRUE(decode_limits(after));
  EXPECT_TRUE(same_limits(before, after));
  EXPECT_TRUE(has_hints(after));
  after[offsetof(heddle_guard_limits, devices) + 100] ^= 1;
  EXPECT_FALSE(decode_limits(after));
  EXPECT_FALSE(same_limits(before, after));
}

TEST_F(FilesTest, NewUsageIsEmptyAndForEveryUser) {
  ASSERT_TRUE(create_usage(path_, two_devices()));
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0666u);
  EXPECT_EQ(status.st_size, static_cast<off_t>(sizeof(heddle_guard_usage)));
  const auto report = read_usage(path_);
  ASSERT_TRUE(report) << report.error().text();
  ASSERT_EQ(report->devices.size(), 2u);
  EXPECT_EQ(report->devices[0].uuid, kUuid);
  EXPECT_EQ(report->devices[0].charged_bytes, 0);
  EXPECT_TRUE(report->processes.empty());
}

TEST_F(FilesTest, ARepeatedPrepareKeepsWhatIsChargedAndMendsWhatIsBroken) {
  ASSERT_TRUE(create_usage(path_, two_devices()));
  const uint64_t total = ledger::pack_total(512, 0, 1);
  scribble(offsetof(heddle_guard_usage, devices) + offsetof(heddle_guard_device_usage, total), &total, sizeof(total));
  ASSERT_TRUE(create_usage(path_, two_devices()));
  EXPECT_EQ(read_usage(path_)->devices[0].charged_bytes, int64_t{2} << 20);
  ASSERT_EQ(::truncate(path_.c_str(), 100), 0);
  ASSERT_TRUE(create_usage(path_, two_devices()));
  EXPECT_EQ(read_usage(path_)->devices[0].charged_bytes, 0);
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  ASSERT_EQ(::symlink("/etc/passwd", path_.c_str()), 0);
  ASSERT_TRUE(create_usage(path_, two_devices()));
  ASSERT_TRUE(read_usage(path_)) << "a link in its place is replaced, not followed";
}

// The usage of a tenant whose guard is of the version before: the agent serves it as it is.
TEST_F(FilesTest, UsageOfVersionOneIsServed) {
  ASSERT_TRUE(create_usage(path_, two_devices()));
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(offsetof(heddle_guard_usage_header, version));
  file.put(1);
  file.close();
  EXPECT_TRUE(read_usage(path_));
  EXPECT_EQ(*free_slots_of_dead(path_, [](const SlotOwner&) { return false; }), 0);
  const UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(read_activity(fd.get(), 0)->want_ns, 0) << "it says nothing of its use";
  ASSERT_TRUE(create_usage(path_, two_devices()));
  std::ifstream again(path_, std::ios::binary);
  again.seekg(offsetof(heddle_guard_usage_header, version));
  EXPECT_EQ(again.get(), 1) << "a repeated Prepare leaves a running tenant's file alone";
}

TEST_F(FilesTest, AMemfdIsSealed) {
  const UniqueFd fd(::memfd_create("usage", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_TRUE(fd.valid());
  ASSERT_TRUE(create_usage(fd.get(), two_devices()));
  EXPECT_NE(::ftruncate(fd.get(), 0), 0);
  EXPECT_TRUE(read_usage(fd.get()));
}

TEST_F(FilesTest, HostileContentsAreNeverBelieved) {
  EXPECT_EQ(read_usage(path_).error().code, Code::kNotFound);
  ASSERT_TRUE(create_usage(path_, two_devices()));
  const std::string good = read_file(path_).value();
  struct Case {
    const char* name;
    size_t offset;
    uint32_t value;
    bool readable;
  };
  const Case cases[] = {
      {"magic", 0, 0, false},
      {"version", offsetof(heddle_guard_usage_header, version), 99, false},
      {"size", offsetof(heddle_guard_usage_header, size), 1, false},
      {"devices none", offsetof(heddle_guard_usage_header, device_count), 0, false},
      {"devices many", offsetof(heddle_guard_usage_header, device_count), 0xffffffff, false},
      {"slots", offsetof(heddle_guard_usage_header, slot_count), 0xffffffff, false},
      {"uuid", offsetof(heddle_guard_usage, devices), 0x01020304, true},
  };
  for (const Case& c : cases) {
    ASSERT_TRUE(write_file_atomic(path_, good, 0666));
    scribble(c.offset, &c.value, sizeof(c.value));
    EXPECT_EQ(static_cast<bool>(read_usage(path_)), c.readable) << c.name;
  }
  // Every byte ones after the header: numbers stay within bounds and sums do not overflow.
  std::string ones = good;
  std::memset(ones.data() + sizeof(heddle_guard_usage_header), 0xff, ones.size() - sizeof(heddle_guard_usage_header));
  ASSERT_TRUE(write_file_atomic(path_, ones, 0666));
  const auto report = read_usage(path_);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->devices[0].uuid, "");
  EXPECT_GE(report->devices[0].charged_bytes, 0);
  EXPECT_EQ(report->processes.size(), static_cast<size_t>(HEDDLE_GUARD_SLOTS));
  EXPECT_GE(report->launches, 0);
  EXPECT_GE(report->throttled_ns, 0);
  ASSERT_EQ(::truncate(path_.c_str(), 5000), 0);
  EXPECT_FALSE(read_usage(path_));
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0666), 0);
  EXPECT_FALSE(read_usage(path_)) << "a pipe in its place must not block the reader";
}

TEST_F(FilesTest, MarksOnlyTheDead) {
  ASSERT_TRUE(create_usage(path_, two_devices()));
  for (const uint32_t slot : {3u, 9u, 12u}) {
    heddle_guard_slot content{};
    content.owner = ledger::pack_owner(100 + slot, 0, 4026531836u);
    content.start_time = slot == 12 ? 0 : 7000 + slot;
    scribble(offsetof(heddle_guard_usage, slots) + slot * sizeof(content), &content, sizeof(content));
  }
  std::vector<SlotOwner> asked;
  const auto marked = free_slots_of_dead(path_, [&](const SlotOwner& owner) {
    asked.push_back(owner);
    return owner.pid == 103;
  });
  ASSERT_TRUE(marked) << marked.error().text();
  EXPECT_EQ(*marked, 2);
  const std::string content = read_file(path_).value();
  const auto seen_ns = [&](size_t slot) {
    uint64_t seen = 0;
    std::memcpy(&seen,
                content.data() + offsetof(heddle_guard_usage, slots) + slot * sizeof(heddle_guard_slot) +
                    offsetof(heddle_guard_slot, dead_seen_ns),
                sizeof(seen));
    return seen;
  };
  EXPECT_EQ(seen_ns(3), 0u);
  EXPECT_GT(seen_ns(9), 0u);
  EXPECT_LE(seen_ns(9), static_cast<uint64_t>(SystemClock().monotonic_nanos()));
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_EQ(asked[2].pid, 112u) << "one that has not written its start time, too";
  EXPECT_EQ(asked[2].start_time, 0u);
  EXPECT_EQ(asked[1].pid, 109u);
  EXPECT_EQ(asked[1].pid_namespace, 4026531836u);
  EXPECT_EQ(asked[1].start_time, 7009u);
  EXPECT_EQ(*free_slots_of_dead(path_, [](const SlotOwner& owner) { return owner.pid == 103; }), 0) << "marked once";
}

TEST(LiveProcesses, KnowsItselfAndNotTheEnded) {
  struct stat ns{};
  ASSERT_EQ(::stat("/proc/self/ns/pid", &ns), 0);
  const std::string stat = read_file("/proc/self/stat").value();
  std::string rest = stat.substr(stat.rfind(')') + 2);
  for (int i = 3; i < 22; ++i) rest = rest.substr(rest.find(' ') + 1);
  SlotOwner self{static_cast<uint32_t>(::getpid()), static_cast<uint32_t>(ns.st_ino), std::stoull(rest)};
  const pid_t zombie = ::fork();
  if (zombie == 0) ::_exit(0);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(zombie), &info, WEXITED | WNOWAIT), 0);
  const auto live = LiveProcesses::scan();
  ASSERT_TRUE(live) << live.error().text();
  EXPECT_TRUE(live->contains(self));
  self.start_time += 1;
  EXPECT_FALSE(live->contains(self)) << "the same pid with another start is another process";
  EXPECT_FALSE(live->contains({static_cast<uint32_t>(zombie), self.pid_namespace, self.start_time}));
  ASSERT_EQ(::waitpid(zombie, nullptr, 0), zombie);
}

}  // namespace
}  // namespace heddle::guard
