// The watches against an API server that answers from a table: what is served, what may be read, and when all is in.
#include "controller/watches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace heddle::controller {
namespace {

using Json = nlohmann::json;

constexpr const char* kPodGroupPath = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups";
constexpr const char* kPodGroups = "scheduling.x-k8s.io/PodGroup";

// Requests are answered at once; a watch lists nothing until the test says so.
class TableClient final : public kube::Client {
 public:
  void send(kube::Request request, kube::Callback done) override { done(call(std::move(request))); }
  Result<kube::Response> call(kube::Request request) override {
    ++asked[request.path];
    if (const auto broken = errors.find(request.path); broken != errors.end())
      return tl::unexpected<Error>(broken->second);
    const auto it = answers.find(request.path);
    if (it == answers.end()) return fail(Code::kNotFound, "the server could not find the requested resource");
    return kube::Response{200, it->second};
  }
  std::unique_ptr<kube::Watch> watch(kube::WatchOptions options, kube::WatchSink& sink) override {
    class Open final : public kube::Watch {
     public:
      Open(std::map<std::string, kube::WatchSink*>& sinks, std::string path) : sinks_(sinks), path_(std::move(path)) {}
      ~Open() override { sinks_.erase(path_); }

     private:
      std::map<std::string, kube::WatchSink*>& sinks_;
      std::string path_;
    };
    sinks[options.path] = &sink;
    return std::make_unique<Open>(sinks, options.path);
  }
  [[nodiscard]] kube::ClientStats stats() const override { return {}; }

  // As a group that is served in these versions, the preferred one first, each with this kind.
  void serve(const std::string& group, const std::vector<std::string>& versions, const std::string& kind,
             const std::string& plural) {
    Json list = Json::array();
    for (const std::string& version : versions) {
      const std::string group_version = group + "/" + version;
      list.push_back({{"groupVersion", group_version}, {"version", version}});
      answers["/apis/" + group_version] =
          Json{{"resources",
                Json::array({{{"name", plural}, {"kind", kind}}, {{"name", plural + "/status"}, {"kind", kind}}})}}
              .dump();
      answers["/apis/" + group_version + "/" + plural + "?limit=1"] = R"({"items":[]})";
    }
    answers["/apis/" + group] = Json{{"versions", list}}.dump();
  }

  std::map<std::string, std::string> answers;
  std::map<std::string, Error> errors;
  std::map<std::string, int> asked;
  std::map<std::string, kube::WatchSink*> sinks;
};

class WatchesTest : public ::testing::Test {
 protected:
  WatchesTest()
      : watches(client, queue, clock, log, [this](std::set<std::string> kinds) { told.push_back(std::move(kinds)); }) {}

  // As the owner thread does: tasks run, objects are remembered.
  void drain() {
    for (std::vector<Event> events = queue.pop(0); !events.empty(); events = queue.pop(0)) {
      for (Event& event : events) {
        if (auto* task = std::get_if<TaskEvent>(&event)) task->task();
        if (auto* object = std::get_if<ObjectEvent>(&event)) objects.push_back(std::move(*object));
      }
    }
  }
  void start() {
    watches.start([this] { ++synced; });
    drain();
  }
  void list_all_but(const std::string& path) {
    const auto sinks = client.sinks;
    for (const auto& [name, sink] : sinks) {
      if (name != path) sink->replace({});
    }
    drain();
  }
  static std::string group_object(const std::string& name, int minimum) {
    return Json{{"metadata", {{"name", name}, {"namespace", "d"}, {"uid", "u-" + name}}},
                {"spec", {{"minMember", minimum}}}}
        .dump();
  }

  ManualClock clock{Time{1'800'000'000'000'000'000}};
  Logger log{"test", LogLevel::kError, clock};
  TableClient client;
  EventQueue queue;
  std::vector<std::set<std::string>> told;
  std::vector<ObjectEvent> objects;
  int synced = 0;
  Watches watches;
};

TEST_F(WatchesTest, AClusterWithoutSuchKindsIsInStepWithItsOwnObjects) {
  start();
  EXPECT_EQ(client.sinks.size(), kObjectKinds);
  EXPECT_FALSE(watches.synced());
  list_all_but({});
  EXPECT_TRUE(watches.synced());
  EXPECT_EQ(synced, 1);
  EXPECT_EQ(told, std::vector<std::set<std::string>>{{}});
  EXPECT_EQ(client.asked["/apis/scheduling.x-k8s.io"], 1);
}

TEST_F(WatchesTest, NothingIsInStepBeforeTheObjectsOfGangsAreListed) {
  client.serve("scheduling.x-k8s.io", {"v1alpha1"}, "PodGroup", "podgroups");
  start();
  ASSERT_TRUE(client.sinks.contains(kPodGroupPath));
  EXPECT_EQ(told, (std::vector<std::set<std::string>>{{kPodGroups}}));
  list_all_but(kPodGroupPath);
  EXPECT_FALSE(watches.synced());
  // A list's items do not say what they are.
  const std::string group = group_object("g", 4);
  client.sinks[kPodGroupPath]->replace({group});
  drain();
  EXPECT_EQ(synced, 1);
  ASSERT_EQ(objects.size(), 1U);
  EXPECT_EQ(objects[0].key, "scheduling.x-k8s.io/PodGroup d/g");
  EXPECT_EQ(std::get<GangObject>(std::get<Object>(objects[0].what)).minimum, 4);
  client.sinks[kPodGroupPath]->deleted(group);
  drain();
  EXPECT_EQ(objects.back().key, "scheduling.x-k8s.io/PodGroup d/g");
  EXPECT_EQ(std::get<Removed>(objects.back().what).uid, "u-g");
}

TEST_F(WatchesTest, AListThatFailsHoldsUpNothingButItsGangs) {
  client.serve("scheduling.x-k8s.io", {"v1alpha1"}, "PodGroup", "podgroups");
  client.errors[std::string(kPodGroupPath) + "?limit=1"] = Error{Code::kUnavailable, "conversion webhook", {}};
  start();
  list_all_but(kPodGroupPath);
  EXPECT_FALSE(watches.synced());
  client.sinks.at(kPodGroupPath)->status("list fails");
  drain();
  EXPECT_TRUE(watches.synced());
  EXPECT_EQ(told.back(), std::set<std::string>{kPodGroups});
}

TEST_F(WatchesTest, WhatMayNotBeReadCountsAsNotServed) {
  client.serve("jobset.x-k8s.io", {"v1alpha2"}, "JobSet", "jobsets");
  client.errors["/apis/jobset.x-k8s.io/v1alpha2/jobsets?limit=1"] = Error{Code::kPermissionDenied, "forbidden", {}};
  start();
  EXPECT_EQ(client.sinks.size(), kObjectKinds);
  list_all_but({});
  EXPECT_TRUE(watches.synced());
  EXPECT_EQ(told.back(), std::set<std::string>{});
}

TEST_F(WatchesTest, EveryJobOfKubeflowInTheVersionThatIsPreferred) {
  client.serve("kubeflow.org", {"v2beta1", "v1"}, "MPIJob", "mpijobs");
  Json both = Json::parse(client.answers["/apis/kubeflow.org/v1"]);
  both["resources"].push_back({{"name", "pytorchjobs"}, {"kind", "PyTorchJob"}});
  both["resources"].push_back({{"name", "notebooks"}, {"kind", "Notebook"}});
  client.answers["/apis/kubeflow.org/v1"] = both.dump();
  client.answers["/apis/kubeflow.org/v1/pytorchjobs?limit=1"] = R"({"items":[]})";
  start();
  EXPECT_TRUE(client.sinks.contains("/apis/kubeflow.org/v2beta1/mpijobs"));
  EXPECT_TRUE(client.sinks.contains("/apis/kubeflow.org/v1/pytorchjobs"));
  EXPECT_EQ(client.sinks.size(), kObjectKinds + 2);
  EXPECT_EQ(told.back(), (std::set<std::string>{"kubeflow.org/MPIJob", "kubeflow.org/PyTorchJob"}));
}

TEST_F(WatchesTest, AKindThatComesIsWatchedAndOneThatGoesTakesItsObjectsAlong) {
  start();
  list_all_but({});
  client.serve("scheduling.x-k8s.io", {"v1alpha1"}, "PodGroup", "podgroups");
  watches.look_if_due();
  drain();
  EXPECT_FALSE(client.sinks.contains(kPodGroupPath));
  clock.advance(Watches::kLookInterval);
  watches.look_if_due();
  drain();
  ASSERT_TRUE(client.sinks.contains(kPodGroupPath));
  EXPECT_TRUE(watches.synced());
  client.sinks[kPodGroupPath]->replace({group_object("g", 4)});
  client.answers.clear();
  clock.advance(Watches::kLookInterval);
  watches.look_if_due();
  drain();
  EXPECT_FALSE(client.sinks.contains(kPodGroupPath));
  EXPECT_EQ(told.back(), std::set<std::string>{});
  EXPECT_TRUE(std::holds_alternative<Removed>(objects.back().what));
}

TEST_F(WatchesTest, ItAsksAtOnceForAGangOfAKindThatIsNotSeenYetAndNotTooOften) {
  EXPECT_FALSE(watches.look_now()) << "nothing has started";
  start();
  list_all_but({});
  client.serve("scheduling.x-k8s.io", {"v1alpha1"}, "PodGroup", "podgroups");
  EXPECT_FALSE(watches.look_now());
  clock.advance(Watches::kLookAgain);
  EXPECT_TRUE(watches.look_now());
  EXPECT_FALSE(watches.look_now()) << "it is being asked";
  drain();
  EXPECT_TRUE(client.sinks.contains(kPodGroupPath));
  EXPECT_EQ(told.back(), std::set<std::string>{kPodGroups});
}

TEST_F(WatchesTest, WithoutAnAnswerItAsksAgainAndIsNotInStep) {
  client.errors["/apis/jobset.x-k8s.io"] = Error{Code::kUnavailable, "no connection", {}};
  start();
  list_all_but({});
  EXPECT_FALSE(watches.synced());
  client.errors.clear();
  watches.look_if_due();
  drain();
  EXPECT_FALSE(watches.synced());
  clock.advance(Watches::kLookAgain);
  watches.look_if_due();
  drain();
  EXPECT_TRUE(watches.synced());
}

TEST_F(WatchesTest, ANewStartListsTheObjectsOfGangsAnew) {
  client.serve("scheduling.x-k8s.io", {"v1alpha1"}, "PodGroup", "podgroups");
  start();
  client.sinks[kPodGroupPath]->replace({group_object("g", 4)});
  list_all_but(kPodGroupPath);
  EXPECT_EQ(synced, 1);
  start();
  list_all_but(kPodGroupPath);
  EXPECT_FALSE(watches.synced());
  objects.clear();
  client.sinks[kPodGroupPath]->replace({});  // it went in between
  drain();
  EXPECT_EQ(synced, 2);
  ASSERT_EQ(objects.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<Removed>(objects[0].what));
}

}  // namespace
}  // namespace heddle::controller
