#include "controller/units.h"

#include <gtest/gtest.h>

#include "controller/test_requests.h"

namespace heddle::controller {
namespace {

model::Pod member(const std::string& name, std::map<std::string, std::string> annotations, int64_t created = 1) {
  model::Pod pod;
  pod.meta.name_space = "ns";
  pod.meta.name = name;
  pod.meta.annotations = std::move(annotations);
  pod.meta.created = Time{created};
  pod.phase = "Pending";
  return pod;
}

model::Pod gang_pod(const std::string& name, const std::string& size, int64_t created = 1) {
  return member(name, {{"heddle.dev/gang", "g"}, {"heddle.dev/gang-size", size}}, created);
}

TEST(Units, APodAloneIsAUnit) {
  UnitTable table;
  model::Pod pod = member("p", {}, 7);
  pod.priority = 5;
  table.upsert(pod);
  const Unit* unit = table.unit_of("ns/p");
  ASSERT_NE(unit, nullptr);
  EXPECT_EQ(unit->id, "ns/p");
  EXPECT_FALSE(unit->gang);
  EXPECT_EQ(unit->members, std::vector<std::string>{"ns/p"});
  EXPECT_EQ(unit->priority, 5);
  EXPECT_EQ(unit->submitted.unix_nanos, 7);
  EXPECT_FALSE(unit->blocked);
  table.remove("ns/p");
  EXPECT_EQ(table.unit_of("ns/p"), nullptr);
  EXPECT_EQ(table.find("ns/p"), nullptr);
  EXPECT_EQ(table.take_changed(), std::set<std::string>{"ns/p"});
}

TEST(Units, AGangWaitsForItsMembersAndSaysHowManyAreThere) {
  UnitTable table;
  table.upsert(gang_pod("a", "3"));
  table.upsert(gang_pod("b", "3"));
  ASSERT_TRUE(table.unit_of("ns/a")->blocked);
  EXPECT_EQ(table.unit_of("ns/a")->blocked->code, "GangIncomplete");
  EXPECT_EQ(table.unit_of("ns/a")->blocked->message, "waits for members of gang g: 2 of 3 are there");
  (void)table.take_changed();
  table.upsert(gang_pod("c", "3"));
  EXPECT_EQ(table.take_changed(), std::set<std::string>{"ns/heddle/g"});
  const Unit* unit = table.unit_of("ns/c");
  EXPECT_FALSE(unit->blocked);
  EXPECT_EQ(unit, table.find("ns/heddle/g"));
  EXPECT_EQ(unit->minimum, 3);
  EXPECT_EQ(unit->members.size(), 3U);
  table.upsert(gang_pod("c", "3"));
  EXPECT_TRUE(table.take_changed().empty());  // nothing that a unit is made of changed
}

TEST(Units, WhoEndedWellCountsAsThereAndWhoFailedOrIsDeletedDoesNot) {
  UnitTable table;
  for (const char* name : {"a", "b", "c"}) table.upsert(gang_pod(name, "3"));
  model::Pod done = gang_pod("a", "3");
  done.phase = "Succeeded";
  table.upsert(done);
  EXPECT_FALSE(table.unit_of("ns/b")->blocked);
  EXPECT_EQ(table.unit_of("ns/b")->members, (std::vector<std::string>{"ns/b", "ns/c"}));
  model::Pod failed = gang_pod("b", "3");
  failed.phase = "Failed";
  table.upsert(failed);
  ASSERT_TRUE(table.unit_of("ns/c")->blocked);
  table.upsert(gang_pod("b2", "3", 5));
  EXPECT_FALSE(table.unit_of("ns/c")->blocked);
  model::Pod deleted = gang_pod("c", "3");
  deleted.meta.deleting = true;
  table.upsert(deleted);
  EXPECT_TRUE(table.unit_of("ns/b2")->blocked);
}

TEST(Units, MembersAreInTheOrderOfTheirRanksThenOfTheirCreation) {
  UnitTable table;
  for (const auto& [name, index] : {std::pair{"a", "2"}, {"b", "0"}, {"c", "10"}}) {
    table.upsert(
        member(name, {{"heddle.dev/gang", "g"}, {"heddle.dev/gang-size", "5"}, {"heddle.dev/gang-index", index}}));
  }
  table.upsert(gang_pod("late", "5", 9));
  table.upsert(gang_pod("zero", "5", 2));
  EXPECT_EQ(table.unit_of("ns/a")->members, (std::vector<std::string>{"ns/b", "ns/a", "ns/c", "ns/zero", "ns/late"}));
}

TEST(Units, TheNewestMemberSaysTheSize) {
  UnitTable table;
  table.upsert(gang_pod("a", "1", 1));
  EXPECT_FALSE(table.unit_of("ns/a")->blocked);
  table.upsert(gang_pod("b", "3", 2));
  EXPECT_EQ(table.unit_of("ns/a")->minimum, 3);
  EXPECT_TRUE(table.unit_of("ns/a")->blocked);
}

TEST(Units, TheMinimumIsTheSizeUnlessItIsWritten) {
  UnitTable table;
  std::map<std::string, std::string> marks{
      {"heddle.dev/gang", "g"}, {"heddle.dev/gang-size", "4"}, {"heddle.dev/gang-minimum", "2"}};
  table.upsert(member("a", marks));
  EXPECT_TRUE(table.unit_of("ns/a")->blocked);
  table.upsert(member("b", marks));
  EXPECT_FALSE(table.unit_of("ns/a")->blocked);
  EXPECT_EQ(table.unit_of("ns/a")->minimum, 2);
  EXPECT_EQ(table.unit_of("ns/a")->size, 4);
  marks["heddle.dev/gang-minimum"] = "5";
  table.upsert(member("c", marks, 2));
  EXPECT_EQ(table.unit_of("ns/a")->blocked->code, "GangInvalid");
}

TEST(Units, ASizeThatIsNotKnownIsNotGuessed) {
  UnitTable table;
  const std::string object = "scheduling.volcano.sh/PodGroup ns/v";
  table.upsert(member("a", {{"scheduling.k8s.io/group-name", "v"}}));
  ASSERT_TRUE(table.unit_of("ns/a")->blocked);
  EXPECT_EQ(table.unit_of("ns/a")->blocked->code, "GangSize");
  EXPECT_NE(table.unit_of("ns/a")->blocked->message.find(object), std::string::npos);
  (void)table.take_changed();
  table.upsert_object({object, 2, {}, {}, {}});
  EXPECT_EQ(table.take_changed(), std::set<std::string>{"ns/volcano/v"});
  EXPECT_EQ(table.unit_of("ns/a")->blocked->code, "GangIncomplete");
  table.upsert(member("b", {{"scheduling.k8s.io/group-name", "v"}}));
  EXPECT_FALSE(table.unit_of("ns/a")->blocked);
  table.remove_object(object);
  EXPECT_EQ(table.unit_of("ns/a")->blocked->code, "GangSize");
}

TEST(Units, TasksOfAVolcanoJobHaveMinimaOfTheirOwn) {
  UnitTable table;
  GangObject object;
  object.key = "scheduling.volcano.sh/PodGroup ns/v";
  object.minimum = 2;
  object.subgroup_minimum = {{"master", 1}, {"worker", 2}};
  table.upsert_object(object);
  const auto task = [](const std::string& name, const std::string& spec) {
    return member(name, {{"scheduling.k8s.io/group-name", "v"}, {"volcano.sh/task-spec", spec}});
  };
  table.upsert(task("w0", "worker"));
  table.upsert(task("w1", "worker"));
  ASSERT_TRUE(table.unit_of("ns/w0")->blocked);
  EXPECT_EQ(table.unit_of("ns/w0")->blocked->message, "waits for members of gang v, subgroup master: 0 of 1 are there");
  table.upsert(task("m", "master"));
  EXPECT_FALSE(table.unit_of("ns/w0")->blocked);
  ASSERT_EQ(table.unit_of("ns/w0")->subgroups.size(), 2U);
  EXPECT_EQ(table.unit_of("ns/w0")->subgroups[1].minimum, 2);
}

TEST(Units, ASizeThatCanBecomeKnownIsWaitedForAndElsePodsAreAlone) {
  UnitTable table(UnknownSize::kOneByOne);
  const std::string object = "scheduling.volcano.sh/PodGroup ns/v";
  table.upsert(member("a", {{"scheduling.k8s.io/group-name", "v"}}));
  table.upsert(member("j", {{"jobset.sigs.k8s.io/jobset-name", "j"}}));
  table.begin_look();
  table.see_kinds({});
  EXPECT_FALSE(table.unit_of("ns/a")->blocked);
  EXPECT_EQ(table.unit_of("ns/a")->minimum, 1);
  (void)table.take_changed();
  table.see_kinds({"scheduling.volcano.sh/PodGroup"});
  EXPECT_EQ(table.take_changed(), std::set<std::string>{"ns/volcano/v"});
  ASSERT_TRUE(table.unit_of("ns/a")->blocked);
  EXPECT_EQ(table.unit_of("ns/a")->blocked->code, "GangSize");
  EXPECT_FALSE(table.unit_of("ns/j")->blocked);
  table.upsert_object({object, 1, {}, {}, {}});
  EXPECT_FALSE(table.unit_of("ns/a")->blocked);
  table.remove_object(object);
  EXPECT_TRUE(table.unit_of("ns/a")->blocked);
  table.see_kinds({});
  EXPECT_FALSE(table.unit_of("ns/a")->blocked);
}

// A kind may have come to be served since it was last asked for.
TEST(Units, NobodyIsAloneBeforeItWasAskedWhatIsServed) {
  UnitTable table(UnknownSize::kOneByOne);
  const std::string kind = "scheduling.volcano.sh/PodGroup";
  table.see_kinds({});
  EXPECT_FALSE(table.look_due());
  table.upsert(member("alone", {}));
  table.upsert(
      member("sized", {{"scheduling.k8s.io/group-name", "w"}, {"scheduling.volcano.sh/group-min-member", "1"}}));
  EXPECT_FALSE(table.look_due()) << "nothing depends on it";
  table.upsert(member("a", {{"scheduling.k8s.io/group-name", "v"}}));
  EXPECT_TRUE(table.look_due());
  ASSERT_TRUE(table.unit_of("ns/a")->blocked);
  EXPECT_EQ(table.unit_of("ns/a")->blocked->code, "GangSize");
  table.see_kinds({});  // the answer to an earlier question
  EXPECT_TRUE(table.unit_of("ns/a")->blocked);
  table.begin_look();
  EXPECT_FALSE(table.look_due());
  table.upsert(member("b", {{"scheduling.k8s.io/group-name", "late"}}));
  EXPECT_TRUE(table.look_due());
  (void)table.take_changed();
  table.see_kinds({});
  EXPECT_EQ(table.take_changed(), std::set<std::string>{"ns/volcano/v"});
  EXPECT_FALSE(table.unit_of("ns/a")->blocked);
  EXPECT_TRUE(table.unit_of("ns/b")->blocked);
  table.begin_look();
  table.see_kinds({kind});
  EXPECT_NE(table.unit_of("ns/b")->blocked->message.find("PodGroup ns/late is not there"), std::string::npos);
  EXPECT_TRUE(table.unit_of("ns/a")->blocked) << "from now on its object says its size";
  table.upsert(member("c", {{"scheduling.k8s.io/group-name", "third"}}));
  EXPECT_FALSE(table.look_due()) << "its kind is seen";
  table.see_kinds({});
  EXPECT_FALSE(table.unit_of("ns/c")->blocked) << "and it is gone";
  table.upsert(member("d", {{"scheduling.k8s.io/group-name", "gone"}}));
  table.remove("ns/d");
  table.begin_look();
  table.see_kinds({});
  EXPECT_FALSE(table.look_due());
}

TEST(Units, SubgroupsHaveMinimaOfTheirOwn) {
  UnitTable table;
  const auto part = [](const std::string& name, const std::string& subgroup) {
    return member(name, {{"heddle.dev/gang", "g"},
                         {"heddle.dev/gang-size", "3"},
                         {"heddle.dev/gang-minimum", "2"},
                         {"heddle.dev/gang-subgroup", subgroup},
                         {"heddle.dev/gang-subgroup-minimum", subgroup == "ps" ? "1" : "2"}});
  };
  table.upsert(part("p", "ps"));
  table.upsert(part("w1", "w"));
  ASSERT_TRUE(table.unit_of("ns/p")->blocked);
  EXPECT_EQ(table.unit_of("ns/p")->blocked->message, "waits for members of gang g, subgroup w: 1 of 2 are there");
  table.upsert(part("w2", "w"));
  EXPECT_FALSE(table.unit_of("ns/p")->blocked);
  ASSERT_EQ(table.unit_of("ns/p")->subgroups.size(), 2U);
  EXPECT_EQ(table.unit_of("ns/p")->subgroups[1].members, (std::vector<std::string>{"ns/w1", "ns/w2"}));
}

TEST(Units, GangsOfOneNameFromTwoSourcesAreTwo) {
  UnitTable table;
  table.upsert(gang_pod("a", "1"));
  table.upsert(member("b", {{"kueue.x-k8s.io/pod-group-name", "g"}, {"kueue.x-k8s.io/pod-group-total-count", "1"}}));
  EXPECT_NE(table.unit_of("ns/a"), table.unit_of("ns/b"));
}

TEST(Units, AMemberThatChangesItsGangLeavesTheOldOne) {
  UnitTable table;
  table.upsert(gang_pod("a", "2"));
  table.upsert(gang_pod("b", "2"));
  table.upsert(member("b", {}));
  EXPECT_TRUE(table.unit_of("ns/a")->blocked);
  EXPECT_FALSE(table.unit_of("ns/b")->gang);
}

model::Pod segment_pod(const std::string& name, const std::string& index, int64_t created = 1) {
  model::Pod pod = gang_pod(name, "4", created);
  pod.meta.annotations["heddle.dev/gang-segment-size"] = "2";
  pod.meta.annotations["heddle.dev/gang-segment-topology"] = "rack";
  if (!index.empty()) pod.meta.annotations["heddle.dev/gang-index"] = index;
  return pod;
}

TEST(Units, MembersOfConsecutiveRanksAreOneSegment) {
  UnitTable table;
  const char* const indexes[] = {"3", "0", "2", "1"};
  for (const char* index : indexes) table.upsert(segment_pod(std::string("p") + index, index));
  const Unit* unit = table.unit_of("ns/p0");
  ASSERT_FALSE(unit->blocked);
  EXPECT_EQ(unit->segment_level, "rack");
  EXPECT_EQ(unit->segment_size, 2);
  EXPECT_EQ(unit->segment_numbers(),
            (std::map<std::string, int64_t>{{"ns/p0", 0}, {"ns/p1", 0}, {"ns/p2", 1}, {"ns/p3", 1}}));
  // A launcher that is in no segment takes no rank, and what has ended leaves the others where they are.
  table.upsert(gang_pod("a-launcher", "4", 9));
  EXPECT_EQ(table.unit_of("ns/p0")->segment_numbers().at("ns/a-launcher"), -1) << "though it is the newest";
  EXPECT_EQ(table.unit_of("ns/p0")->segment_numbers().at("ns/p2"), 1);
  model::Pod done = segment_pod("p1", "1");
  done.phase = "Succeeded";
  table.upsert(done);
  EXPECT_EQ(table.unit_of("ns/p0")->segment_numbers().at("ns/p2"), 1);
}

TEST(Units, WithoutIndexesThePositionIsTheRank) {
  UnitTable table;
  for (int i = 0; i < 4; ++i) table.upsert(segment_pod("p" + std::to_string(i), "", 10 - i));
  EXPECT_EQ(table.unit_of("ns/p0")->segments, (std::vector<int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(table.unit_of("ns/p0")->members.front(), "ns/p3") << "the oldest";
}

TEST(Units, EachJobOfAJobSetIsASegment) {
  UnitTable table;
  for (int job = 0; job < 2; ++job) {
    for (int i = 0; i < 3; ++i) {
      table.upsert(member("p" + std::to_string(job) + std::to_string(i),
                          {{"jobset.sigs.k8s.io/jobset-name", "s"},
                           {"jobset.sigs.k8s.io/job-global-index", std::to_string(job)},
                           {"batch.kubernetes.io/job-completion-index", std::to_string(i)},
                           {"heddle.dev/gang-size", "6"},
                           {"kueue.x-k8s.io/podset-slice-required-topology", "rack"}}));
    }
  }
  const Unit* unit = table.unit_of("ns/p00");
  ASSERT_FALSE(unit->blocked) << unit->blocked->message;
  EXPECT_EQ(unit->segments, (std::vector<int64_t>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(unit->segment_size, 3);
}

TEST(Units, SlicesOfTpuHostsAreWhole) {
  UnitTable table;
  const auto upsert = [&](int size) {
    for (int i = 0; i < size; ++i) {
      model::Pod pod =
          member("p" + std::to_string(i), {{"jobset.sigs.k8s.io/jobset-name", "s"},
                                           {"jobset.sigs.k8s.io/job-global-index", std::to_string(i / 4)},
                                           {"batch.kubernetes.io/job-completion-index", std::to_string(i % 4)},
                                           {"heddle.dev/gang-size", std::to_string(size)},
                                           {"heddle.dev/request", testing::npu_request(4)}});
      pod.node_selector["cloud.google.com/gke-tpu-topology"] = "4x4";
      table.upsert(pod);
    }
  };
  upsert(8);
  const Unit* unit = table.unit_of("ns/p0");
  ASSERT_FALSE(unit->blocked) << unit->blocked->message;
  EXPECT_EQ(unit->segments, (std::vector<int64_t>{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(unit->segment_level, "cloud.google.com/gke-nodepool");
  for (int i = 0; i < 8; ++i) table.remove("ns/p" + std::to_string(i));
  upsert(6);
  unit = table.unit_of("ns/p0");
  ASSERT_TRUE(unit->blocked);
  EXPECT_EQ(unit->blocked->code, "GangInvalid");
  EXPECT_EQ(
      unit->blocked->message,
      "cloud.google.com/gke-tpu-topology: a slice of it has 4 hosts, and 6 members of gang s are to be hosts; write "
      "as many as make whole slices");
}

TEST(Units, SpBlockCountsDevices) {
  const auto pod = [](const std::string& name, const std::string& block) {
    model::Pod out = member(name, {{"scheduling.k8s.io/group-name", "j"},
                                   {"scheduling.volcano.sh/group-min-member", "4"},
                                   {"heddle.dev/request", testing::npu_request(16)}});
    if (!block.empty()) out.meta.annotations["sp-block"] = block;
    return out;
  };
  UnitTable table;
  for (const char* name : {"a", "b", "c", "d"}) table.upsert(pod(name, "32"));
  EXPECT_EQ(table.unit_of("ns/a")->segments, (std::vector<int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(table.unit_of("ns/a")->segment_level, "superNode");
  for (const char* name : {"a", "b", "c", "d"}) table.upsert(pod(name, "24"));
  ASSERT_TRUE(table.unit_of("ns/a")->blocked);
  EXPECT_EQ(table.unit_of("ns/a")->blocked->message,
            "sp-block: 24 devices are no whole number of pods of 16; write a multiple of it");
  for (const char* name : {"a", "b", "c", "d"}) table.upsert(pod(name, ""));
  EXPECT_EQ(table.unit_of("ns/a")->segment_level, "");
  GangObject object;
  object.key = "scheduling.volcano.sh/PodGroup ns/j";
  object.segment_devices = 16;
  table.upsert_object(object);
  EXPECT_EQ(table.unit_of("ns/a")->segments, (std::vector<int64_t>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace heddle::controller
