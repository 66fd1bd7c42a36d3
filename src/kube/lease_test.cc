#include "kube/lease.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kube/http_server.h"
#include "kube/testing.h"

namespace heddle::kube {
namespace {

using testing::Watched;

// The Lease part of an API server: one object, optimistic concurrency.
struct Store {
  std::optional<nlohmann::json> lease;
  int version = 0;
  int writes = 0;
  bool broken = false;

  static HttpResponse status(int code, const char* reason) {
    const nlohmann::json body = {{"kind", "Status"}, {"code", code}, {"reason", reason}, {"message", reason}};
    return {code, "application/json", body.dump(), {}};
  }
  HttpResponse save(nlohmann::json object, int code) {
    object["metadata"]["resourceVersion"] = std::to_string(++version);
    lease = object;
    ++writes;
    return {code, "application/json", object.dump(), {}};
  }
  HttpResponse handle(const HttpRequest& request) {
    if (broken) return status(500, "InternalError");
    if (request.method == "GET") {
      if (!lease) return status(404, "NotFound");
      return {200, "application/json", lease->dump(), {}};
    }
    const auto object = nlohmann::json::parse(request.body);
    if (request.method == "POST") return lease ? status(409, "AlreadyExists") : save(object, 201);
    if (!lease) return status(404, "NotFound");
    if (object["metadata"]["resourceVersion"] != (*lease)["metadata"]["resourceVersion"])
      return status(409, "Conflict");
    return save(object, 200);
  }
};

// A clock that others may stop: what a process sees after SIGSTOP, put in a test's hand.
class ShiftedClock final : public Clock {
 public:
  [[nodiscard]] Time now() const override { return real_.now(); }
  [[nodiscard]] int64_t monotonic_nanos() const override { return real_.monotonic_nanos() + shift_; }
  void jump(Duration duration) { shift_ += duration.nanos; }

 private:
  SystemClock real_;
  std::atomic<int64_t> shift_{0};
};

class LeaseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HttpServerOptions options;
    server_ = std::move(*HttpServer::start(
        options,
        [this](const HttpRequest& request) {
          HttpResponse response;
          store_.change([&](Store& store) { response = store.handle(request); });
          return response;
        },
        log_));
    Config config;
    config.server = "http://127.0.0.1:" + std::to_string(server_->port());
    client_ = std::move(*Client::create(config, {}, clock_, log_));
  }

  static LeaseOptions options(const std::string& identity) {
    LeaseOptions options;
    options.name_space = "ns";
    options.identity = identity;
    options.lease_duration = Duration::millis(900);
    options.renew_deadline = Duration::millis(600);
    options.retry_period = Duration::millis(50);
    options.write_timeout = Duration::millis(100);
    return options;
  }

  struct Candidate {
    Watched<std::vector<bool>> changes;
    std::unique_ptr<LeaderLease> lease;
    [[nodiscard]] bool wait_for(const std::vector<bool>& wanted) {
      return changes.wait([&](const std::vector<bool>& now) { return now == wanted; });
    }
  };
  void start(Candidate& candidate, const std::string& identity, const Clock& clock) {
    candidate.lease = LeaderLease::start(options(identity), *client_, clock, log_, [&candidate](bool leads) {
      candidate.changes.change([&](std::vector<bool>& now) { now.push_back(leads); });
    });
  }

  SystemClock clock_;
  Logger log_{"test", LogLevel::kError, clock_};
  Watched<Store> store_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<Client> client_;
};

TEST_F(LeaseTest, LeadsRenewsAndGivesBack) {
  Candidate a;
  start(a, "a", clock_);
  ASSERT_TRUE(a.wait_for({true}));
  EXPECT_TRUE(a.lease->is_leader());
  ASSERT_TRUE(store_.wait([](const Store& store) { return store.writes >= 4; }));
  EXPECT_TRUE(a.lease->is_leader());
  a.lease.reset();
  EXPECT_TRUE(a.wait_for({true, false}));
  const Store store = store_.get();
  EXPECT_EQ((*store.lease)["spec"]["holderIdentity"], "");
  // MicroTime, as the API demands.
  const std::string renewed = (*store.lease)["spec"]["renewTime"];
  EXPECT_EQ(renewed.size(), std::string("2026-11-29T18:00:00.000000Z").size()) << renewed;
}

TEST_F(LeaseTest, TheSecondTakesOverWhenTheFirstIsGone) {
  Candidate a;
  Candidate b;
  start(a, "a", clock_);
  ASSERT_TRUE(a.wait_for({true}));
  start(b, "b", clock_);
  ASSERT_TRUE(store_.wait([](const Store& store) { return store.writes >= 5; }));
  EXPECT_FALSE(b.lease->is_leader());
  a.lease.reset();
  ASSERT_TRUE(b.wait_for({true}));
  EXPECT_EQ((*store_.get().lease)["spec"]["leaseTransitions"], 1);
}

TEST_F(LeaseTest, AStoppedProcessSeesAtOnceThatItsTimeIsOver) {
  ShiftedClock stopped;
  Candidate a;
  start(a, "a", stopped);
  ASSERT_TRUE(a.wait_for({true}));
  // Before any thread of it runs again, the clock has moved on. (It cannot renew in between: the server is broken
  // first.)
  store_.change([](Store& store) { store.broken = true; });
  stopped.jump(Duration::seconds(60));
  EXPECT_FALSE(a.lease->is_leader());
  EXPECT_TRUE(a.wait_for({true, false}));
  store_.change([](Store& store) { store.broken = false; });
  EXPECT_TRUE(a.wait_for({true, false, true}));  // nobody else took it
}

TEST_F(LeaseTest, SurvivesAServerInTrouble) {
  store_.change([](Store& store) { store.broken = true; });
  Candidate a;
  start(a, "a", clock_);
  store_.change([](Store& store) { store.broken = false; });
  ASSERT_TRUE(a.wait_for({true}));
  store_.change([](Store& store) { store.lease.reset(); });  // deleted by somebody
  EXPECT_TRUE(store_.wait([](const Store& store) { return store.lease.has_value(); }));
}

}  // namespace
}  // namespace heddle::kube
