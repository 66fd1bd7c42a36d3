#include "kube/client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "base/file.h"
#include "base/temporary_folder.h"
#include "kube/http_server.h"
#include "kube/testing.h"

namespace heddle::kube {
namespace {

using testing::RawConnection;
using testing::RawServer;
using testing::Watched;

class ClientTest : public ::testing::Test {
 protected:
  std::unique_ptr<Client> connect(const std::string& server, Client::Limits limits = {}) {
    Config config;
    config.server = server;
    config.token = "secret";
    return connect(config, limits);
  }
  std::unique_ptr<Client> connect(const Config& config, Client::Limits limits = {}) {
    auto client = Client::create(config, limits, clock_, log_);
    EXPECT_TRUE(client) << client.error().text();
    return std::move(*client);
  }
  std::unique_ptr<HttpServer> serve(HttpHandler handler) {
    HttpServerOptions options;
    options.threads = 2;
    auto server = HttpServer::start(options, std::move(handler), log_);
    EXPECT_TRUE(server) << server.error().text();
    return std::move(*server);
  }
  static std::string url(const HttpServer& server) { return "http://127.0.0.1:" + std::to_string(server.port()); }
  static Request get(const std::string& path) {
    Request request;
    request.path = path;
    return request;
  }

  SystemClock clock_;
  Logger log_{"test", LogLevel::kError, clock_};
};

TEST_F(ClientTest, SendsMethodBodyAndHeaders) {
  Watched<HttpRequest> last;
  const auto server = serve([&](const HttpRequest& request) {
    last.change([&](HttpRequest& seen) { seen = request; });
    return HttpResponse{201, "application/json", "{\"ok\":1}", {}};
  });
  const auto client = connect(url(*server));
  struct Case {
    Method method;
    std::string body;
    const char* name;
  };
  const Case cases[] = {{Method::kGet, "", "GET"},          {Method::kPost, "{}", "POST"},
                        {Method::kPut, "{\"a\":1}", "PUT"}, {Method::kPatch, "[]", "PATCH"},
                        {Method::kDelete, "", "DELETE"},    {Method::kDelete, "{}", "DELETE"},
                        {Method::kPost, "", "POST"},        {Method::kGet, "", "GET"}};
  for (const Case& now : cases) {
    SCOPED_TRACE(now.name);
    Request request;
    request.method = now.method;
    request.path = "/api/v1/pods?limit=5&x=a%20b";
    request.body = now.body;
    request.content_type = std::string(kMergePatch);
    const auto answer = client->call(request);
    ASSERT_TRUE(answer) << answer.error().text();
    EXPECT_EQ(answer->status, 201);
    EXPECT_EQ(answer->body, "{\"ok\":1}");
    const HttpRequest seen = last.get();
    EXPECT_EQ(seen.method, now.name);
    EXPECT_EQ(seen.path, "/api/v1/pods");
    EXPECT_EQ(seen.query.at("x"), "a b");
    EXPECT_EQ(seen.body, now.body);
    EXPECT_EQ(seen.headers.at("authorization"), "Bearer secret");
    EXPECT_EQ(seen.headers.at("accept"), "application/json");
    EXPECT_TRUE(seen.headers.at("user-agent").starts_with("heddle/"));
    EXPECT_EQ(seen.headers.count("expect"), 0U);
    if (!now.body.empty()) {
      EXPECT_EQ(seen.headers.at("content-type"), kMergePatch);
    }
  }
  EXPECT_EQ(client->stats().requests, std::size(cases));
  EXPECT_EQ(client->stats().in_flight, 0U);
}

struct StatusCase {
  int http;
  const char* reason;
  Code code;
};

TEST_F(ClientTest, MapsAnswersToCodes) {
  const StatusCase cases[] = {
      {400, "BadRequest", Code::kInvalidArgument},
      {401, "Unauthorized", Code::kPermissionDenied},
      {403, "Forbidden", Code::kPermissionDenied},
      {404, "NotFound", Code::kNotFound},
      {409, "AlreadyExists", Code::kAlreadyExists},
      {409, "Conflict", Code::kConflict},
      {410, "Expired", Code::kGone},
      {413, "RequestEntityTooLarge", Code::kInvalidArgument},
      {422, "Invalid", Code::kInvalidArgument},
      {429, "TooManyRequests", Code::kUnavailable},
      {500, "InternalError", Code::kUnavailable},
      {503, "ServiceUnavailable", Code::kUnavailable},
      {504, "Timeout", Code::kDeadlineExceeded},
      {302, "Found", Code::kInternal},
  };
  const auto server = serve([&](const HttpRequest& request) {
    const StatusCase& now = cases[std::stoul(request.query.at("i"))];
    return HttpResponse{
        now.http,
        "application/json",
        fmt::format(R"({{"kind":"Status","status":"Failure","message":"why {}","reason":"{}","code":{}}})", now.http,
                    now.reason, now.http),
        {{"Location", "/elsewhere"}}};
  });
  const auto client = connect(url(*server));
  for (size_t i = 0; i < std::size(cases); ++i) {
    SCOPED_TRACE(cases[i].http);
    const auto answer = client->call(get("/x?i=" + std::to_string(i)));
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, cases[i].code);
    EXPECT_EQ(answer.error().message, fmt::format("why {}", cases[i].http));
  }
  EXPECT_EQ(client->stats().failures, std::size(cases));
}

TEST_F(ClientTest, AnAnswerThatIsNoStatusKeepsItsText) {
  const auto server = serve([](const HttpRequest&) { return HttpResponse{502, "text/html", "<bad\ngateway>", {}}; });
  const auto answer = connect(url(*server))->call(get("/x"));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
  EXPECT_EQ(answer.error().message, "GET /x: HTTP 502: <bad gateway>");
}

TEST_F(ClientTest, RetriesWhatTheServerDefers) {
  std::atomic<int> calls{0};
  const auto server = serve([&](const HttpRequest&) {
    if (++calls <= 2) return HttpResponse{calls == 1 ? 429 : 503, "application/json", "{}", {{"Retry-After", "0"}}};
    return HttpResponse{200, "application/json", "done", {}};
  });
  const auto client = connect(url(*server));
  const auto answer = client->call(get("/x"));
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_EQ(answer->body, "done");
  EXPECT_EQ(calls, 3);
}

TEST_F(ClientTest, DoesNotWaitLongerThanTheDeadlineForARetry) {
  std::atomic<int> calls{0};
  const auto server = serve([&](const HttpRequest&) {
    ++calls;
    return HttpResponse{429, "application/json", "{}", {{"Retry-After", "3600"}}};
  });
  const auto answer = connect(url(*server))->call(get("/x"));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
  EXPECT_EQ(calls, 1);
}

TEST_F(ClientTest, NoServerIsUnavailable) {
  auto client = connect("http://127.0.0.1:1");
  const auto answer = client->call(get("/x"));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
}

TEST_F(ClientTest, ASilentServerIsADeadline) {
  RawServer server([](RawConnection& connection) { connection.wait_for_close(); });
  Request request = get("/x");
  request.timeout = Duration::millis(50);
  const auto answer = connect(server.url())->call(request);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kDeadlineExceeded);
}

TEST_F(ClientTest, ABodyCutShortIsUnavailable) {
  RawServer server([](RawConnection& connection) {
    connection.read_request();
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
  });
  const auto answer = connect(server.url())->call(get("/x"));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
}

TEST_F(ClientTest, KeepsConnections) {
  RawServer server([](RawConnection& connection) {
    while (!connection.read_request().empty()) connection.reply(200, "{}");
  });
  const auto client = connect(server.url());
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(client->call(get("/x")));
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(ClientTest, HoldsToItsLimitOfRequestsInFlight) {
  struct State {
    int running = 0;
    int most = 0;
    bool go = false;
  };
  Watched<State> state;
  RawServer server([&](RawConnection& connection) {
    for (std::string request = connection.read_request(); !request.empty(); request = connection.read_request()) {
      if (request.find("/probe") == std::string::npos) {
        state.change([](State& now) { now.most = std::max(now.most, ++now.running); });
        std::ignore = state.wait([](const State& now) { return now.go; });
        state.change([](State& now) { --now.running; });
      }
      connection.reply(200, "{}");
    }
  });
  Client::Limits limits;
  limits.max_in_flight = 3;
  const auto client = connect(server.url(), limits);
  Watched<int> done(0);
  for (int i = 0; i < 9; ++i) {
    client->send(get("/x"), [&](const Result<Response>& answer) {
      EXPECT_TRUE(answer);
      done.change([](int& now) { ++now; });
    });
  }
  ASSERT_TRUE(state.wait([](const State& now) { return now.running == 3; }));
  Request probe = get("/probe");
  probe.lane = Lane::kUrgent;
  ASSERT_TRUE(client->call(probe));  // all that was sent before has been looked at
  EXPECT_EQ(client->stats().queued, 6U);
  EXPECT_EQ(client->stats().in_flight, 3U);
  state.change([](State& now) { now.go = true; });
  ASSERT_TRUE(done.wait([](int now) { return now == 9; }));
  EXPECT_EQ(state.get().most, 3);
}

TEST_F(ClientTest, TheUrgentLanePassesTheLimits) {
  const auto server = serve([](const HttpRequest&) { return HttpResponse{}; });
  Client::Limits limits;
  limits.qps = 0.001;
  limits.burst = 1;
  Watched<std::string> ended;  // outlives the client, which ends what is held
  const auto client = connect(url(*server), limits);
  ASSERT_TRUE(client->call(get("/first")));
  Request held = get("/held");
  held.timeout = Duration::seconds(3600);
  client->send(held, [&](const Result<Response>& answer) {
    ended.change([&](std::string& text) { text = answer ? "sent" : answer.error().message; });
  });
  Request urgent = get("/urgent");
  urgent.lane = Lane::kUrgent;
  EXPECT_TRUE(client->call(urgent));
  EXPECT_EQ(client->stats().queued, 1U);
  Request late = get("/late");
  late.timeout = Duration::millis(20);
  const auto answer = client->call(late);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
  EXPECT_NE(answer.error().message.find("not sent"), std::string::npos);
  EXPECT_EQ(ended.get(), "");
}

TEST_F(ClientTest, ABurstIsPacedByTheRate) {
  const auto server = serve([](const HttpRequest&) { return HttpResponse{}; });
  Client::Limits limits;
  limits.qps = 200;
  limits.burst = 2;
  const auto client = connect(url(*server), limits);
  const int64_t start = clock_.monotonic_nanos();
  Watched<int> done(0);
  for (int i = 0; i < 12; ++i) {
    client->send(get("/x"), [&](const Result<Response>& answer) {
      EXPECT_TRUE(answer);
      done.change([](int& now) { ++now; });
    });
  }
  ASSERT_TRUE(done.wait([](int now) { return now == 12; }));
  EXPECT_GE(clock_.monotonic_nanos() - start, 10 * 1'000'000'000LL / 200);  // only a lower bound: 10 beyond the burst
}

TEST_F(ClientTest, ShutdownEndsEveryRequestExactlyOnce) {
  RawServer server([](RawConnection& connection) { connection.wait_for_close(); });
  std::atomic<int> ended{0};
  {
    Client::Limits limits;
    limits.max_in_flight = 2;
    const auto client = connect(server.url(), limits);
    for (int i = 0; i < 20; ++i) {
      client->send(get("/x"), [&](const Result<Response>& answer) {
        ASSERT_FALSE(answer);
        EXPECT_EQ(answer.error().code, Code::kUnavailable);
        ++ended;
      });
    }
  }
  EXPECT_EQ(ended, 20);
}

TEST_F(ClientTest, CallOnTheIoThreadIsRefused) {
  const auto server = serve([](const HttpRequest&) { return HttpResponse{}; });
  const auto client = connect(url(*server));
  Watched<std::string> inner;
  client->send(get("/x"), [&](const Result<Response>&) {
    const auto answer = client->call(get("/y"));
    inner.change([&](std::string& text) { text = answer ? "sent" : std::string(code_name(answer.error().code)); });
  });
  EXPECT_TRUE(inner.wait([](const std::string& text) { return text == "Internal"; }));
}

TEST_F(ClientTest, ReadsTheTokenFileAgainWhenItChanges) {
  const TemporaryFolder temporary;
  const std::string& folder = temporary.path();
  Watched<std::string> seen;
  const auto server = serve([&](const HttpRequest& request) {
    seen.change([&](std::string& text) { text = request.headers.at("authorization"); });
    return HttpResponse{};
  });
  Config config;
  config.server = url(*server);
  config.token_file = folder + "/token";
  ASSERT_TRUE(write_file_atomic(config.token_file, "one\n", 0600));
  const auto client = connect(config);
  ASSERT_TRUE(client->call(get("/x")));
  EXPECT_EQ(seen.get(), "Bearer one");
  ASSERT_TRUE(write_file_atomic(config.token_file, "two\n", 0600));
  ASSERT_TRUE(client->call(get("/x")));
  EXPECT_EQ(seen.get(), "Bearer two");
  // A file that is away for a moment does not take the token away.
  ASSERT_TRUE(remove_file(config.token_file));
  ASSERT_TRUE(client->call(get("/x")));
  EXPECT_EQ(seen.get(), "Bearer two");
}

TEST_F(ClientTest, RefusesConfigurationsThatCannotWork) {
  const auto field_of = [&](const Config& config) {
    const auto client = Client::create(config, {}, clock_, log_);
    return client ? std::string("fine") : client.error().field;
  };
  Config config;
  EXPECT_EQ(field_of(config), "server");
  config.server = "https://h";
  config.ca_file = "/nonexistent";
  EXPECT_EQ(field_of(config), "ca_file");
  config.ca_data = "x";
  EXPECT_EQ(field_of(config), "ca_file");
  config.ca_file.clear();
  config.client_cert_data = "x";
  EXPECT_EQ(field_of(config), "client_cert_file");
  config.client_key_data = "x";
  EXPECT_EQ(field_of(config), "fine");
}

}  // namespace
}  // namespace heddle::kube
