#include "kube/http_server.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <stdexcept>
#include <string>

#include "base/temporary_folder.h"
#include "kube/certificates.h"
#include "kube/client.h"
#include "kube/testing.h"

namespace heddle::kube {
namespace {

using testing::Watched;

// A blocking client socket: what it sends is exactly what the test says.
class RawClient {
 public:
  explicit RawClient(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  explicit RawClient(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    connected_ = ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  [[nodiscard]] bool connected() const { return connected_; }
  void send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t put = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (put <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(put));
    }
  }
  // One answer with its body, by Content-Length; all that came when the server closes first.
  std::string read_answer() {
    while (true) {
      const size_t head = input_.find("\r\n\r\n");
      if (head != std::string::npos) {
        const size_t field = input_.find("Content-Length: ");
        const size_t length = head + 4 + (field < head ? std::stoul(input_.substr(field + 16)) : 0);
        if (input_.size() >= length) {
          const std::string answer = input_.substr(0, length);
          input_.erase(0, length);
          return answer;
        }
      }
      if (!receive()) return std::exchange(input_, {});
    }
  }
  // True when the server has closed and nothing more came.
  bool at_end() {
    while (receive()) continue;
    return input_.empty();
  }

 private:
  bool receive() {
    char buffer[4096];
    const ssize_t got = ::recv(fd_.get(), buffer, sizeof(buffer), 0);
    if (got <= 0) return false;
    input_.append(buffer, static_cast<size_t>(got));
    return true;
  }
  UniqueFd fd_;
  bool connected_ = false;
  std::string input_;
};

class HttpServerTest : public ::testing::Test {
 protected:
  std::unique_ptr<HttpServer> start(HttpServerOptions options, HttpHandler handler) {
    auto server = HttpServer::start(std::move(options), std::move(handler), log_);
    EXPECT_TRUE(server) << server.error().text();
    return std::move(*server);
  }
  static HttpResponse echo(const HttpRequest& request) {
    std::string text = request.method + " " + request.path;
    for (const auto& [name, value] : request.query) text += " " + name + "=" + value;
    return {200, "text/plain", text + " " + request.body, {{"X-Seen", request.headers.count("x-a") ? "yes" : "no"}}};
  }

  SystemClock clock_;
  Logger log_{"test", LogLevel::kError, clock_};
};

TEST_F(HttpServerTest, KeepAliveAndPipelining) {
  const auto server = start({}, echo);
  RawClient client(server->port());
  client.send(
      "GET /a?x=1%202&y&z=a+b HTTP/1.1\r\nHost: h\r\nX-A: 1\r\n\r\nPOST /b%2Fc HTTP/1.1\r\nHost: h\r\nContent-Length: "
      "4\r\n\r\nbody");
  const std::string first = client.read_answer();
  EXPECT_TRUE(first.starts_with("HTTP/1.1 200 OK\r\n")) << first;
  EXPECT_TRUE(first.ends_with("GET /a x=1 2 y= z=a b ")) << first;
  EXPECT_NE(first.find("X-Seen: yes"), std::string::npos);
  EXPECT_NE(first.find("Connection: keep-alive"), std::string::npos);
  EXPECT_TRUE(client.read_answer().ends_with("POST /b/c body"));
  client.send("HEAD /h HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  std::string head;
  while (head.find("\r\n\r\n") == std::string::npos) {
    const std::string more = client.read_answer();
    if (more.empty()) break;
    head += more;
  }
  EXPECT_NE(head.find("Content-Length: 8"), std::string::npos) << head;
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
  EXPECT_TRUE(client.at_end());
}

TEST_F(HttpServerTest, ChunkedBodiesByteByByte) {
  const auto server = start({}, echo);
  RawClient client(server->port());
  const std::string request =
      "POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n";
  for (const char c : request) client.send(std::string_view(&c, 1));
  EXPECT_TRUE(client.read_answer().ends_with("POST /b abcdefg"));
}

struct RefusedCase {
  const char* name;
  std::string request;
  const char* status;
};

TEST_F(HttpServerTest, RefusesWhatItCannotRead) {
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  const auto server = start(options, echo);
  const RefusedCase cases[] = {
      {"no http", "hello there\r\n\r\n", "400"},
      {"bad escape", "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
      {"nul in path", "GET /a%00b HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
      {"no slash", "GET a HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
      {"body too long", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n", "413"},
      {"chunks too long",
       "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n" + std::string(2048, 'x'), "413"},
      {"both lengths", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       "400"},
      {"header too long", "GET / HTTP/1.1\r\nX: " + std::string(70'000, 'x') + "\r\n\r\n", "431"},
      {"endless header", "GET / HTTP/1.1\r\nX: " + std::string(200'000, 'x'), "431"},
  };
  for (const RefusedCase& now : cases) {
    SCOPED_TRACE(now.name);
    RawClient client(server->port());
    client.send(now.request);
    const std::string answer = client.read_answer();
    EXPECT_TRUE(answer.starts_with(std::string("HTTP/1.1 ") + now.status)) << answer;
    EXPECT_TRUE(client.at_end());
  }
}

TEST_F(HttpServerTest, ExpectContinueIsAnswered) {
  const auto server = start({}, echo);
  RawClient client(server->port());
  client.send("POST /b HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  EXPECT_EQ(client.read_answer(), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("body");
  EXPECT_TRUE(client.read_answer().ends_with("POST /b body"));
}

TEST_F(HttpServerTest, AHandlerThatThrowsGives500) {
  const auto server = start({}, [](const HttpRequest& request) -> HttpResponse {
    if (request.path == "/int") throw 7;
    throw std::runtime_error("secret text");
  });
  RawClient client(server->port());
  for (const char* path : {"/std", "/int"}) {
    client.send(std::string("GET ") + path + " HTTP/1.1\r\nHost: h\r\n\r\n");
    const std::string answer = client.read_answer();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 500")) << answer;
    EXPECT_EQ(answer.find("secret"), std::string::npos);
  }
}

TEST_F(HttpServerTest, HeadersCannotBeForged) {
  const auto server = start({}, [](const HttpRequest&) {
    return HttpResponse{200, "text/plain\r\nX-Evil: 1", "b", {{"X-Good", "1"}, {"X-Bad", "a\r\nX-Evil: 2"}}};
  });
  RawClient client(server->port());
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::string answer = client.read_answer();
  EXPECT_NE(answer.find("X-Good: 1"), std::string::npos);
  EXPECT_EQ(answer.find("Evil"), std::string::npos) << answer;
}

// More idle and half-sent connections than workers: requests are still answered, and the slow ones end by their
// time-out.
TEST_F(HttpServerTest, SlowClientsDoNotHoldTheWorkers) {
  HttpServerOptions options;
  options.threads = 1;
  options.request_timeout = Duration::millis(1500);
  const auto server = start(options, echo);
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 20; ++i) {
    slow.push_back(std::make_unique<RawClient>(server->port()));
    if (i % 2 == 0) slow.back()->send("POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nfirst part");
  }
  RawClient quick(server->port());
  quick.send("GET /quick HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(quick.read_answer().ends_with("GET /quick "));
  for (auto& client : slow) EXPECT_TRUE(client->at_end());
}

TEST_F(HttpServerTest, AReaderThatDoesNotReadIsDropped) {
  HttpServerOptions options;
  options.threads = 1;
  options.write_timeout = Duration::millis(300);
  const auto server = start(options, [](const HttpRequest& request) {
    return HttpResponse{200, "text/plain", std::string(request.path == "/big" ? size_t{64} << 20 : 1, 'x'), {}};
  });
  RawClient stuck(server->port());
  stuck.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n");
  RawClient quick(server->port());
  quick.send("GET /small HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(quick.read_answer().ends_with("x"));
  server->stop();  // would wait for the stuck one for ever
}

TEST_F(HttpServerTest, TooManyConnectionsAreClosed) {
  HttpServerOptions options;
  options.max_connections = 3;
  const auto server = start(options, echo);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(server->port()));
    clients.back()->send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_TRUE(clients.back()->read_answer().ends_with("GET /a "));
  }
  RawClient extra(server->port());
  EXPECT_TRUE(extra.at_end());
  clients[0]->send("GET /b HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(clients[0]->read_answer().ends_with("GET /b "));
}

TEST_F(HttpServerTest, StopWaitsForARunningHandlerAndSendsItsAnswer) {
  Watched<int> stage(0);
  const auto server = start({}, [&](const HttpRequest&) {
    stage.change([](int& now) { now = 1; });
    std::ignore = stage.wait([](int now) { return now == 2; });
    return HttpResponse{200, "text/plain", "late", {}};
  });
  RawClient idle(server->port());
  RawClient client(server->port());
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  ASSERT_TRUE(stage.wait([](int now) { return now == 1; }));
  std::thread stopper([&] { server->stop(); });
  EXPECT_TRUE(idle.at_end());
  stage.change([](int& now) { now = 2; });
  const std::string answer = client.read_answer();
  EXPECT_TRUE(answer.ends_with("late")) << answer;
  EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  stopper.join();
  EXPECT_FALSE(RawClient(server->port()).connected());
  server->stop();
}

TEST_F(HttpServerTest, AUnixSocketKnowsItsPeer) {
  const TemporaryFolder temporary;
  const std::string& folder = temporary.path();
  HttpServerOptions options;
  options.unix_socket = folder + "/s";
  options.unix_mode = 0660;
  auto server = start(options, [](const HttpRequest& request) {
    return HttpResponse{200, "text/plain", request.peer + " " + std::to_string(request.peer_uid), {}};
  });
  struct stat info = {};
  ASSERT_EQ(::stat(options.unix_socket.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0660U);
  RawClient client(options.unix_socket);
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(client.read_answer().ends_with("unix " + std::to_string(::getuid())));
  const auto second = HttpServer::start(options, echo, log_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kAlreadyExists);
  server.reset();
  EXPECT_NE(::stat(options.unix_socket.c_str(), &info), 0);
  // What a killed process leaves behind does not stand in the way.
  {
    const UniqueFd stale(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, options.unix_socket.data(), options.unix_socket.size());
    ASSERT_EQ(::bind(stale.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  EXPECT_TRUE(HttpServer::start(options, echo, log_));
}

TEST_F(HttpServerTest, AServerThatEndsLeavesTheSocketOfTheNextOne) {
  const TemporaryFolder temporary;
  HttpServerOptions options;
  options.unix_socket = temporary.path() + "/s";
  auto first = start(options, echo);
  ASSERT_EQ(::unlink(options.unix_socket.c_str()), 0);
  const auto second = start(options, echo);
  first.reset();
  EXPECT_EQ(::access(options.unix_socket.c_str(), F_OK), 0);
}

TEST_F(HttpServerTest, BadOptionsAreRefused) {
  const auto server = start({}, echo);
  HttpServerOptions taken;
  taken.port = server->port();
  EXPECT_EQ(HttpServer::start(taken, echo, log_).error().code, Code::kAlreadyExists);
  HttpServerOptions no_address;
  no_address.address = "example.org";
  EXPECT_EQ(HttpServer::start(no_address, echo, log_).error().field, "address");
  HttpServerOptions no_key;
  no_key.certificate_pem = "x";
  EXPECT_EQ(HttpServer::start(no_key, echo, log_).error().field, "certificate_pem");
  EXPECT_FALSE(server->set_certificate("x", "y"));
}

// TLS, from both ends.
class TlsTest : public HttpServerTest {
 protected:
  [[nodiscard]] Time days(int64_t n) const { return clock_.now() + Duration::seconds(n * 86'400); }
  [[nodiscard]] KeyPair ca() const { return make_ca("ca", days(-10), days(10)).value(); }
  [[nodiscard]] KeyPair server_pair(const KeyPair& ca, int64_t to = 5, const std::string& name = "127.0.0.1") const {
    return make_server_certificate(ca, {name}, days(-9), days(to)).value();
  }
  std::unique_ptr<HttpServer> serve(const KeyPair& pair) {
    HttpServerOptions options;
    options.certificate_pem = pair.certificate_pem;
    options.key_pem = pair.key_pem;
    return start(options, echo);
  }
  // "fine" or the error.
  std::string get(const HttpServer& server, const std::string& ca_pem) {
    Config config;
    config.server = "https://127.0.0.1:" + std::to_string(server.port());
    config.ca_data = ca_pem;
    auto client = Client::create(config, {}, clock_, log_);
    Request request;
    request.path = "/x";
    const auto answer = (*client)->call(request);
    if (answer) return "fine";
    EXPECT_EQ(answer.error().code, Code::kUnavailable);
    return answer.error().message;
  }
};

TEST_F(TlsTest, AcceptsItsCaOnly) {
  const KeyPair own = ca();
  const auto server = serve(server_pair(own));
  EXPECT_EQ(get(*server, own.certificate_pem), "fine");
  EXPECT_NE(get(*server, ca().certificate_pem), "fine");
  EXPECT_EQ(get(*server, ca().certificate_pem + own.certificate_pem), "fine");
}

TEST_F(TlsTest, RefusesAnExpiredOrForeignCertificate) {
  const KeyPair own = ca();
  EXPECT_NE(get(*serve(server_pair(own, -1)), own.certificate_pem), "fine");
  EXPECT_NE(get(*serve(server_pair(own, 5, "127.0.0.2")), own.certificate_pem), "fine");
}

TEST_F(TlsTest, TheCertificateIsSwappedWhileRunning) {
  const KeyPair first = ca();
  const KeyPair second = ca();
  const auto server = serve(server_pair(first));
  Config config;
  config.server = "https://127.0.0.1:" + std::to_string(server->port());
  config.ca_data = first.certificate_pem;
  const auto client = std::move(*Client::create(config, {}, clock_, log_));
  Request request;
  request.path = "/x";
  ASSERT_TRUE(client->call(request));
  const KeyPair next = server_pair(second);
  EXPECT_EQ(server->set_certificate(next.certificate_pem, second.key_pem).error().field, "key_pem");
  ASSERT_TRUE(server->set_certificate(next.certificate_pem, next.key_pem));
  EXPECT_TRUE(client->call(request));  // the open connection lives on
  EXPECT_NE(get(*server, first.certificate_pem), "fine");
  EXPECT_EQ(get(*server, second.certificate_pem), "fine");
}

TEST_F(TlsTest, BigBodiesAndPlainTextPeers) {
  const KeyPair own = ca();
  const auto server = serve(server_pair(own));
  RawClient plain(server->port());
  plain.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  std::ignore = plain.read_answer();  // an alert, or nothing
  RawClient silent(server->port());
  Config config;
  config.server = "https://127.0.0.1:" + std::to_string(server->port());
  config.ca_data = own.certificate_pem;
  const auto client = std::move(*Client::create(config, {}, clock_, log_));
  Request request;
  request.method = Method::kPost;
  request.path = "/big";
  request.body = std::string(size_t{5} << 20, 'y');
  const auto answer = client->call(request);
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_EQ(answer->body.size(), request.body.size() + 10);
}

}  // namespace
}  // namespace heddle::kube
