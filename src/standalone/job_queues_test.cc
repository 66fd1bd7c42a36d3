#include "standalone/job_queues.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/demand.h"
#include "standalone/machine.h"

namespace heddle::standalone {
namespace {

using testing::HasSubstr;

constexpr int64_t kGi = int64_t{1} << 30;

std::string queue(const std::string& name, const std::string& spec) {
  return R"({"apiVersion":"heddle.dev/v1alpha1","kind":"AcceleratorQueue","metadata":{"name":")" + name +
         R"("},"spec":{)" + spec + "}}";
}

std::string reservation(const std::string& name, const std::string& spec) {
  return R"({"apiVersion":"heddle.dev/v1alpha1","kind":"AcceleratorReservation","metadata":{"name":")" + name +
         R"("},"spec":{)" + spec + "}}";
}
// Of three cards, from second 1000 to second 2000.
std::string three_cards(const std::string& name, const std::string& who) {
  return reservation(name,
                     R"("start":"1970-01-01T00:16:40Z","end":"1970-01-01T00:33:20Z","amounts":[{"amount":3}],)" + who);
}

Time at(int64_t second) {
  return Time{second * 1'000'000'000};
}

// A machine of four whole cards.
class JobQueuesTest : public ::testing::Test {
 protected:
  JobQueuesTest() {
    model::Node node;
    node.meta.name = "box";
    node.ready = model::Node::Ready::kTrue;
    state.upsert_node(std::move(node));
    model::DeviceClass device_class;
    device_class.meta.name = std::string(kClass);
    device_class.selectors = {"device.driver == \"accelerator.heddle.dev\""};
    state.upsert_class(std::move(device_class));
    set_cards(4);
  }
  void set_cards(int count) {
    for (const auto& slice : slices_) state.remove_slice(slice.meta.name);
    cards.clear();
    for (int i = 0; i < count; ++i) {
      vendors::Card card;
      card.vendor = "nvidia";
      card.model = "NVIDIA H100";
      card.uuid = "GPU-" + std::to_string(i);
      card.kind = "gpu";
      card.index = card.minor = i;
      card.memory_bytes = 80 * kGi;
      cards.push_back(card);
    }
    slices_ = machine_slices("box", cards);
    for (const auto& slice : slices_) state.upsert_slice(slice);
  }
  static Job job(int64_t id, const std::string& user, int64_t count = 1, const std::string& queue_name = "") {
    Job out;
    out.id = id;
    out.uid = "uid-" + std::to_string(id);
    out.owner = {1000, 1000, user, {"staff"}};
    out.request.count = count;
    out.request.command = {"true"};
    out.request.queue = queue_name;
    out.submitted = at(id);
    return out;
  }
  static JobQueues make(const std::vector<std::string>& objects) {
    return JobQueues::make(check_queues(objects).value(), Duration::seconds(600)).value();
  }
  // Gives the job its cards, as the daemon does; nothing where it may not or cannot have them.
  std::optional<std::string> start(JobQueues& queues, Job& job, Time now) {
    const auto spec = claim_spec(job.request, cards).value();
    model::Pod pod;
    engine::PlacementRequest request;
    request.pod = &pod;
    request.claims.push_back({job.uid, job.uid, spec});
    auto outcome = state.place(request, random).value();
    auto* assigned = std::get_if<engine::Assigned>(&outcome);
    if (assigned == nullptr) return "no room";
    if (auto over = queues.try_devices(state, job, spec, assigned->allocations[0], now)) return over->message;
    job.allocation = assigned->allocations[0];
    job.granted = now;
    job.state = JobState::kRunning;
    model::ResourceClaim claim;
    claim.meta.name = claim.meta.uid = job.uid;
    claim.spec = spec;
    claim.allocation = job.allocation;
    state.upsert_claim(claim);
    queues.tree().start(JobQueues::key_of(job.id), now);
    return std::nullopt;
  }
  static std::vector<int64_t> offers(JobQueues& queues, Time now) {
    std::vector<int64_t> out;
    auto pass = queues.tree().pass(now);
    while (const auto offer = pass.next()) {
      out.push_back(JobQueues::job_of(offer->id));
      pass.refused(std::nullopt);
    }
    return out;
  }

  [[nodiscard]] const std::vector<model::ResourceSlice>& slices() const { return slices_; }

  engine::State state;
  SeededRandom random{1};
  std::vector<vendors::Card> cards;

 private:
  std::vector<model::ResourceSlice> slices_;
};

std::string why(const std::vector<std::string>& documents) {
  const auto checked = check_queues(documents);
  return checked ? "good: " + *checked : checked.error().text();
}

TEST(CheckQueues, NamesTheQueueAndTheField) {
  const std::string good = queue("a", R"("quotas":[{"limit":2}])");
  EXPECT_THAT(why({good}), HasSubstr("good: ["));
  EXPECT_EQ(why({}), "good: ");
  EXPECT_THAT(why({R"({"kind":"List","items":[)" + good + "]}"}), HasSubstr("good: ["));
  EXPECT_THAT(why({R"({"kind":"AcceleratorQueueList","items":[{"metadata":{"name":"a"},"spec":{}}]})"}),
              HasSubstr("good: ["));
  EXPECT_THAT(why({good, good}), HasSubstr("--queues: queue a: metadata.name: is there twice"));
  EXPECT_THAT(why({R"({"kind":"Pod"})"}), HasSubstr("document 1: kind: Pod is not read here"));
  EXPECT_THAT(why({"[]"}), HasSubstr("document 1: is a list: write each object as a document of its own"));
  EXPECT_THAT(why({"7"}), HasSubstr("document 1: is no object; write AcceleratorQueue or AcceleratorReservation"));
  EXPECT_THAT(why({"{}"}), HasSubstr("document 1: kind: is missing; write AcceleratorQueue"));
  EXPECT_THAT(why({queue("a", R"("wieght":2)")}),
              HasSubstr("queue a: spec.wieght: there is no such field; did you mean weight?"));
  EXPECT_THAT(why({queue("a", R"("quotas":[{"garanteed":1,"limt":2}])")}),
              HasSubstr("queue a: spec.quotas[0].garanteed: there is no such field; did you mean guaranteed?"));
  EXPECT_THAT(why({reservation("r", R"("strat":"x")")}),
              HasSubstr("reservation r: spec.strat: there is no such field; did you mean start?"));
  EXPECT_THAT(why({queue("a", R"("weight":0)")}), HasSubstr("queue a: spec.weight: is 0"));
  EXPECT_THAT(why({queue("a", R"("parent":"b")")}), HasSubstr("queue a: spec.parent"));
  EXPECT_THAT(why({queue("unassigned", "")}), HasSubstr("queue unassigned: metadata.name"));
  EXPECT_THAT(why({queue("a", R"("quotas":[{"counts":"Boxes","boxDevices":16,"boxLevel":"rack","limit":1}])")}),
              HasSubstr("queue a: spec.quotas: counts boxes of 16 devices of one rack, which lie on several machines, "
                        "and this is one: leave boxLevel out"));
  EXPECT_THAT(why({queue("a", R"("quotas":[{"counts":"Boxes","boxShape":"4x4x4","limit":1}])")}),
              HasSubstr("leave boxShape out"));
  EXPECT_THAT(why({R"({"kind":"AcceleratorQueue","spec":{}})"}), HasSubstr("metadata.name"));
}

TEST(CheckQueues, TakesReservationsToo) {
  const std::string good = three_cards("r", R"("namespaces":["ann"])");
  EXPECT_THAT(why({good}), HasSubstr("good: ["));
  EXPECT_THAT(why({R"({"kind":"AcceleratorReservationList","items":[)" + good + "]}"}), HasSubstr("good: ["));
  EXPECT_THAT(why({good, good}), HasSubstr("--queues: reservation r: metadata.name: is there twice"));
  EXPECT_THAT(why({reservation("r", R"("start":"1970-01-01T00:16:40Z")")}), HasSubstr("reservation r: spec.end"));
  EXPECT_THAT(why({three_cards("r", R"("queue":"a")")}), HasSubstr("reservation r: spec.queue: there is no queue a"));
  EXPECT_THAT(why({three_cards("r", R"("queue":"a")"), queue("a", "")}), HasSubstr("good: ["));
}

TEST_F(JobQueuesTest, AReservationOfMoreThanTheMachineHasIsToldOf) {
  const std::string promises = queue("a", R"("quotas":[{"guaranteed":64}])");
  const auto lines = reserved_beyond({promises, three_cards("r", R"("queue":"a")"),
                                      reservation("s", R"("start":"1970-01-01T00:16:40Z","end":"1970-01-01T00:33:20Z",
                                                         "amounts":[{"amount":5}],"namespaces":["n"])")},
                                     slices());
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0],
            "reservation s keeps 5 devices free, and there are 4 devices here: until it is over only jobs with "
            "--reservation s, or with a --deadline before it starts, get any");
  EXPECT_TRUE(reserved_beyond({promises}, slices()).empty());
  EXPECT_TRUE(reserved_beyond({}, slices()).empty());
}

TEST_F(JobQueuesTest, UsersAndGroupsStandInThePlaceOfNamespaces) {
  const JobQueues queues = make({queue("a", R"("namespaces":["ann"])"), queue("b", R"("namespaces":["staff"])"),
                                 queue("c", ""), queue("d", R"("namespaces":["ann","bob"])"), queue("e", ""),
                                 queue("e1", R"("parent":"e","namespaces":["eve"])")});
  const auto of = [&](const std::string& user, const std::string& wanted, int64_t uid = 1000) {
    const Owner owner{uid, uid, user, {"staff"}};
    const auto found = queues.queue_for(owner, wanted);
    return found ? *found : "no: " + found.error().message;
  };
  EXPECT_EQ(of("ann", ""), "a");
  EXPECT_EQ(of("bob", ""), "d");  // their own name before one of their groups
  EXPECT_EQ(of("fay", ""), "b");
  EXPECT_EQ(queues.queue_for({1, 1, "guest", {}}, "").value(), "unassigned");
  EXPECT_EQ(of("ann", "d"), "d");
  EXPECT_EQ(of("fay", "c"), "c");  // open to all
  EXPECT_EQ(of("fay", "unassigned"), "unassigned");
  EXPECT_EQ(of("fay", "a"), "no: queue 'a' is for ann, and fay is none of them");
  EXPECT_EQ(of("root", "a", 0), "a");
  EXPECT_THAT(of("ann", "e"), HasSubstr("has queues below it"));
  EXPECT_EQ(of("ann", "x"), "no: there is no queue 'x': write one of a, b, c, d, e1, unassigned");
}

TEST_F(JobQueuesTest, LimitsHoldAndWhatIsGuaranteedGoesFirst) {
  JobQueues queues = make({queue("a", R"("namespaces":["ann"],"quotas":[{"guaranteed":2}])"),
                           queue("b", R"("namespaces":["bob"],"quotas":[{"guaranteed":0,"limit":3}])")});
  std::vector<Job> jobs = {job(1, "bob"), job(2, "bob"), job(3, "ann"), job(4, "bob")};
  ASSERT_TRUE(queues.renew(state, cards, jobs, {}, at(10)));
  EXPECT_EQ(offers(queues, at(10)).front(), 3);  // entitled work before what borrows, though it came later
  EXPECT_EQ(start(queues, jobs[0], at(10)), std::nullopt);
  EXPECT_EQ(start(queues, jobs[1], at(10)), std::nullopt);
  EXPECT_EQ(start(queues, jobs[3], at(10)), std::nullopt);
  jobs.push_back(job(5, "bob"));
  ASSERT_TRUE(queues.add(state, cards, jobs.back(), at(11)));
  EXPECT_EQ(offers(queues, at(11)), std::vector<int64_t>{3});
  EXPECT_THAT(queues.tree().refusal(JobQueues::key_of(5), at(11))->message, HasSubstr("3"));
  EXPECT_EQ(start(queues, jobs[2], at(11)), std::nullopt);
  EXPECT_EQ(queues.tree().position(JobQueues::key_of(5), at(11)), 1U);
  queues.remove(jobs[0], at(12));
  EXPECT_EQ(offers(queues, at(12)), std::vector<int64_t>{5});
}

TEST_F(JobQueuesTest, WhatCanNeverStartIsKnownAtOnce) {
  JobQueues queues = make({queue("a", R"("quotas":[{"limit":2}])")});
  std::vector<Job> jobs = {job(1, "ann", 2, "a")};
  ASSERT_TRUE(queues.renew(state, cards, jobs, {}, at(10)));
  EXPECT_EQ(start(queues, jobs[0], at(10)), std::nullopt);
  EXPECT_EQ(queues.never(state, cards, job(2, "ann", 2, "a"), at(11)), std::nullopt);  // it only waits
  const auto never = queues.never(state, cards, job(3, "ann", 3, "a"), at(11));
  ASSERT_TRUE(never.has_value());
  EXPECT_EQ(never->code, "Limit");
}

TEST_F(JobQueuesTest, AReservationIsForWhomItNames) {
  const JobQueues queues = make({queue("a", ""), queue("b", ""), three_cards("of-a", R"("queue":"a")"),
                                 three_cards("of-staff", R"("namespaces":["staff"])"),
                                 three_cards("of-ann", R"("queue":"a","namespaces":["ann"])")});
  const auto may = [&](const std::string& user, const std::string& in, const std::string& wanted, int64_t uid = 1000) {
    const auto checked = queues.check_reservation({uid, uid, user, {"staff"}}, in, wanted);
    return checked ? std::string() : checked.error().text();
  };
  EXPECT_EQ(may("bob", "a", "of-a"), "");
  EXPECT_EQ(may("bob", "b", "of-a"),
            "--reservation: reservation 'of-a' is for queue a, and this is a job of bob in queue b");
  EXPECT_EQ(may("bob", "b", "of-staff"), "");
  EXPECT_EQ(may("ann", "a", "of-ann"), "");
  EXPECT_THAT(may("bob", "a", "of-ann"), HasSubstr("is for queue a and ann, and this is a job of bob in queue a"));
  EXPECT_EQ(may("root", "a", "of-ann", 0), "");
  EXPECT_NE(may("root", "b", "of-ann", 0), "");
  EXPECT_THAT(may("ann", "a", "x"), HasSubstr("there is no reservation 'x': write one of of-a, of-ann, of-staff"));
}

TEST_F(JobQueuesTest, AReservationIsKeptFreeForItsOwn) {
  JobQueues queues = make({three_cards("r", R"("namespaces":["ann"])")});
  std::vector<Job> jobs = {job(1, "ann", 3), job(2, "bob", 2), job(3, "bob", 2), job(4, "bob")};
  jobs[0].request.reservation = "r";
  jobs[2].request.deadline_seconds = 500;
  ASSERT_TRUE(queues.renew(state, cards, jobs, {}, at(10)));
  EXPECT_EQ(offers(queues, at(10)), (std::vector<int64_t>{3, 4})) << "two that may reach it are too many, one is not";
  EXPECT_THAT(queues.tree().refusal(JobQueues::key_of(1), at(10))->message, HasSubstr("reservation r starts at 1970"));
  EXPECT_THAT(queues.tree().refusal(JobQueues::key_of(2), at(10))->message, HasSubstr("fits with a declared runtime"));
  EXPECT_EQ(offers(queues, at(600)), std::vector<int64_t>{4}) << "it would not end in time any more";
  EXPECT_EQ(start(queues, jobs[3], at(600)), std::nullopt);
  EXPECT_EQ(offers(queues, at(1000)), std::vector<int64_t>{1});
  EXPECT_EQ(start(queues, jobs[0], at(1000)), std::nullopt);
  queues.remove(jobs[0], at(1100));
  EXPECT_TRUE(offers(queues, at(1100)).empty()) << "it lasts";
  EXPECT_EQ(offers(queues, at(2000)), std::vector<int64_t>{2}) << "it is over, and this one has waited longest";
}

TEST_F(JobQueuesTest, WhatAReservationIsTooSmallForOrWhatIsOverIsRefusedAtOnce) {
  JobQueues queues = make({three_cards("r", R"("namespaces":["ann"])")});
  ASSERT_TRUE(queues.renew(state, cards, {}, {}, at(10)));
  const auto never = [&](int64_t count, int64_t now) {
    Job one = job(1, "ann", count);
    one.request.reservation = "r";
    const auto reason = queues.never(state, cards, one, at(now));
    return reason ? reason->message : std::string();
  };
  EXPECT_EQ(never(3, 10), "");
  EXPECT_THAT(never(4, 10), HasSubstr("reservation r is for 3"));
  EXPECT_THAT(never(3, 2000), HasSubstr("reservation r ended at"));
  EXPECT_EQ(queues.never(state, cards, job(2, "bob", 4), at(1500)), std::nullopt) << "it ends one day";
}

TEST_F(JobQueuesTest, AJobWhoseReservationIsGoneRunsAsOthersDo) {
  JobQueues queues = make({queue("a", "")});
  std::vector<Job> jobs = {job(1, "ann")};
  jobs[0].request.reservation = "r";
  ASSERT_TRUE(queues.renew(state, cards, jobs, {}, at(10)));
  EXPECT_EQ(offers(queues, at(10)), std::vector<int64_t>{1});
}

TEST_F(JobQueuesTest, AShareCountsItsPartOfACard) {
  JobQueues queues = make({queue("a", R"("quotas":[{"limit":"1500m"}])")});
  std::vector<Job> jobs = {job(1, "ann", 1, "a"), job(2, "ann", 1, "a"), job(3, "ann", 1, "a")};
  for (size_t i : {1U, 2U}) jobs[i].request.memory_bytes = 40 * kGi;
  ASSERT_TRUE(queues.renew(state, cards, jobs, {}, at(10)));
  EXPECT_EQ(start(queues, jobs[0], at(10)), std::nullopt);
  EXPECT_EQ(start(queues, jobs[1], at(10)), std::nullopt);
  EXPECT_NE(start(queues, jobs[2], at(10)), std::nullopt);
}

TEST_F(JobQueuesTest, FairShareRemembersThePastOverARestart) {
  const std::vector<std::string> objects = {queue("a", R"("namespaces":["ann"])"),
                                            queue("b", R"("namespaces":["bob"])")};
  JobQueues before = make(objects);
  std::vector<Job> jobs = {job(1, "ann", 4)};
  ASSERT_TRUE(before.renew(state, cards, jobs, {}, at(10)));
  EXPECT_EQ(start(before, jobs[0], at(10)), std::nullopt);
  before.remove(jobs[0], at(1010));
  state.remove_claim(jobs[0].uid);
  const auto past = before.past(at(1010));
  EXPECT_GT(past.at("a").milli_device_seconds, 3'900'000);
  EXPECT_EQ(past.at("b").milli_device_seconds, 0);

  jobs = {job(2, "ann"), job(3, "bob")};
  for (Job& one : jobs) one.submitted = at(1010 + one.id - 2);
  JobQueues fresh = make(objects);
  ASSERT_TRUE(fresh.renew(state, cards, jobs, {}, at(1011)));
  EXPECT_EQ(offers(fresh, at(1011)), (std::vector<int64_t>{2, 3}));
  JobQueues after = make(objects);
  ASSERT_TRUE(after.renew(state, cards, jobs, past, at(1011)));
  EXPECT_EQ(offers(after, at(1011)), (std::vector<int64_t>{3, 2}));
}

TEST_F(JobQueuesTest, ARestartTakesUpWhatRunsAndQueuesThatAreGoneHoldNothing) {
  JobQueues queues = make({queue("a", R"("quotas":[{"limit":1}])")});
  std::vector<Job> jobs = {job(1, "ann", 1, "a"), job(2, "ann", 1, "a")};
  ASSERT_TRUE(queues.renew(state, cards, jobs, {}, at(10)));
  EXPECT_EQ(start(queues, jobs[0], at(10)), std::nullopt);
  JobQueues again = make({queue("a", R"("quotas":[{"limit":1}])")});
  ASSERT_TRUE(again.renew(state, cards, jobs, {}, at(20)));
  EXPECT_EQ(again.tree().active("a"), 1U);
  EXPECT_TRUE(offers(again, at(20)).empty());
  JobQueues other = make({queue("b", "")});
  ASSERT_TRUE(other.renew(state, cards, jobs, {{"a", {at(19), 5}}}, at(20)));
  EXPECT_EQ(other.queue_of(jobs[1]), "unassigned");
  EXPECT_EQ(offers(other, at(20)), std::vector<int64_t>{2});
}

TEST_F(JobQueuesTest, AWaitingJobThatStarvesHoldsBackWhatIsBehindIt) {
  JobQueues queues = make({queue("a", "")});
  std::vector<Job> jobs = {job(1, "ann", 4, "a"), job(2, "ann", 1, "a")};
  ASSERT_TRUE(queues.renew(state, cards, jobs, {}, at(10)));
  EXPECT_EQ(offers(queues, at(10)), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(offers(queues, at(700)), std::vector<int64_t>{1});
}

TEST_F(JobQueuesTest, OtherCardsMakeTheTreeAnew) {
  JobQueues queues = make({queue("a", "")});
  ASSERT_TRUE(queues.renew(state, cards, {}, {}, at(10)));
  EXPECT_FALSE(queues.stale(state));
  set_cards(2);
  EXPECT_TRUE(queues.stale(state));
}

TEST_F(JobQueuesTest, TimeNeverGoesBack) {
  JobQueues queues = make({queue("a", "")});
  EXPECT_EQ(queues.at_least(at(10)), at(10));
  EXPECT_EQ(queues.at_least(at(5)), at(10));
}

}  // namespace
}  // namespace heddle::standalone
