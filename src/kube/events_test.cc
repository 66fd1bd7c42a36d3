#include "kube/events.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace heddle::kube {
namespace {

// Keeps every request until the test answers it.
class HeldClient final : public Client {
 public:
  void send(Request request, Callback done) override { held.emplace_back(std::move(request), std::move(done)); }
  Result<Response> call(Request) override { return fail(Code::kInternal, "not used"); }
  std::unique_ptr<Watch> watch(WatchOptions, WatchSink&) override { return nullptr; }
  [[nodiscard]] ClientStats stats() const override { return {}; }

  // Takes the oldest request; a following one of the recorder goes to the end.
  Request answer(Result<Response> result = Response{200, "{}"}) {
    auto [request, done] = std::move(held.at(0));
    held.erase(held.begin());
    done(std::move(result));
    return request;
  }
  std::vector<std::pair<Request, Callback>> held;
};

class EventsTest : public ::testing::Test {
 protected:
  std::unique_ptr<EventRecorder> recorder(EventOptions options = {}) {
    options.component = "heddle-test";
    options.instance = "host-1";
    return EventRecorder::create(options, client_, clock_, log_);
  }
  static ObjectReference pod(const std::string& name) { return {"v1", "Pod", "ns", name, "uid-" + name}; }
  static int64_t count_of(const Request& request) { return nlohmann::json::parse(request.body)["count"]; }

  ManualClock clock_{Time{1'800'000'000'000'000'000}};
  Logger log_{"test", LogLevel::kError, clock_};
  HeldClient client_;
};

TEST_F(EventsTest, TheObjectThatIsCreated) {
  const auto events = recorder();
  events->record(pod("p"), EventSeverity::kWarning, "HeddleWaiting", "no card is free");
  ASSERT_EQ(client_.held.size(), 1U);
  const Request request = client_.answer();
  EXPECT_EQ(request.method, Method::kPost);
  EXPECT_EQ(request.path, "/api/v1/namespaces/ns/events");
  const auto body = nlohmann::json::parse(request.body);
  EXPECT_EQ(body["kind"], "Event");
  EXPECT_EQ(body["metadata"]["namespace"], "ns");
  EXPECT_TRUE(body["metadata"]["name"].get<std::string>().starts_with("p."));
  EXPECT_EQ(body["involvedObject"]["uid"], "uid-p");
  EXPECT_EQ(body["involvedObject"]["kind"], "Pod");
  EXPECT_EQ(body["type"], "Warning");
  EXPECT_EQ(body["reason"], "HeddleWaiting");
  EXPECT_EQ(body["message"], "no card is free");
  EXPECT_EQ(body["count"], 1);
  EXPECT_EQ(body["firstTimestamp"], "2027-01-15T08:00:00Z");
  EXPECT_EQ(body["source"]["component"], "heddle-test");
}

TEST_F(EventsTest, RepetitionsRaiseTheCountTogether) {
  const auto events = recorder();
  for (int i = 0; i < 100; ++i) events->record(pod("p"), EventSeverity::kNormal, "R", "same");
  ASSERT_EQ(client_.held.size(), 1U);  // the others wait for its answer
  const Request created = client_.answer();
  EXPECT_EQ(count_of(created), 1);
  ASSERT_EQ(client_.held.size(), 1U);
  const Request patched = client_.answer();
  EXPECT_EQ(patched.method, Method::kPatch);
  EXPECT_EQ(patched.content_type, kMergePatch);
  EXPECT_EQ(patched.path, "/api/v1/namespaces/ns/events/" +
                              nlohmann::json::parse(created.body)["metadata"]["name"].get<std::string>());
  EXPECT_EQ(count_of(patched), 100);
  EXPECT_TRUE(client_.held.empty());
  events->record(pod("p"), EventSeverity::kNormal, "R", "another");
  events->record(pod("q"), EventSeverity::kNormal, "R", "same");
  EXPECT_EQ(client_.held.size(), 2U);
}

TEST_F(EventsTest, AnExpiredEventIsMadeAnew) {
  const auto events = recorder();
  events->record(pod("p"), EventSeverity::kNormal, "R", "m");
  std::ignore = client_.answer();
  events->record(pod("p"), EventSeverity::kNormal, "R", "m");
  EXPECT_EQ(client_.answer(fail(Code::kNotFound, "gone")).method, Method::kPatch);
  ASSERT_EQ(client_.held.size(), 1U);
  const Request again = client_.answer();
  EXPECT_EQ(again.method, Method::kPost);
  EXPECT_EQ(count_of(again), 2);
  EXPECT_TRUE(client_.held.empty());
}

TEST_F(EventsTest, AFailedWriteIsNotRepeatedByItself) {
  const auto events = recorder();
  events->record(pod("p"), EventSeverity::kNormal, "R", "m");
  std::ignore = client_.answer(fail(Code::kPermissionDenied, "forbidden"));
  EXPECT_TRUE(client_.held.empty());
  events->record(pod("p"), EventSeverity::kNormal, "R", "m");
  ASSERT_EQ(client_.held.size(), 1U);
  EXPECT_EQ(client_.held[0].first.method, Method::kPost);
}

TEST_F(EventsTest, EachObjectHasABudget) {
  EventOptions options;
  options.burst = 3;
  options.refill_period = Duration::seconds(60);
  const auto events = recorder(options);
  for (int i = 0; i < 10; ++i) events->record(pod("noisy"), EventSeverity::kNormal, "R", "m" + std::to_string(i));
  EXPECT_EQ(client_.held.size(), 3U);
  events->record(pod("quiet"), EventSeverity::kNormal, "R", "m");
  EXPECT_EQ(client_.held.size(), 4U);
  while (!client_.held.empty()) std::ignore = client_.answer();
  clock_.advance(Duration::seconds(61));
  events->record(pod("noisy"), EventSeverity::kNormal, "R", "m9");
  ASSERT_EQ(client_.held.size(), 1U);
  EXPECT_EQ(count_of(client_.answer()), 2);  // the one that was held back is counted
}

TEST_F(EventsTest, MemoryIsBounded) {
  EventOptions options;
  options.max_entries = 10;
  const auto events = recorder(options);
  for (int i = 0; i < 100; ++i) events->record(pod("p" + std::to_string(i)), EventSeverity::kNormal, "R", "m");
  EXPECT_EQ(client_.held.size(), 100U);
  while (!client_.held.empty()) std::ignore = client_.answer();
  events->record(pod("p0"), EventSeverity::kNormal, "R", "m");  // forgotten: a new Event
  EXPECT_EQ(client_.held.at(0).first.method, Method::kPost);
  events->record(pod("p99"), EventSeverity::kNormal, "R", "m");
  EXPECT_EQ(client_.held.at(1).first.method, Method::kPatch);
}

TEST_F(EventsTest, LongMessagesAreCutBetweenCharacters) {
  const auto events = recorder();
  events->record({"v1", "Node", "", "n", "u"}, EventSeverity::kNormal, "R", std::string(1023, 'x') + "\xc3\xa9");
  const Request request = client_.answer();
  EXPECT_EQ(request.path, "/api/v1/namespaces/default/events");
  EXPECT_EQ(nlohmann::json::parse(request.body)["message"], std::string(1023, 'x'));
}

TEST_F(EventsTest, AnswersAfterTheRecorderIsGone) {
  auto events = recorder();
  events->record(pod("p"), EventSeverity::kNormal, "R", "m");
  events->record(pod("p"), EventSeverity::kNormal, "R", "m");
  events.reset();
  std::ignore = client_.answer();
  EXPECT_TRUE(client_.held.empty());
}

}  // namespace
}  // namespace heddle::kube
