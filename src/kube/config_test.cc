#include "kube/config.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

#include "base/file.h"
#include "base/temporary_folder.h"

namespace heddle::kube {
namespace {

// cluster and user are the YAML of their inner objects, in flow style.
std::string kubeconfig(const std::string& cluster, const std::string& user, const std::string& name_space = "") {
  return "apiVersion: v1\nkind: Config\ncurrent-context: x\n"
         "contexts: [{name: w, context: {cluster: nope, user: u}}, {name: x, context: {cluster: c, user: u" +
         (name_space.empty() ? std::string() : ", namespace: " + name_space) +
         "}}]\nclusters: [{name: c, cluster: " + cluster + "}]\nusers: [{name: u, user: " + user + "}]\n";
}

const std::string kServer = "{server: 'https://h:6443/'}";
const std::string kV1 = "client.authentication.k8s.io/v1";

std::string plugin(const std::string& version, const std::string& fields) {
  return kubeconfig(kServer, "{exec: {apiVersion: " + version + ", " + fields + "}}");
}

TEST(Kubeconfig, ReadsDataFilesAndTokens) {
  const TemporaryFolder folder;
  ASSERT_TRUE(make_directories(folder.path() + "/pki", 0700));
  std::ignore = folder.write("pki/c.pem", "CERT");
  const std::string path = folder.write(
      "config", kubeconfig("{server: 'https://h:6443/', certificate-authority-data: Q0EgcGVt, proxy-url: 'http://p:1'}",
                           "{token: secret, client-certificate: pki/c.pem, client-key-data: S0VZ}", "team"));
  const auto config = load_kubeconfig(path);
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->server, "https://h:6443");
  EXPECT_EQ(config->ca_data, "CA pem");
  EXPECT_EQ(config->ca_file, "");
  EXPECT_EQ(config->token, "secret");
  EXPECT_EQ(config->client_cert_file, folder.path() + "/pki/c.pem");
  EXPECT_EQ(config->client_key_data, "KEY");
  EXPECT_EQ(config->proxy_url, "http://p:1");
  EXPECT_EQ(config->name_space, "team");
}

TEST(Kubeconfig, DataWinsOverFileAndAbsolutePathsStay) {
  const TemporaryFolder folder;
  const std::string token = folder.write("token", "t");
  const std::string path = folder.write(
      "config", kubeconfig("{server: 'http://h', certificate-authority: /x, certificate-authority-data: Q0EgcGVt}",
                           "{tokenFile: " + token + "}"));
  const auto config = load_kubeconfig(path);
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->ca_data, "CA pem");
  EXPECT_EQ(config->ca_file, "");
  EXPECT_EQ(config->token_file, token);
  EXPECT_EQ(config->name_space, "default");
}

struct BadCase {
  const char* name;
  std::string text;
  Code code;
  const char* field;  // a part of Error::text()
};

class BadKubeconfig : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadKubeconfig, NamesTheField) {
  const TemporaryFolder folder;
  const auto config = load_kubeconfig(folder.write("config", GetParam().text));
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, GetParam().code) << config.error().text();
  EXPECT_NE(config.error().text().find(GetParam().field), std::string::npos) << config.error().text();
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadKubeconfig,
    ::testing::Values(
        BadCase{"exec_without_version", kubeconfig(kServer, "{exec: {command: aws}}"), Code::kInvalidArgument,
                "users[0].user.exec.apiVersion"},
        BadCase{"exec_of_old", plugin("client.authentication.k8s.io/v1alpha1", "command: aws"), Code::kInvalidArgument,
                "let the tool that wrote this kubeconfig write it again"},
        BadCase{"exec_without_command", plugin(kV1, "interactiveMode: Never"), Code::kInvalidArgument,
                "users[0].user.exec.command"},
        BadCase{"exec_without_mode", plugin(kV1, "command: aws"), Code::kInvalidArgument,
                "users[0].user.exec.interactiveMode"},
        BadCase{"exec_args", plugin(kV1, "command: aws, interactiveMode: Never, args: x"), Code::kInvalidArgument,
                "users[0].user.exec.args"},
        BadCase{"exec_args_entry", plugin(kV1, "command: aws, interactiveMode: Never, args: [a, [b]]"),
                Code::kInvalidArgument, "users[0].user.exec.args[1]"},
        BadCase{"exec_env_entry", plugin(kV1, "command: aws, interactiveMode: Never, env: [{name: 'a=b', value: c}]"),
                Code::kInvalidArgument, "users[0].user.exec.env[0].name"},
        BadCase{"exec_info", plugin(kV1, "command: aws, interactiveMode: Never, provideClusterInfo: 1"),
                Code::kInvalidArgument, "users[0].user.exec.provideClusterInfo"},
        BadCase{"auth_provider", kubeconfig(kServer, "{auth-provider: {name: gcp}}"), Code::kUnsupported,
                "users[0].user.auth-provider"},
        BadCase{"basic", kubeconfig(kServer, "{username: a, password: b}"), Code::kUnsupported,
                "users[0].user.username"},
        BadCase{"impersonate", kubeconfig(kServer, "{as: root}"), Code::kUnsupported, "users[0].user.as"},
        BadCase{"cert_without_key", kubeconfig(kServer, "{client-certificate-data: Q0VSVA==}"), Code::kInvalidArgument,
                "users[0].user.client-key"},
        BadCase{"key_without_cert", kubeconfig(kServer, "{client-key-data: S0VZ}"), Code::kInvalidArgument,
                "users[0].user.client-certificate"},
        BadCase{"not_base64", kubeconfig("{server: 'https://h', certificate-authority-data: '!!'}", "{}"),
                Code::kInvalidArgument, "clusters[0].cluster.certificate-authority-data"},
        BadCase{"base64_cut", kubeconfig("{server: 'https://h', certificate-authority-data: 'QUJDR'}", "{}"),
                Code::kInvalidArgument, "clusters[0].cluster.certificate-authority-data"},
        BadCase{"no_server", kubeconfig("{}", "{}"), Code::kInvalidArgument, "clusters[0].cluster.server"},
        BadCase{"bad_scheme", kubeconfig("{server: 'ftp://h'}", "{}"), Code::kInvalidArgument,
                "clusters[0].cluster.server"},
        BadCase{"skip_is_no_bool", kubeconfig("{server: 'https://h', insecure-skip-tls-verify: maybe}", "{}"),
                Code::kInvalidArgument, "clusters[0].cluster.insecure-skip-tls-verify"},
        BadCase{
            "skip_with_ca",
            kubeconfig("{server: 'https://h', insecure-skip-tls-verify: true, certificate-authority-data: Q0E=}", "{}"),
            Code::kInvalidArgument, "clusters[0].cluster.insecure-skip-tls-verify"},
        BadCase{"server_name", kubeconfig("{server: 'https://h', tls-server-name: other}", "{}"), Code::kUnsupported,
                "clusters[0].cluster.tls-server-name"},
        BadCase{"token_is_a_list", kubeconfig(kServer, "{token: [a]}"), Code::kInvalidArgument, "users[0].user.token"},
        BadCase{"no_such_user",
                "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: z}}]\n"
                "clusters: [{name: c, cluster: {server: 'https://h'}}]\nusers: []\n",
                Code::kInvalidArgument, "users"},
        BadCase{"no_current_context", "kind: Config\n", Code::kInvalidArgument, "current-context"},
        BadCase{"no_such_context", "current-context: q\n", Code::kInvalidArgument, "contexts"},
        BadCase{"no_such_file", kubeconfig(kServer, "{client-certificate: absent.pem, client-key-data: S0VZ}"),
                Code::kInvalidArgument, "users[0].user.client-certificate: "},
        BadCase{"no_such_token", kubeconfig(kServer, "{tokenFile: absent}"), Code::kInvalidArgument,
                "users[0].user.tokenFile: "},
        BadCase{"no_users",
                "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: z}}]\n"
                "clusters: [{name: c, cluster: {server: 'https://h'}}]\n",
                Code::kInvalidArgument, "users: no entry is named \"z\"; there is none (kubeconfig /"},
        BadCase{"contexts_is_text", "current-context: q\ncontexts: z\n", Code::kInvalidArgument, "contexts"},
        BadCase{"empty", "", Code::kInvalidArgument, "config"},
        BadCase{"not_yaml", "a: [", Code::kInvalidArgument, "config"},
        BadCase{"text_after_the_end", "\n{a: b}, c", Code::kInvalidArgument,
                "line 2, column 7: nothing may follow the end of a document"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Kubeconfig, TheNamedContextIsUsed) {
  const TemporaryFolder folder;
  const std::string path = folder.write("config", kubeconfig(kServer, "{}"));
  EXPECT_TRUE(load_kubeconfig(path, "x"));
  const auto other = load_kubeconfig(path, "w");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().field, "clusters");
  EXPECT_EQ(other.error().message, "no entry is named \"nope\"; there are c (kubeconfig " + path + ")");
}

TEST(Kubeconfig, ACredentialPluginIsReadWhole) {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "config", plugin(kV1,
                       "command: bin/login, args: [--cluster, x], env: [{name: A, value: b}], interactiveMode: Never, "
                       "provideClusterInfo: true, installHint: apt install login"));
  const auto config = load_kubeconfig(path);
  ASSERT_TRUE(config) << config.error().text();
  ASSERT_TRUE(config->plugin);
  EXPECT_EQ(config->plugin->command, folder.path() + "/bin/login") << "a path is relative to the file";
  EXPECT_EQ(config->plugin->arguments, (std::vector<std::string>{"--cluster", "x"}));
  EXPECT_EQ(config->plugin->environment, (std::vector<std::pair<std::string, std::string>>{{"A", "b"}}));
  EXPECT_EQ(config->plugin->install_hint, "apt install login");
  EXPECT_EQ(config->plugin->interactive, Interactive::kNever);
  EXPECT_TRUE(config->plugin->provide_cluster_info);
}

TEST(Kubeconfig, APluginInPathStaysANameAndTheOldVersionMayAsk) {
  const TemporaryFolder folder;
  const auto config = load_kubeconfig(folder.write("config", plugin(kV1 + "beta1", "command: aws")));
  ASSERT_TRUE(config) << config.error().text();
  ASSERT_TRUE(config->plugin);
  EXPECT_EQ(config->plugin->command, "aws");
  EXPECT_EQ(config->plugin->interactive, Interactive::kIfAvailable);
}

TEST(Kubeconfig, ATokenNeedsNoPlugin) {
  const TemporaryFolder folder;
  const auto config = load_kubeconfig(
      folder.write("config", kubeconfig(kServer, "{token: t, exec: {apiVersion: " + kV1 + "beta1, command: aws}}")));
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_FALSE(config->plugin);
}

TEST(Kubeconfig, SeveralFilesAreReadAsOne) {
  const TemporaryFolder folder;
  const std::string first =
      folder.write("1", "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n");
  ASSERT_TRUE(make_directories(folder.path() + "/deep", 0700));
  std::ignore = folder.write("deep/ca.crt", "CA");
  const std::string second = folder.write(
      "deep/2",
      "current-context: y\nclusters: [{name: c, cluster: {server: 'https://two', certificate-authority: ca.crt}}]\n"
      "users: [{name: u, user: {token: second}}]\n");
  const std::string third = folder.write("3", "users: [{name: u, user: {token: third}}]\n");
  const std::string empty = folder.write("4", "");
  const auto config = load_kubeconfigs({folder.path() + "/absent", empty, first, second, third});
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->server, "https://two");
  EXPECT_EQ(config->token, "second") << "the first of a name counts";
  EXPECT_EQ(config->ca_file, folder.path() + "/deep/ca.crt") << "a path is relative to its own file";
}

TEST(Kubeconfig, SeveralFilesNameTheOneThatIsWrong) {
  const TemporaryFolder folder;
  const std::string first = folder.write("1", kubeconfig(kServer, "{token: t}"));
  const std::string second = folder.write("2", "users: z\n");
  EXPECT_TRUE(load_kubeconfigs({first, second})) << "all that counts is in the first";
  const auto config = load_kubeconfigs({second, first});
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().field, second + ": users");
  const auto none = load_kubeconfigs({folder.path() + "/a", folder.path() + "/b"});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kNotFound);
}

TEST(Kubeconfig, AMissingFileIsNotFound) {
  const auto config = load_kubeconfig("/nonexistent/config");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, Code::kNotFound);
}

TEST(InClusterConfig, UsesTheServiceAccount) {
  const TemporaryFolder folder;
  std::ignore = folder.write("token", "t\n");
  EXPECT_FALSE(in_cluster_config("10.0.0.1", "443", folder.path()));
  std::ignore = folder.write("ca.crt", "pem");
  std::ignore = folder.write("namespace", "heddle-system\n");
  const auto config = in_cluster_config("fd00::1", "443", folder.path());
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->server, "https://[fd00::1]:443");
  EXPECT_EQ(config->token_file, folder.path() + "/token");
  EXPECT_EQ(config->ca_file, folder.path() + "/ca.crt");
  EXPECT_EQ(config->name_space, "heddle-system");
  const auto outside = in_cluster_config("", "", folder.path());
  ASSERT_FALSE(outside);
  EXPECT_EQ(outside.error().field, "KUBERNETES_SERVICE_HOST");
}

}  // namespace
}  // namespace heddle::kube
