// heddle-agent as a process between an API server of the test and a kubelet of the test, with a small NVML in place of
// the vendor's.
#pragma once

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <atomic>
#include <optional>
#include <random>
#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "base/unique_fd.h"
#include "dra_v1.grpc.pb.h"
#include "dra_v1beta1.grpc.pb.h"
#include "fake_api.h"
#include "guard/files.h"
#include "guard/layout.h"
#include "health_v1.grpc.pb.h"
#include "registration_v1.grpc.pb.h"

namespace heddle::agent {

namespace dra = ::k8s::io::kubelet::pkg::apis::dra::v1;
namespace dra_beta = ::k8s::io::kubelet::pkg::apis::dra::v1beta1;
using nlohmann::json;
using testing::FakeApi;

inline constexpr auto kPatience = std::chrono::seconds(60);
inline const std::string kSlices = "/apis/resource.k8s.io/v1/resourceslices/";

inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

class AgentTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/hda-XXXXXX";  // sockets need short paths
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    for (const char* folder : {"/driver/usr/lib64", "/driver/dev", "/cdi", "/kubelet"}) {
      ASSERT_TRUE(make_directories(dir_ + folder, 0755));
    }
    for (const char* file : {"/driver/usr/lib64/libcuda.so.1", "/driver/dev/nvidiactl", "/driver/dev/nvidia0",
                             "/driver/dev/nvidia1", "/guard.so"}) {
      ASSERT_TRUE(write_file_atomic(dir_ + file, "x", 0644));
    }
    set_fault("none");
    ASSERT_TRUE(write_file_atomic(dir_ + "/kubeconfig", kubeconfig(), 0600));
    api_.put("/api/v1/nodes/node-1", {{"kind", "Node"},
                                      {"apiVersion", "v1"},
                                      {"metadata", {{"name", "node-1"}, {"uid", "node-uid"}}},
                                      {"status", {{"allocatable", {{"cpu", "4"}}}}}});
  }
  void TearDown() override {
    stop(SIGTERM);
    if (const auto claims = list_directory(dir_ + "/state/claims")) {
      for (const std::string& claim : *claims)
        ::umount2((dir_ + "/state/claims/" + claim + "/gpu").c_str(), MNT_DETACH);
    }
    if (HasFailure()) std::cerr << read_file(dir_ + "/log").value_or("no log") << "\n";
    EXPECT_TRUE(remove_tree(dir_));
  }

  [[nodiscard]] std::string kubeconfig() const {
    return "apiVersion: v1\nkind: Config\ncurrent-context: t\ncontexts:\n- name: t\n  context: {cluster: c, user: u}\n"
           "clusters:\n- name: c\n  cluster: {server: \"" +
           api_.url() + "\"}\nusers:\n- name: u\n  user: {token: t}\n";
  }
  void set_fault(const std::string& fault) { ASSERT_TRUE(write_file_atomic(dir_ + "/fault", fault, 0600)); }

  void start(const std::string& instance = "one", const std::vector<std::string>& more = {}) {
    std::vector<std::string> command = {environment("HEDDLE_AGENT"),
                                        "--node-name=node-1",
                                        "--pod-uid=" + instance,
                                        "--kubeconfig=" + dir_ + "/kubeconfig",
                                        "--driver-root=" + dir_ + "/driver",
                                        "--cdi-root=" + dir_ + "/cdi",
                                        "--kubelet-root=" + dir_ + "/kubelet",
                                        "--state-dir=" + dir_ + "/state",
                                        "--guard-library=" + dir_ + "/guard.so",
                                        "--metrics-port=0",
                                        "--supervise-interval=0.2"};
    if (!nvml_.empty()) command.push_back("--nvml=" + nvml_);
    command.insert(command.end(), more.begin(), more.end());
    pid_ = spawn(command);
    instance_ = instance;
    ASSERT_TRUE(eventually([&] { return file_exists(registration_socket()); })) << "the agent does not come up";
  }
  pid_t spawn(const std::vector<std::string>& command) const {
    std::vector<std::string> variables = {"FAKE_NVML_FAULT_FILE=" + dir_ + "/fault",
                                          "FAKE_NVML_PID_FILE=" + dir_ + "/pid"};
    for (const char* name : {"ASAN_OPTIONS", "TSAN_OPTIONS", "PATH"}) {
      if (!environment(name).empty()) variables.push_back(std::string(name) + "=" + environment(name));
    }
    std::vector<char*> arguments(command.size() + 1);
    std::vector<char*> env(variables.size() + 1);
    for (size_t i = 0; i < command.size(); ++i) arguments[i] = const_cast<char*>(command[i].c_str());
    for (size_t i = 0; i < variables.size(); ++i) env[i] = const_cast<char*>(variables[i].c_str());
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, (dir_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    pid_t pid = -1;
    EXPECT_EQ(posix_spawn(&pid, arguments[0], &actions, nullptr, arguments.data(), env.data()), 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
  }
  void stop(int signal_number) {
    if (pid_ <= 0) return;
    ::kill(pid_, signal_number);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    EXPECT_TRUE(signal_number == SIGKILL || status == 0) << "SIGTERM is a clean end";
    pid_ = -1;
  }

  template <typename Condition>
  static bool eventually(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  [[nodiscard]] std::string registration_socket() const {
    return dir_ + "/kubelet/plugins_registry/accelerator.heddle.dev-" + instance_ + "-reg.sock";
  }
  [[nodiscard]] std::string plugin_socket() const {
    return dir_ + "/kubelet/plugins/accelerator.heddle.dev/dra-" + instance_ + ".sock";
  }
  static std::shared_ptr<grpc::Channel> connect(const std::string& socket) {
    // A channel of its own each time: a kubelet that restarts has no old connection.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
  }

  void put_claim(const std::string& uid, const std::string& memory, int cores, const std::string& device = "gpu-0",
                 const std::string& pod_uid = "pod-uid") {
    const json result = {
        {"request", "gpu"},          {"driver", "accelerator.heddle.dev"},
        {"pool", "node-1/nvidia"},   {"device", device},
        {"shareID", "share-" + uid}, {"consumedCapacity", {{"memory", memory}, {"cores", std::to_string(cores)}}}};
    api_.put(claim_path(uid),
             {{"kind", "ResourceClaim"},
              {"apiVersion", "resource.k8s.io/v1"},
              {"metadata", {{"name", "c-" + uid}, {"namespace", "ns"}, {"uid", uid}}},
              {"spec",
               {{"devices",
                 {{"requests", json::array({{{"name", "gpu"}, {"exactly", {{"deviceClassName", "heddle"}}}}})}}}}},
              {"status",
               {{"allocation", {{"devices", {{"results", json::array({result})}}}}},
                {"reservedFor", json::array({{{"resource", "pods"}, {"name", "pod"}, {"uid", pod_uid}}})}}}});
  }
  static std::string claim_path(const std::string& uid) {
    return "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c-" + uid;
  }

  template <typename Api = dra::DRAPlugin, typename Request = dra::NodePrepareResourcesRequest,
            typename Response = dra::NodePrepareResourcesResponse>
  Response prepare(const std::vector<std::string>& uids) const {
    Request request;
    for (const std::string& uid : uids) {
      auto* claim = request.add_claims();
      claim->set_namespace_("ns");
      claim->set_name("c-" + uid);
      claim->set_uid(uid);
    }
    Response response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    context.set_wait_for_ready(true);
    const grpc::Status status =
        Api::NewStub(connect(plugin_socket()))->NodePrepareResources(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  std::string unprepare(const std::string& uid) const {
    dra::NodeUnprepareResourcesRequest request;
    auto* claim = request.add_claims();
    claim->set_namespace_("ns");
    claim->set_name("c-" + uid);
    claim->set_uid(uid);
    dra::NodeUnprepareResourcesResponse response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    context.set_wait_for_ready(true);
    const grpc::Status status =
        dra::DRAPlugin::NewStub(connect(plugin_socket()))->NodeUnprepareResources(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.claims().count(uid), 1U);
    return response.claims().at(uid).error();
  }
  [[nodiscard]] bool has_cdi(const std::string& uid) const {
    return file_exists(dir_ + "/cdi/heddle.dev-claim-" + uid + ".json");
  }
  [[nodiscard]] std::vector<std::string> taints(size_t device) const {
    std::vector<std::string> keys;
    for (const auto& [path, slice] : api_.list(kSlices)) {
      for (const json& taint : slice.at("spec").at("devices").at(device).at("taints")) keys.push_back(taint.at("key"));
    }
    return keys;
  }

  FakeApi api_;
  std::string dir_;
  std::string nvml_ = environment("HEDDLE_TEST_DIR") + "/fake_nvml.so";  // empty: searched below the driver's root
  std::string instance_;
  pid_t pid_ = -1;
};

}  // namespace heddle::agent
