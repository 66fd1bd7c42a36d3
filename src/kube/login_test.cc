// Credential plugins that really run, and a client that uses what they print.
#include "kube/login.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "base/file.h"
#include "base/temporary_folder.h"
#include "base/unique_fd.h"
#include "kube/client.h"
#include "kube/http_server.h"

namespace heddle::kube {
namespace {

class LoginTest : public ::testing::Test {
 protected:
  // A configuration whose plugin is a shell script with this body.
  Config config_of(const std::string& body) {
    const std::string path = folder_.path() + "/plugin";
    EXPECT_TRUE(write_file_atomic(path, "#!/bin/sh\n" + body + "\n", 0700));
    Config config;
    config.server = "https://cluster:6443";
    config.plugin.emplace();
    config.plugin->field = "users[0].user.exec";
    config.plugin->api_version = "client.authentication.k8s.io/v1";
    config.plugin->command = path;
    return config;
  }
  // Shell code that prints a credential; `status` is JSON in double quotes of the shell.
  static std::string print(const std::string& status) {
    return R"(echo "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":)" +
           status + R"(}")";
  }
  static std::string token(const std::string& text) { return print(R"({\"token\":\")" + text + R"(\"})"); }
  static Result<Credential> ask(const Config& config) {
    return run_credential_plugin(config, false, Duration::seconds(60));
  }
  const TemporaryFolder folder_;
  SystemClock clock_;
  Logger log_{"test", LogLevel::kError, clock_};
};

TEST_F(LoginTest, ThePluginGetsItsArgumentsItsVariablesAndTheQuestion) {
  Config config = config_of("cd " + folder_.path() +
                            R"(; echo "$1|$2" > args; echo "$GREETING|$KEEP" > env; echo "$KUBERNETES_EXEC_INFO" > info
)" + token("t-$1"));
  config.ca_data = "CA";
  config.plugin->arguments = {"a b", "c"};
  config.plugin->environment = {{"GREETING", "hello"}};
  config.plugin->provide_cluster_info = true;
  ::setenv("GREETING", "of the parent", 1);
  ::setenv("KEEP", "kept", 1);
  const auto got = ask(config);
  ASSERT_TRUE(got) << got.error().text();
  EXPECT_EQ(got->token, "t-a b");
  EXPECT_EQ(folder_.read("args"), "a b|c\n");
  EXPECT_EQ(folder_.read("env"), "hello|kept\n");
  EXPECT_EQ(folder_.read("info"),
            R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"cluster":)"
            R"({"certificate-authority-data":"Q0E=","insecure-skip-tls-verify":false,"server":"https://cluster:6443"},)"
            R"("interactive":false}})"
            "\n");
}

TEST_F(LoginTest, WhatFailsSaysWhichProgramAndHow) {
  Config absent = config_of("");
  absent.plugin->command = "heddle-no-such-plugin";
  absent.plugin->install_hint = "apt install it";
  const auto none = ask(absent);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kNotFound);
  EXPECT_EQ(none.error().text(),
            "users[0].user.exec: \"heddle-no-such-plugin\" is not installed, or not in $PATH. The kubeconfig says: apt "
            "install it");

  const auto failed = ask(config_of("exit 3"));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kUnavailable);
  EXPECT_NE(failed.error().text().find("ended with 3"), std::string::npos) << failed.error().text();

  const auto chatty = ask(config_of("echo Please log in"));
  ASSERT_FALSE(chatty);
  EXPECT_EQ(chatty.error().code, Code::kInvalidArgument);
  EXPECT_NE(chatty.error().text().find("prints no JSON object"), std::string::npos) << chatty.error().text();

  Config asks = config_of(token("t"));
  asks.plugin->interactive = Interactive::kAlways;
  const auto silent = ask(asks);
  ASSERT_FALSE(silent);
  EXPECT_NE(silent.error().text().find("there is no terminal"), std::string::npos) << silent.error().text();
}

TEST_F(LoginTest, APluginThatHangsIsKilled) {
  const auto late = run_credential_plugin(config_of("echo $$ > " + folder_.path() + "/pid; exec sleep 1000"), false,
                                          Duration::millis(500));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kDeadlineExceeded);
  // Its output closed, it still has to end.
  const auto closed =
      run_credential_plugin(config_of(token("t") + "; exec sleep 1000 >&-"), false, Duration::millis(500));
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, Code::kDeadlineExceeded);

  const UniqueFd cancel(::eventfd(1, EFD_CLOEXEC));
  const auto cancelled =
      run_credential_plugin(config_of("exec sleep 1000"), false, Duration::seconds(600), cancel.get());
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, Code::kUnavailable);
}

TEST_F(LoginTest, ALoginIsRenewedBeforeItExpiresAndAtMostOnceInTenSeconds) {
  const auto wait_for = [](Login& login, Time now) {
    std::optional<Credential> got;
    for (int i = 0; i < 6000 && !got; ++i) {
      got = login.renewed(now);
      if (!got) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return got;
  };
  const std::string count = "cd " + folder_.path() + "; echo x >> runs; N=$(wc -l < runs)\n";
  const std::string expires = R"(\"expirationTimestamp\":\"1970-01-01T01:00:00Z\")";
  const Config config = config_of(count + print(R"({\"token\":\"t$N\",)" + expires + "}"));
  Credential first;
  first.token = "first";
  first.expires = Time{1000'000'000'000};
  const auto login = Login::create(config, first);
  EXPECT_FALSE(login->renewed(Time{969'000'000'000}));
  EXPECT_EQ(folder_.read("runs"), "") << "31 s before its end it is good";
  auto got = wait_for(*login, Time{970'000'000'000});
  ASSERT_TRUE(got);
  EXPECT_EQ(got->token, "t1");
  EXPECT_FALSE(login->renewed(Time{980'000'000'000}));
  login->refused();
  EXPECT_FALSE(login->renewed(Time{979'000'000'000}));
  EXPECT_EQ(folder_.read("runs"), "x\n") << "refused 9 s after the last run: not yet";
  got = wait_for(*login, Time{980'000'000'000});
  ASSERT_TRUE(got);
  EXPECT_EQ(got->token, "t2");
}

TEST_F(LoginTest, AClientUsesThePluginAndAsksAgainWhenItIsRefused) {
  std::atomic<bool> first_is_good = true;
  HttpServerOptions options;
  options.threads = 1;
  const auto server = HttpServer::start(
      options,
      [&](const HttpRequest& request) {
        const auto given = request.headers.find("authorization");
        const bool good =
            given != request.headers.end() && given->second == (first_is_good ? "Bearer t1" : "Bearer t2");
        return HttpResponse{good ? 200 : 401, "application/json", "{}", {}};
      },
      log_);
  ASSERT_TRUE(server) << server.error().text();
  Config config = config_of("cd " + folder_.path() + "; echo x >> runs; N=$(wc -l < runs)\n" + token("t$N"));
  config.server = "http://127.0.0.1:" + std::to_string((*server)->port());
  const auto client = Client::create(config, {}, clock_, log_);
  ASSERT_TRUE(client) << client.error().text();
  Request request;
  request.path = "/api";
  EXPECT_TRUE((*client)->call(request));
  first_is_good = false;
  const auto refused = (*client)->call(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kPermissionDenied);
  bool good = false;
  for (int i = 0; i < 600 && !good; ++i) {
    good = (*client)->call(request).has_value();
    if (!good) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_TRUE(good);
  EXPECT_EQ(folder_.read("runs"), "x\nx\n");
}

TEST_F(LoginTest, WithoutACredentialThereIsNoClient) {
  const auto client = Client::create(config_of("exit 1"), {}, clock_, log_);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().field, "users[0].user.exec");
}

}  // namespace
}  // namespace heddle::kube
