// Partitions that are made for claims, by a vendor of the test whose partitions outlive the process as those of a
// driver do.
#include "agent/partition_maker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "agent/cdi.h"
#include "agent/preparer.h"
#include "base/file.h"

namespace heddle::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int kKilled = 77;
constexpr const char* kNpu = "NPU-0";

// One line a partition, "<profile> <place>", of the one card that there is.
class FakeVendor {
 public:
  explicit FakeVendor(std::string file) : file_(std::move(file)) {}

  [[nodiscard]] std::vector<std::string> all() const {
    std::vector<std::string> lines;
    const std::string text = read_file(file_).value_or("");
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      lines.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return lines;
  }
  void set(const std::vector<std::string>& lines) const {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    ASSERT_TRUE(write_file_atomic(file_, text, 0600));
  }

  std::shared_ptr<PartitionMaker> maker() const {
    return std::make_shared<PartitionMaker>(
        PartitionPorts{[this](const std::string&, const vendors::PartitionOrder& order,
                              const std::vector<int64_t>& taken) { return place(order, taken); },
                       [this](const std::string&, const vendors::PartitionOrder& order) { return make(order); },
                       [this](const std::string&, const vendors::PartitionOrder& order) { return drop(order); }});
  }

  std::string refuses;  // what makes nothing: a message
  std::string stuck;    // what takes nothing away

 private:
  [[nodiscard]] Result<int64_t> place(const vendors::PartitionOrder& order, const std::vector<int64_t>& taken) const {
    for (int64_t id = order.place >= 0 ? order.place : 107; id >= 100; --id) {
      const std::string end = " " + std::to_string(id);
      const std::vector<std::string> lines = all();
      const bool used = std::ranges::any_of(lines, [&](const std::string& line) { return line.ends_with(end); });
      if (!used && std::ranges::find(taken, id) == taken.end()) return id;
    }
    return fail(Code::kExhausted, "no id");
  }
  [[nodiscard]] Result<vendors::Card> make(const vendors::PartitionOrder& order) const {
    if (!refuses.empty()) return fail(Code::kExhausted, refuses);
    std::vector<std::string> lines = all();
    const std::string line = order.profile + " " + std::to_string(order.place);
    if (std::ranges::find(lines, line) == lines.end()) {
      lines.push_back(line);
      set(lines);
    }
    vendors::Card card;
    card.uuid = order.parent_uuid + "-vnpu-" + std::to_string(order.place);
    card.partition = {order.parent_uuid, order.profile, order.place, order.place, 0};
    return card;
  }
  [[nodiscard]] Result<void> drop(const vendors::PartitionOrder& order) const {
    if (!stuck.empty()) return fail(Code::kConflict, stuck);
    std::vector<std::string> lines = all();
    std::erase(lines, order.profile + " " + std::to_string(order.place));
    set(lines);
    return {};
  }

  const std::string file_;
};

GrantedDevice part(const std::string& device, const std::string& profile, int64_t cores) {
  GrantedDevice out{"npu", "n/ascend", device, "", "", 0, 8192 * kMiB, 8192 * kMiB, 100};
  out.made = MadePartition{{kNpu, profile, -1}, {{"ai-cores", {cores, 20}}}};
  return out;
}

ClaimRecord claim(const std::string& uid, std::vector<GrantedDevice> devices) {
  return {uid, "ns", "c-" + uid, std::move(devices), {{"pod", "pod-" + uid}}, {}, {}};
}

ClaimRecord small(const std::string& uid, const std::string& device = "npu-0-vir05-1c-8g-0") {
  return claim(uid, {part(device, "vir05_1c_8g", 5)});
}

class PartitionMakerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "heddle-partition-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    ASSERT_TRUE(make_directories(dir_ + "/driver/dev", 0755));
    for (const char* file : {"/driver/dev/davinci_manager", "/guard.so", "/boot"}) {
      ASSERT_TRUE(write_file_atomic(dir_ + file, file, 0644));
    }
    for (int id = 100; id < 108; ++id) {
      ASSERT_TRUE(write_file_atomic(dir_ + "/driver/dev/vdavinci" + std::to_string(id), "", 0644));
    }
    vendor_ = std::make_unique<FakeVendor>(dir_ + "/vendor");
  }
  void TearDown() override {
    if (const auto claims = list_directory(dir_ + "/state/claims")) {
      for (const std::string& uid : *claims) ::umount2((dir_ + "/state/claims/" + uid + "/npu").c_str(), MNT_DETACH);
    }
    ASSERT_TRUE(remove_tree(dir_));
  }
  std::unique_ptr<Preparer> open(std::function<void(std::string_view)> step = [](std::string_view) {}) const {
    PreparerOptions options;
    options.state_dir = dir_ + "/state";
    options.cdi_root = dir_ + "/cdi";
    options.guard_library = dir_ + "/guard.so";
    options.injection.driver_root = dir_ + "/driver";
    options.boot_id_file = dir_ + "/boot";
    options.before_step = std::move(step);
    options.partitions = vendor_->maker();
    auto preparer = Preparer::open(std::move(options), log_);
    EXPECT_TRUE(preparer) << preparer.error().text();
    return preparer ? *std::move(preparer) : nullptr;
  }
  void reboot() const { ASSERT_TRUE(write_file_atomic(dir_ + "/boot", "another", 0644)); }
  [[nodiscard]] std::string cdi(const std::string& uid) const {
    return read_file(cdi_file(dir_ + "/cdi", uid)).value_or("");
  }
  [[nodiscard]] int killed_at(const std::string& fatal, const std::function<void(Preparer&)>& work) const {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto preparer = open([fatal](std::string_view step) {
        if (step == fatal) ::_exit(kKilled);
      });
      if (preparer) work(*preparer);
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string dir_;
  SystemClock clock_;
  Logger log_{"test", LogLevel::kError, clock_};
  std::unique_ptr<FakeVendor> vendor_;
};

TEST_F(PartitionMakerTest, APartitionIsMadeForItsClaimAndGoesWithIt) {
  const auto preparer = open();
  const auto record = preparer->prepare(small("u1"));
  ASSERT_TRUE(record) << record.error().text();
  EXPECT_THAT(vendor_->all(), ElementsAre("vir05_1c_8g 107"));
  EXPECT_EQ(record->devices[0].card_uuid, "NPU-0-vnpu-107");
  EXPECT_EQ(record->devices[0].gpu_instance, 107);
  EXPECT_THAT(cdi("u1"), HasSubstr("vdavinci107"));
  ASSERT_TRUE(preparer->prepare(small("u1"))) << "a call that is repeated";
  ASSERT_TRUE(preparer->prepare(small("u2", "npu-0-vir05-1c-8g-1")));
  EXPECT_THAT(vendor_->all(), ElementsAre("vir05_1c_8g 107", "vir05_1c_8g 106"));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(preparer->unprepare("u1"));
  EXPECT_THAT(vendor_->all(), ElementsAre("vir05_1c_8g 106"));
  EXPECT_EQ(preparer->records().size(), 1U);
}

TEST_F(PartitionMakerTest, WhatTheDriverRefusesLeavesNothingAndWhatStaysCounts) {
  vendor_->set({"vir10_3c_16g 100"});
  vendor_->refuses = "error -8020";
  const auto preparer = open();
  const auto refused = preparer->prepare(small("u1"));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("error -8020"));
  EXPECT_THAT(preparer->records(), IsEmpty());
  EXPECT_THAT(*list_directory(dir_ + "/state/claims"), IsEmpty());
  vendor_->refuses.clear();
  ASSERT_TRUE(preparer->prepare(small("u1")));
  vendor_->stuck = "in use";
  const auto kept = preparer->unprepare("u1");
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.error().code, Code::kConflict);
  EXPECT_EQ(preparer->records().size(), 1U) << "it still has its part of the card";
  vendor_->stuck.clear();
  ASSERT_TRUE(preparer->unprepare("u1"));
  EXPECT_THAT(vendor_->all(), ElementsAre("vir10_3c_16g 100")) << "what somebody else made is never touched";
}

TEST_F(PartitionMakerTest, AKillAtAnyStepLeavesNoPartitionBehind) {
  const std::string others = "vir05_1c_8g 100";
  const auto work = [](Preparer& p) { (void)p.prepare(small("u1")); };
  for (const char* step :
       {"place", "folder", "record", "make partition", "partitions made", "limits", "cdi", "answer"}) {
    vendor_->set({others});
    ASSERT_EQ(killed_at(step, work), kKilled) << step;
    {  // The kubelet asks again.
      const auto preparer = open();
      preparer->repair_all();
      ASSERT_TRUE(preparer->prepare(small("u1"))) << step;
      EXPECT_THAT(vendor_->all(), ElementsAre(others, "vir05_1c_8g 107")) << step;
      EXPECT_THAT(cdi("u1"), HasSubstr("vdavinci107")) << step;
      ASSERT_TRUE(preparer->unprepare("u1")) << step;
      EXPECT_THAT(vendor_->all(), ElementsAre(others)) << step;
    }
    ASSERT_EQ(killed_at(step, work), kKilled) << step;
    const auto preparer = open();  // the pod was deleted meanwhile
    ASSERT_TRUE(preparer->unprepare("u1")) << step;
    EXPECT_THAT(vendor_->all(), ElementsAre(others)) << step;
    EXPECT_THAT(*list_directory(dir_ + "/state/claims"), IsEmpty()) << step;
  }
  for (const char* step : {"remove cdi", "remove folders", "drop partition", "remove record", "unprepared"}) {
    ASSERT_TRUE(open()->prepare(small("u1"))) << step;
    ASSERT_EQ(killed_at(step, [](Preparer& p) { (void)p.unprepare("u1"); }), kKilled) << step;
    ASSERT_TRUE(open()->unprepare("u1")) << step;
    EXPECT_THAT(vendor_->all(), ElementsAre(others)) << step;
  }
}

TEST_F(PartitionMakerTest, AfterAStartOfTheMachineItIsMadeAtTheNextPrepare) {
  ASSERT_TRUE(open()->prepare(small("u1")));
  vendor_->set({});
  reboot();
  const auto preparer = open();
  preparer->repair_all();
  EXPECT_THAT(vendor_->all(), IsEmpty()) << "nobody has asked for it yet";
  ASSERT_TRUE(preparer->prepare(small("u1")));
  EXPECT_THAT(vendor_->all(), ElementsAre("vir05_1c_8g 107"));
  // Others took its place before it came back.
  vendor_->set({"vir10_3c_16g 107"});
  reboot();
  ASSERT_TRUE(write_file_atomic(dir_ + "/boot", "a third", 0644));
  const auto third = open();
  ASSERT_TRUE(third->prepare(small("u1")));
  EXPECT_THAT(vendor_->all(), ElementsAre("vir10_3c_16g 107", "vir05_1c_8g 106"));
  ASSERT_TRUE(third->unprepare("u1"));
  EXPECT_THAT(vendor_->all(), ElementsAre("vir10_3c_16g 107"));
}

// Nobody brings MIG instances back: what lies in the place of one of before was made since.
TEST_F(PartitionMakerTest, WhatAStartOfTheMachineEndedIsNotLookedFor) {
  GrantedDevice mig = part("gpu-0-1g-10gb-3", "1g.10gb", 1);
  mig.pool = "n/nvidia";
  mig.made->order.place = 3;
  vendor_->set({"1g.10gb 3"});
  const auto maker = vendor_->maker();
  ASSERT_TRUE(maker->drop(mig, PartitionMaker::Boot::kEarlier));
  EXPECT_THAT(vendor_->all(), ElementsAre("1g.10gb 3"));
  ASSERT_TRUE(maker->drop(mig, PartitionMaker::Boot::kSame));
  EXPECT_THAT(vendor_->all(), IsEmpty());
  EXPECT_EQ(maker->counts().at("nvidia").removed, 1);
}

TEST_F(PartitionMakerTest, AMissingPartitionIsMadeAgainWhenTheAgentStarts) {
  ASSERT_TRUE(open()->prepare(small("u1")));
  vendor_->set({});
  open()->repair_all();
  EXPECT_THAT(vendor_->all(), ElementsAre("vir05_1c_8g 107"));
  ASSERT_TRUE(open()->unprepare("u1"));
}

TEST_F(PartitionMakerTest, WithoutAMakerSuchClaimsAreRefused) {
  PreparerOptions options;
  options.state_dir = dir_ + "/state";
  options.cdi_root = dir_ + "/cdi";
  options.guard_library = dir_ + "/guard.so";
  const auto preparer = Preparer::open(std::move(options), log_);
  ASSERT_TRUE(preparer);
  EXPECT_EQ((*preparer)->prepare(small("u1")).error().code, Code::kUnsupported);
  EXPECT_THAT((*preparer)->records(), IsEmpty());
}

TEST(CheckPartitions, ACardAndItsPartitionsExcludeEachOtherAndCountersAddUp) {
  const auto npu = [](const std::string& uid) {
    return claim(uid, {{"npu", "n/ascend", "npu-0", "s", kNpu, 0, 32768 * kMiB, 3000 * kMiB, 10}});
  };
  const auto big = [](const std::string& uid) {
    return claim(uid, {part("npu-0-vir10-3c-16g-0", "vir10_3c_16g", 10)});
  };
  const auto why = [](const std::vector<ClaimRecord>& granted, const ClaimRecord& wanted) {
    const auto checked = check_capacity(granted, wanted);
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_THAT(why({npu("a")}, small("b")), HasSubstr("in use as a whole or shared; held by ns/c-a"));
  EXPECT_THAT(why({small("a")}, npu("b")), HasSubstr("npu-0: the card is cut into partitions; held by ns/c-a"));
  EXPECT_EQ(why({npu("a")}, npu("b")), "") << "two shares";
  EXPECT_EQ(why({small("a")}, small("a")), "") << "itself";
  EXPECT_THAT(why({small("a")}, small("b")), HasSubstr("npu-0-vir05-1c-8g-0 is one partition; held by ns/c-a"));
  EXPECT_EQ(why({small("a"), big("b")}, small("c", "npu-0-vir05-1c-8g-1")), "") << "20 of 20 cores";
  EXPECT_THAT(why({small("a"), big("b"), small("c", "npu-0-vir05-1c-8g-1")}, small("d", "npu-0-vir05-1c-8g-2")),
              HasSubstr("25 ai-cores of 20 would be granted of card NPU-0"));
  ClaimRecord both = small("a");
  both.devices.push_back(npu("a").devices[0]);
  EXPECT_THAT(why({}, both), HasSubstr("in one claim"));
}

TEST(MadePartitionRecord, RoundTrip) {
  ClaimRecord record = small("u1");
  record.devices[0].made->order.place = 107;
  const auto back = parse_record(record_json(record));
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(*back, record);
}

}  // namespace
}  // namespace heddle::agent
