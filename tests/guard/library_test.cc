// What holds for the library as such, without a simulated machine: what it needs and shows, that it does nothing where
// it has nothing to do, and what it does with damaged files.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "base/file.h"
#include "guard/harness.h"
#include "guard/layout.h"

namespace heddle::guard::test {
namespace {

constexpr const char* kFakeUuid = "GPU-11111111-1111-1111-1111-111111111111";

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 4096> buffer;
  while (fgets(buffer.data(), buffer.size(), pipe) != nullptr) text += buffer.data();
  EXPECT_EQ(pclose(pipe), 0) << command << "\n" << text;
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The library of one vendor: some of what it interposes, and how the names of that vendor begin.
struct Vendor {
  std::string library;
  std::vector<std::string> names;
  std::vector<std::string> prefixes;
};

class Library : public testing::TestWithParam<Vendor> {};

TEST_P(Library, NeedsTheCLibraryAlone) {
  for (const std::string& line : lines_of(output_of("readelf -dW " + GetParam().library))) {
    if (line.find("(NEEDED)") == std::string::npos) continue;
    const bool known = line.find("[libc.so.6]") != std::string::npos || line.find("[ld-linux") != std::string::npos;
    EXPECT_TRUE(known) << line;
  }
}

TEST_P(Library, RunsWithGlibc217) {
  const std::string text = output_of("readelf --dyn-syms -W " + GetParam().library);
  size_t found = 0;
  for (size_t at = text.find("@GLIBC_2."); at != std::string::npos; at = text.find("@GLIBC_2.", at + 1)) {
    ++found;
    EXPECT_LE(std::stoi(text.substr(at + 9)), 17) << text.substr(text.rfind('\n', at) + 1, 100);
  }
  EXPECT_GT(found, 5u);
}

// Every name that is visible is either dlsym, dlvsym, dlopen or an entry point of a vendor's library.
TEST_P(Library, ShowsOnlyWhatItInterposes) {
  std::set<std::string> ours;
  for (const std::string& line : lines_of(output_of("nm -D --defined-only " + GetParam().library))) {
    ours.insert(line.substr(line.rfind(' ') + 1));
  }
  for (const char* name : {"dlsym", "dlvsym", "dlopen"}) EXPECT_EQ(ours.erase(name), 1u) << name;
  for (const std::string& name : GetParam().names) EXPECT_TRUE(ours.contains(name)) << name;
  for (const std::string& name : ours) {
    const auto& prefixes = GetParam().prefixes;
    EXPECT_TRUE(std::any_of(prefixes.begin(), prefixes.end(), [&](const auto& one) { return name.starts_with(one); }))
        << name;
  }
}

const Vendor kVendors[] = {
    {HEDDLE_GUARD_LIBRARY,
     {"cuMemAlloc_v2", "cuMemAllocAsync_ptsz", "cuLaunchKernel_ptsz", "cuGetProcAddress_v2", "cuGraphLaunch_ptsz",
      "cuMemCreate", "nvmlDeviceGetMemoryInfo_v2"},
     {"cu", "nvmlDeviceGet"}},
    {ASCEND_GUARD,
     {"aclrtMalloc", "aclrtLaunchKernel", "aclrtGetMemInfo", "rtMalloc", "rtKernelLaunch"},
     {"acl", "rt"}},
};
INSTANTIATE_TEST_SUITE_P(Vendors, Library, testing::ValuesIn(kVendors),
                         [](const auto& vendor) { return std::string(vendor.index == 0 ? "Cuda" : "Ascend"); });

class GuardTest : public testing::Test {
 protected:
  void give(int64_t memory_mib, int cores = 0) const {
    write_guard_files(folder_.path(), limits_for({{kFakeUuid, memory_mib * kMiB, cores, false, 0}}));
  }
  Probe probe(const std::string& access = "dlsym") const {
    Probe::Setup setup;
    setup.access = access;
    Probe made(folder_.path(), HEDDLE_FAKE_LIBRARIES, setup);
    return made;
  }
  Folder folder_;
};

TEST_F(GuardTest, ProgramsWithoutADeviceAreLeftAlone) {
  give(100);
  const std::string preload = "HEDDLE_GUARD_DIR=" + folder_.path() + " LD_PRELOAD=" HEDDLE_GUARD_LIBRARY " ";
  EXPECT_EQ(output_of(preload + "ls " + folder_.path()), "limits\nusage\n");
  EXPECT_EQ(output_of(preload + "bash -c 'echo $((6*7)); true | cat'"), "42\n");
  // No thread, and neither file mapped.
  EXPECT_EQ(
      output_of(preload + "bash -c 'ls /proc/$$/task | wc -l; grep -c " + folder_.path() + " /proc/$$/maps || true'"),
      "1\n0\n");
}

TEST_F(GuardTest, DlsymMeansWhatItMeant) {
  give(100);
  Probe p = probe();
  EXPECT_EQ(p.code("dlsym-default malloc"), 1);
  const std::vector<int64_t> absent = {0, 1};
  EXPECT_EQ(p.tell("dlsym-default no_such_function"), absent);
  EXPECT_EQ(p.tell("dlsym-default cuMemAlloc_v2"), absent) << "there is no driver yet";
  EXPECT_EQ(p.tell("dlsym-default nvmlDeviceGetMemoryInfo"), absent);
  EXPECT_EQ(p.code("init"), kOk);
  EXPECT_EQ(p.code("dlsym-default cuMemAlloc_v2"), 1);
  EXPECT_EQ(p.tell("dlsym-default cuMemCreate"), absent) << "this driver has none";
  EXPECT_EQ(p.tell("dlsym-default nvmlDeviceGetMemoryInfo"), absent) << "its library is not loaded";
}

TEST_F(GuardTest, TheNextObjectIsTheCallersNext) {
  give(100);
  Probe::Setup setup;
  setup.environment["LD_PRELOAD"] = HEDDLE_GUARD_LIBRARY ":" HEDDLE_CHAIN;
  setup.guarded = false;
  Probe p(folder_.path(), HEDDLE_FAKE_LIBRARIES, setup);
  EXPECT_EQ(p.code("call chain_number"), 1);
  EXPECT_EQ(p.code("call chain_next_number"), 2);
  EXPECT_EQ(p.code("call chain_next_versioned"), 1);
  ASSERT_EQ(p.code("init"), kOk);
  EXPECT_EQ(p.code("call chain_next_number"), 2);
  EXPECT_EQ(p.code("alloc 209715200"), kOutOfMemory);
}

TEST_F(GuardTest, ManyProcessesAtATime) {
  constexpr int kProcesses = 250;
  give(2 * kProcesses);
  std::vector<Probe> probes;
  for (int i = 0; i < kProcesses; ++i) probes.push_back(probe());
  for (const Probe& p : probes) p.send("init\nalloc 2097152");
  for (Probe& p : probes) {
    ASSERT_EQ(p.receive().at(0), kOk);
    ASSERT_EQ(p.receive().at(0), kOk);
  }
  EXPECT_EQ(charged(folder_.path(), 0), 2 * kProcesses * kMiB);
  EXPECT_EQ(read_usage(folder_.path("usage"))->processes.size(), static_cast<size_t>(kProcesses));
  EXPECT_EQ(probes[0].code("alloc 1"), kOutOfMemory);
  for (size_t i = 1; i < probes.size(); ++i) probes[i].kill();
  EXPECT_EQ(probes[0].code("alloc " + std::to_string((2 * kProcesses - 2) * kMiB)), kOk);
  EXPECT_EQ(read_usage(folder_.path("usage"))->processes.size(), 1u);
}

TEST_F(GuardTest, SmallAllocationsShareTheirBlock) {
  give(10);
  for (const char* access : {"dlsym", "proc"}) {
    Probe p = probe(access);
    ASSERT_EQ(p.code("init"), kOk);
    ASSERT_EQ(p.code("ctx 0"), kOk);
    std::vector<int64_t> small;
    for (int i = 0; i < 5000; ++i) {
      const auto answer = p.tell("alloc 1000");
      ASSERT_EQ(answer[0], kOk) << access << " " << i;
      small.push_back(answer[1]);
    }
    // 2048 of 1 KiB fit in 2 MiB: 5000 take three blocks.
    EXPECT_EQ(charged(folder_.path(), 0), 6 * kMiB) << access;
    ASSERT_EQ(p.code("alloc 3000000"), kOk);
    EXPECT_EQ(charged(folder_.path(), 0), 10 * kMiB);
    EXPECT_EQ(p.code("alloc 2097152"), kOutOfMemory);
    for (const int64_t address : small) ASSERT_EQ(p.code("free " + std::to_string(address)), kOk);
    EXPECT_EQ(charged(folder_.path(), 0), 4 * kMiB);
  }
}

// A driver may hand out the address of memory that it has not given back yet. The block that the old and the new
// allocation fill in part only is then taken twice.
TEST_F(GuardTest, AnAddressHandedOutBeforeItsMemoryIsBackIsChargedTwice) {
  give(10);
  Probe p = probe();
  ASSERT_EQ(p.code("init"), kOk);
  ASSERT_EQ(p.code("ctx 0"), kOk);
  const auto old = p.tell("alloc 3000000");
  ASSERT_EQ(old[0], kOk);
  ASSERT_EQ(p.code("call fake_slow_free"), 0);
  ASSERT_EQ(p.code("free-aside " + std::to_string(old[1])), 0);
  ASSERT_EQ(p.code("call fake_wait_for_free"), 0);
  const auto again = p.tell("alloc 3000000");
  ASSERT_EQ(again, old) << "the same address";
  EXPECT_EQ(p.code("call fake_taken"), 8 * kMiB);
  EXPECT_EQ(charged(folder_.path(), 0), 8 * kMiB);
  EXPECT_EQ(p.code("alloc 3000000"), kOutOfMemory) << "the device has no more for it just now";
  ASSERT_EQ(p.code("call fake_finish_free"), 0);
  ASSERT_EQ(p.code("join"), 0);
  EXPECT_EQ(p.code("call fake_taken"), 4 * kMiB);
  EXPECT_EQ(charged(folder_.path(), 0), 4 * kMiB);
  EXPECT_EQ(p.code("alloc 3000000"), kOk);
}

TEST_F(GuardTest, NoWayAroundByTheWayOfAccess) {
  give(100);
  for (const char* access : {"dlsym", "proc", "libc", "libc-versioned"}) {
    Probe p = probe(access);
    ASSERT_EQ(p.code("init"), kOk);
    EXPECT_EQ(p.code("alloc 209715200"), kOutOfMemory) << access;
    EXPECT_EQ(p.tell("info"), (std::vector<int64_t>{kOk, 100 * kMiB, 100 * kMiB})) << access;
    EXPECT_EQ(p.tell("total 0"), (std::vector<int64_t>{kOk, 100 * kMiB})) << access;
  }
}

TEST_F(GuardTest, SaysWhatItDoesNotKnowOfTheDriverAndRefusesItWhereTheClaimSaysSo) {
  for (const bool deny : {false, true}) {
    for (const char* access : {"dlsym", "proc", "libc", "libc-versioned"}) {
      const Folder folder;
      ClaimLimits limits = limits_for({{kFakeUuid, 100 * kMiB, 0, false, 0}});
      limits.flags.deny_unknown_symbols = deny;
      write_guard_files(folder.path(), limits);
      Probe::Setup setup;
      setup.access = access;
      setup.environment["HEDDLE_GUARD_LOG"] = folder.path("log");
      Probe p(folder.path(), HEDDLE_FAKE_LIBRARIES, setup);
      ASSERT_EQ(p.code("init"), kOk);
      EXPECT_EQ(p.code("look-up cuMemAllocTomorrow"), deny ? 0 : 1) << access;
      EXPECT_EQ(p.code("look-up cuWeatherGet"), 1) << access;
      EXPECT_EQ(p.code("alloc 1048576"), kOk) << access;
      EXPECT_EQ(read_usage(folder.path("usage"))->unknown_symbols, 2) << access;
      const auto log = lines_of(read_file(folder.path("log")).value());
      ASSERT_EQ(log.size(), 1u) << access;
      EXPECT_NE(log[0].find("cuMemAllocTomorrow"), std::string::npos) << log[0];
    }
  }
}

TEST_F(GuardTest, NullPointersAreTheDriversBusiness) {
  give(100);
  Probe p = probe();
  ASSERT_EQ(p.code("init"), kOk);
  EXPECT_EQ(p.code("info-null"), kOk);
  EXPECT_EQ(p.code("alloc-null"), 1);
  EXPECT_EQ(p.code("free 12345"), 1) << "what the driver does not know is not ours to judge";
  EXPECT_EQ(p.code("free 0"), kOk);
}

TEST_F(GuardTest, WithoutLimitsEverythingPasses) {
  Probe p = probe();
  ASSERT_EQ(p.code("init"), kOk);
  EXPECT_EQ(p.code("alloc 1073741824"), kOk);
  EXPECT_EQ(p.tell("total 0")[1], int64_t{16} << 30);
}

TEST_F(GuardTest, DamagedFilesRefuseMemory) {
  struct Case {
    const char* name;
    std::function<void(const std::string&)> spoil;
    bool closed;
  };
  const auto scribble = [](const std::string& path, std::streamoff at, char value) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file.put(value);
  };
  const Case cases[] = {
      {"good", [](const std::string&) {}, false},
      {"limits empty", [](const std::string& f) { ASSERT_EQ(truncate((f + "/limits").c_str(), 0), 0); }, true},
      {"limits cut", [](const std::string& f) { ASSERT_EQ(truncate((f + "/limits").c_str(), 4000), 0); }, true},
      {"limits magic", [&](const std::string& f) { scribble(f + "/limits", 0, 'X'); }, true},
      {"limits version", [&](const std::string& f) { scribble(f + "/limits", 8, 9); }, true},
      {"limits flipped", [&](const std::string& f) { scribble(f + "/limits", 610, 'X'); }, true},
      {"usage missing", [](const std::string& f) { ASSERT_EQ(unlink((f + "/usage").c_str()), 0); }, true},
      {"usage cut", [](const std::string& f) { ASSERT_EQ(truncate((f + "/usage").c_str(), 8192), 0); }, true},
      {"usage long", [](const std::string& f) { ASSERT_EQ(truncate((f + "/usage").c_str(), 9000000), 0); }, true},
      {"usage magic", [&](const std::string& f) { scribble(f + "/usage", 3, 'X'); }, true},
      {"usage version", [&](const std::string& f) { scribble(f + "/usage", 8, 9); }, true},
      {"usage a folder",
       [](const std::string& f) {
         ASSERT_EQ(unlink((f + "/usage").c_str()), 0);
         ASSERT_EQ(mkdir((f + "/usage").c_str(), 0700), 0);
       },
       true},
      {"usage a pipe",
       [](const std::string& f) {
         ASSERT_EQ(unlink((f + "/usage").c_str()), 0);
         ASSERT_EQ(mkfifo((f + "/usage").c_str(), 0600), 0);
       },
       true},
  };
  for (const Case& c : cases) {
    const Folder folder;
    write_guard_files(folder.path(), limits_for({{kFakeUuid, 100 * kMiB, 0, false, 0}}));
    ASSERT_EQ(chmod(folder.path("limits").c_str(), 0600), 0);
    c.spoil(folder.path());
    Probe p(folder.path(), HEDDLE_FAKE_LIBRARIES, {});
    ASSERT_EQ(p.code("init"), kOk) << c.name;
    EXPECT_EQ(p.code("alloc 1048576"), c.closed ? kOutOfMemory : kOk) << c.name;
  }
}

TEST_F(GuardTest, OpenOnlyWhereTheClaimSaysSo) {
  ClaimLimits limits = limits_for({{kFakeUuid, 100 * kMiB, 0, false, 0}});
  limits.flags.fail_closed = false;
  write_guard_files(folder_.path(), limits);
  ASSERT_EQ(unlink(folder_.path("usage").c_str()), 0);
  Probe p = probe();
  ASSERT_EQ(p.code("init"), kOk);
  EXPECT_EQ(p.code("alloc 209715200"), kOk);
}

TEST_F(GuardTest, DevicesThatWereNotGivenAreRefused) {
  for (const bool deny : {true, false}) {
    const Folder folder;
    ClaimLimits limits = limits_for({{"GPU-99999999-1111-1111-1111-111111111111", 100 * kMiB, 0, false, 0}});
    limits.flags.deny_unlisted_devices = deny;
    write_guard_files(folder.path(), limits);
    Probe p(folder.path(), HEDDLE_FAKE_LIBRARIES, {});
    ASSERT_EQ(p.code("init"), kOk);
    EXPECT_EQ(p.code("alloc 1048576"), deny ? kOutOfMemory : kOk);
    EXPECT_EQ(p.code("ctx 0"), deny ? kOutOfMemory : kOk);
  }
}

// As it was before CUDA 9.2: which device it is nobody says, so it is none of those that were given.
TEST_F(GuardTest, ADriverThatDoesNotTellItsDevicesHasNoneThatWereGiven) {
  for (const bool deny : {true, false}) {
    const Folder folder;
    ClaimLimits limits = limits_for({{kFakeUuid, 100 * kMiB, 0, false, 0}});
    limits.flags.deny_unlisted_devices = deny;
    write_guard_files(folder.path(), limits);
    Probe p(folder.path(), HEDDLE_OLD_LIBRARIES, {});
    ASSERT_EQ(p.code("init"), kOk);
    EXPECT_EQ(p.code("ctx 0"), deny ? kOutOfMemory : kOk);
    EXPECT_EQ(p.code("alloc 1048576"), deny ? kOutOfMemory : kOk);
    EXPECT_EQ(p.code("alloc 8388608000"), deny ? kOutOfMemory : kOk);
  }
}

TEST_F(GuardTest, MeasuresAContextAmongHundredsOfProcesses) {
  give(1000);
  Probe p(folder_.path(), HEDDLE_CROWDED_LIBRARIES, {});
  ASSERT_EQ(p.code("init"), kOk);
  ASSERT_EQ(p.code("ctx 0"), kOk);
  EXPECT_EQ(charged(folder_.path(), 0), 250 * kMiB);
}

TEST_F(GuardTest, AWholeCardIsCountedAndShownAsItIs) {
  write_guard_files(folder_.path(), limits_for({{kFakeUuid, int64_t{1} << 30, 0, true, 0}}));
  Probe p = probe();
  ASSERT_EQ(p.code("init"), kOk);
  EXPECT_EQ(p.code("alloc 3221225472"), kOk);
  EXPECT_EQ(charged(folder_.path(), 0), int64_t{3} << 30);
  EXPECT_EQ(p.tell("total 0")[1], int64_t{16} << 30);
}

TEST_F(GuardTest, SilentUnlessAskedAndThenOneLine) {
  give(100);
  ASSERT_EQ(unlink(folder_.path("usage").c_str()), 0);
  Probe::Setup setup;
  setup.environment["HEDDLE_GUARD_LOG"] = folder_.path("log");
  Probe p(folder_.path(), HEDDLE_FAKE_LIBRARIES, setup);
  ASSERT_EQ(p.code("init"), kOk);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(p.code("alloc 1048576"), kOutOfMemory);
  const auto log = lines_of(read_file(folder_.path("log")).value());
  ASSERT_EQ(log.size(), 2u) << "one more for what the driver has that no header knows";
  EXPECT_NE(log[0].find("usage file is missing or damaged"), std::string::npos) << log[0];
}

TEST_F(GuardTest, ACaptureHoldsTheProgramsOwnLaunchesAndNothingElse) {
  give(100, 30);
  Probe p = probe();
  ASSERT_EQ(p.code("init"), kOk);
  ASSERT_EQ(p.code("ctx 0"), kOk);
  ASSERT_EQ(p.code("stream"), kOk);
  ASSERT_EQ(p.code("kernel 1"), kOk);
  // Launches before it leave a segment open, which must not be closed inside the capture.
  for (int i = 0; i < 5; ++i) ASSERT_EQ(p.code("launch"), kOk);
  const auto answer = p.tell("graph 50 20");
  ASSERT_EQ(answer.size(), 4u);
  EXPECT_EQ(answer[0], kOk);
  EXPECT_EQ(answer[1], 50);
}

// A hook without its gate would launch all the same, and nothing would be charged. The device holds the work back, so
// that what is predicted stays charged.
TEST_F(GuardTest, EveryWayOfLaunchingPassesTheGate) {
  give(100, 30);
  Probe p = probe();
  for (const char* line : {"init", "ctx 0", "stream", "kernel 1"}) ASSERT_EQ(p.code(line), kOk) << line;
  const auto charged_ns = [&] {
    const std::string content = read_file(folder_.path("usage")).value();
    int64_t clock = 0;
    std::memcpy(&clock, content.data() + offsetof(heddle_guard_usage, devices[0].virtual_ns), sizeof(clock));
    return clock;
  };
  ASSERT_EQ(p.code("call fake_hold_work"), 0);
  int ways = 0;
  for (const std::string& line : lines_of(read_file(GUARD_CLASSES).value())) {
    const std::string name = line.substr(0, line.find(' '));
    if (line != name + " launch hooked") continue;
    const int64_t before = charged_ns();
    EXPECT_EQ(p.code("launch-as " + name), kOk) << name;
    EXPECT_GT(charged_ns(), before) << name;
    ++ways;
    EXPECT_EQ(p.code("call fake_launches"), ways) << name;
    EXPECT_EQ(read_usage(folder_.path("usage"))->launches, ways) << name;
  }
  EXPECT_GE(ways, 12);
}

// Work behind something that this very thread does next: launches must come back from the guard before it is done.
TEST_F(GuardTest, LaunchesDoNotWaitForWorkThatWaitsForTheProgram) {
  give(100, 10);
  Probe p = probe();
  ASSERT_EQ(p.code("init"), kOk);
  ASSERT_EQ(p.code("ctx 0"), kOk);
  ASSERT_EQ(p.code("stream"), kOk);
  ASSERT_EQ(p.code("kernel 1"), kOk);
  ASSERT_EQ(p.code("call fake_hold_work"), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(p.code("launch"), kOk);
  EXPECT_EQ(p.code("call fake_go_on"), 0);
  EXPECT_EQ(p.code("sync"), kOk);
  // Once the device told how long they took, launches of the same kernel behind it cost no patience.
  for (int i = 0; i < 4; ++i) ASSERT_EQ(p.code("launch"), kOk);
  ASSERT_EQ(p.code("sync"), kOk);
  ASSERT_EQ(p.code("call fake_hold_work"), 0);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(p.code("launch"), kOk);
  EXPECT_EQ(p.code("call fake_go_on"), 0);
}

TEST_F(GuardTest, CountsLaunchesForTheAgent) {
  give(100);
  Probe p = probe();
  ASSERT_EQ(p.code("init"), kOk);
  ASSERT_EQ(p.code("kernel 1"), kOk);
  for (int i = 0; i < 7; ++i) ASSERT_EQ(p.code("launch"), kOk);
  const auto report = read_usage(folder_.path("usage"));
  ASSERT_TRUE(report);
  ASSERT_EQ(report->processes.size(), 1u);
  EXPECT_EQ(report->processes[0].launches, 7);
  EXPECT_EQ(report->processes[0].owner.pid, static_cast<uint32_t>(p.pid()));
  EXPECT_NE(report->processes[0].owner.start_time, 0u);
}

}  // namespace
}  // namespace heddle::guard::test
