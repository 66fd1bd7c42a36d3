// The program as a whole.
#include <map>
#include <sstream>

#include "agent_fixture.h"

namespace heddle::agent {
namespace {

TEST_F(AgentTest, PublishesOnceAndAgainAfterAWipe) {
  start();
  ASSERT_TRUE(eventually([&] { return api_.list(kSlices).size() == 1; }));
  const json slice = api_.list(kSlices).at(kSlices + "node-1-heddle-nvidia-0");
  EXPECT_EQ(slice.at("spec").at("pool").at("name"), "node-1/nvidia");
  EXPECT_EQ(slice.at("spec").at("devices").size(), 2U);
  EXPECT_EQ(slice.at("metadata").at("ownerReferences").at(0).at("uid"), "node-uid");
  ASSERT_TRUE(api_.remove(kSlices + "node-1-heddle-nvidia-0"));
  ASSERT_TRUE(eventually([&] { return api_.list(kSlices).size() == 1; }));
  // A health change is one more write; nothing else is written, however many looks there are.
  set_fault("lost");
  ASSERT_TRUE(eventually([&] { return taints(1).size() == 2; }));
  EXPECT_EQ(taints(1)[1], "heddle.dev/unhealthy");
  EXPECT_EQ(taints(0), std::vector<std::string>{"heddle.dev/managed"});
  EXPECT_EQ(api_.slice_writes(), 3);
}

TEST_F(AgentTest, OffersWhatAForeignLibraryCanDescribeAndNamesTheRest) {
  nvml_.clear();
  const auto library = read_file(environment("HEDDLE_TEST_DIR") + "/foreign_sparse_nvml.so", size_t{64} << 20);
  ASSERT_TRUE(library);
  ASSERT_TRUE(write_file_atomic(dir_ + "/driver/usr/lib64/libnvidia-ml.so.1", *library, 0644));
  start();
  ASSERT_TRUE(eventually([&] { return api_.list(kSlices).size() == 1; }));
  const json devices = api_.list(kSlices).begin()->second.at("spec").at("devices");
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].at("name"), "gpu-0");
  EXPECT_EQ(devices[0].at("capacity").at("memory").at("value"), "3Ti");
  EXPECT_EQ(devices[0].at("attributes").at("resource.kubernetes.io/pciBusID").at("string"), "10001:3b:00.0");
  EXPECT_EQ(devices[0].at("attributes").at("driverVersion").at("string"), "999.99.99-0ubuntu0~experimental");
  EXPECT_LE(devices[0].at("attributes").at("model").at("string").get<std::string>().size(), 64U);
  EXPECT_EQ(devices[1].at("name"), "gpu-5");
  EXPECT_EQ(devices[1].at("capacity").at("memory").at("value"), "24575Mi");
  std::string log;
  EXPECT_TRUE(eventually([&] {
    log = read_file(dir_ + "/log").value_or("");
    return log.find("another card has its minor number") != std::string::npos;
  })) << log;
  for (const char* part : {"Insufficient Permissions", "card 2: no uuid", "has no minor number", "has no memory size",
                           "its partitions (MIG) are on"}) {
    EXPECT_NE(log.find(part), std::string::npos) << part;
  }
}

TEST_F(AgentTest, PublishesAgainWhatIsWipedBeforeTheAnswerToItsWriteCame) {
  api_.wipe_next_before_its_answer();
  start();
  ASSERT_TRUE(eventually([&] { return api_.slice_writes() >= 1; }));
  ASSERT_TRUE(eventually([&] { return api_.slice_writes() >= 2 && api_.list(kSlices).size() == 1; }));
}

TEST_F(AgentTest, TaintsCardsThatADevicePluginServesAndRefusesThem) {
  api_.put("/api/v1/nodes/node-1", {{"kind", "Node"},
                                    {"metadata", {{"name", "node-1"}, {"uid", "node-uid"}}},
                                    {"status", {{"allocatable", {{"nvidia.com/gpu", "2"}}}}}});
  start();
  ASSERT_TRUE(eventually([&] { return api_.list(kSlices).size() == 1; }));
  EXPECT_EQ(taints(0), (std::vector<std::string>{"heddle.dev/managed", "heddle.dev/foreign-owner"}));
  put_claim("u1", "1Gi", 10);
  EXPECT_NE(prepare({"u1"}).claims().at("u1").error(), "");
}

TEST_F(AgentTest, LendsAnIdleShareAndAgainAfterAKillUnlessSharesAreStrict) {
  put_claim("u1", "3000Mi", 30);
  put_claim("u2", "4000Mi", 50);
  const std::string folder = dir_ + "/state/claims/u1/gpu";
  // u1 asks for its card; how much of it it may use then, 0 when nothing was said lately.
  const auto lent = [&] {
    const int64_t now = SystemClock().monotonic_nanos();
    const UniqueFd fd(::open((folder + "/usage").c_str(), O_WRONLY | O_CLOEXEC));
    const off_t at = offsetof(heddle_guard_usage, devices) + offsetof(heddle_guard_device_usage, want_ns);
    EXPECT_EQ(::pwrite(fd.get(), &now, sizeof(now), at), 8);
    return guard::hint_in(read_file(folder + "/limits").value_or(""), 0, now).rate;
  };
  start();
  EXPECT_EQ(prepare({"u1", "u2"}).claims().at("u2").error(), "");
  EXPECT_TRUE(eventually([&] { return lent() == 0.8; }));
  EXPECT_EQ(unprepare("u2"), "");
  EXPECT_TRUE(eventually([&] { return lent() == 0; })) << "alone on its card";
  EXPECT_EQ(prepare({"u2"}).claims().at("u2").error(), "");
  stop(SIGKILL);
  start("two");
  EXPECT_TRUE(eventually([&] { return lent() == 0.8; }));
  stop(SIGTERM);
  start("strict", {"--strict-shares"});
  EXPECT_TRUE(eventually([&] { return lent() == 0; }));
}

TEST_F(AgentTest, RegistersAsTheKubeletExpects) {
  start();
  pluginregistration::PluginInfo info;
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  const auto stub = pluginregistration::Registration::NewStub(connect(registration_socket()));
  ASSERT_TRUE(stub->GetInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.type(), "DRAPlugin");
  EXPECT_EQ(info.name(), "accelerator.heddle.dev");
  EXPECT_EQ(info.endpoint(), plugin_socket());
  EXPECT_EQ(info.supported_versions(0), "v1.DRAPlugin");
  pid_t old = pid_;
  const std::string old_socket = registration_socket();
  start("two");  // a rolling update: both are there
  EXPECT_TRUE(file_exists(old_socket));
  std::swap(old, pid_);
  stop(SIGKILL);
  pid_ = old;
  stop(SIGKILL);
  start("three");
  EXPECT_FALSE(file_exists(old_socket)) << "what killed agents leave is cleared";
}

TEST_F(AgentTest, PreparesABatchIdempotentlyAndAcrossKills) {
  start();
  put_claim("u1", "3000Mi", 30);
  put_claim("u2", "5000Mi", 50);
  const auto first = prepare({"u1", "u2", "missing"});
  ASSERT_EQ(first.claims().size(), 3U) << "every claim is answered";
  EXPECT_NE(first.claims().at("missing").error(), "");
  ASSERT_EQ(first.claims().at("u1").error(), "");
  const auto& device = first.claims().at("u1").devices(0);
  EXPECT_EQ(device.request_names(0), "gpu");
  EXPECT_EQ(device.pool_name(), "node-1/nvidia");
  EXPECT_EQ(device.device_name(), "gpu-0");
  EXPECT_EQ(device.share_id(), "share-u1");
  EXPECT_EQ(device.cdi_device_ids(0), "heddle.dev/claim=u1-gpu");
  put_claim("u3", "1Gi", 0);
  EXPECT_NE(prepare({"u3"}).claims().at("u3").error(), "") << "8192 MiB minus 8000 MiB do not hold it";
  put_claim("u4", "1Gi", 0, "gpu-7");
  EXPECT_NE(prepare({"u4"}).claims().at("u4").error(), "") << "no such device";
  stop(SIGKILL);
  ASSERT_TRUE(remove_file(dir_ + "/cdi/heddle.dev-claim-u2.json"));  // as after a reboot
  start("again");
  EXPECT_TRUE(has_cdi("u2")) << "made good before the kubelet asks";
  EXPECT_EQ(prepare({"u1"}).claims().at("u1").SerializeAsString(), first.claims().at("u1").SerializeAsString());
  EXPECT_NE(prepare({"u3"}).claims().at("u3").error(), "") << "still full";
  const auto beta =
      prepare<dra_beta::DRAPlugin, dra_beta::NodePrepareResourcesRequest, dra_beta::NodePrepareResourcesResponse>(
          {"u1"});
  EXPECT_EQ(beta.claims().at("u1").devices(0).cdi_device_ids(0), "heddle.dev/claim=u1-gpu");
  ASSERT_TRUE(api_.remove(claim_path("u1")));
  EXPECT_EQ(unprepare("u1"), "") << "also when the claim is gone";
  EXPECT_EQ(unprepare("u1"), "");
  EXPECT_EQ(unprepare("unknown"), "");
  EXPECT_FALSE(has_cdi("u1"));
  EXPECT_EQ(prepare({"u3"}).claims().at("u3").error(), "");
}

TEST_F(AgentTest, RefusesAContainerWithTwoClaims) {
  const auto put_pod = [&](const std::string& name, const json& containers) {
    api_.put("/api/v1/namespaces/ns/pods/" + name,
             {{"kind", "Pod"},
              {"apiVersion", "v1"},
              {"metadata", {{"name", name}, {"namespace", "ns"}, {"uid", name + "-uid"}}},
              {"spec",
               {{"nodeName", "node-1"},
                {"containers", containers},
                {"resourceClaims", json::array({{{"name", "x"}, {"resourceClaimName", "c-u1"}},
                                                {{"name", "y"}, {"resourceClaimName", "c-u2"}}})}}}});
  };
  const auto container = [](const std::string& name, const std::vector<std::string>& claims) {
    json used = json::array();
    for (const std::string& claim : claims) used.push_back({{"name", claim}});
    return json{{"name", name}, {"image", "i"}, {"resources", {{"claims", std::move(used)}}}};
  };
  start();
  put_pod("pod", json::array({container("main", {"x", "y"})}));
  put_claim("u1", "1Gi", 10, "gpu-0", "pod-uid");
  put_claim("u2", "1Gi", 10, "gpu-1", "pod-uid");
  const auto both = prepare({"u1", "u2"});
  for (const char* uid : {"u1", "u2"}) {
    EXPECT_NE(both.claims().at(uid).error().find("in one claim"), std::string::npos) << both.claims().at(uid).error();
    EXPECT_FALSE(has_cdi(uid));
  }
  // The kubelet names only the second when the first is prepared for another pod.
  put_pod("other", json::array({container("main", {"x"})}));
  put_claim("u1", "1Gi", 10, "gpu-0", "other-uid");
  EXPECT_EQ(prepare({"u1"}).claims().at("u1").error(), "");
  EXPECT_NE(prepare({"u2"}).claims().at("u2").error(), "");
  put_pod("pod", json::array({container("a", {"x"}), container("b", {"y"})}));
  ASSERT_TRUE(eventually([&] { return prepare({"u2"}).claims().at("u2").error().empty(); })) << "one a container";
}

// Three pods take their turns on a card that has room for two of them while the agent dies again and again.
TEST_F(AgentTest, DyingAtRandomMomentsUnderLoadLosesNothingAndLeavesNothing) {
  constexpr size_t kPods = 4;
  constexpr int kDeaths = 12;
  for (size_t i = 0; i < kPods; ++i) put_claim("k" + std::to_string(i), "3Gi", 20);
  start();
  const std::string socket = plugin_socket();  // start() writes what it is made of
  std::atomic<bool> ends = false;
  std::atomic<int> held = 0;
  std::atomic<int> granted = 0;
  const auto call_prepare = [&](const std::string& uid) -> std::optional<std::string> {
    dra::NodePrepareResourcesRequest request;
    auto* claim = request.add_claims();
    claim->set_namespace_("ns");
    claim->set_name("c-" + uid);
    claim->set_uid(uid);
    dra::NodePrepareResourcesResponse response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    const auto stub = dra::DRAPlugin::NewStub(connect(socket));
    if (!stub->NodePrepareResources(&context, request, &response).ok()) return std::nullopt;
    return response.claims().at(uid).error();
  };
  const auto call_unprepare = [&](const std::string& uid) {
    dra::NodeUnprepareResourcesRequest request;
    auto* claim = request.add_claims();
    claim->set_namespace_("ns");
    claim->set_name("c-" + uid);
    claim->set_uid(uid);
    dra::NodeUnprepareResourcesResponse response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    const auto stub = dra::DRAPlugin::NewStub(connect(socket));
    return stub->NodeUnprepareResources(&context, request, &response).ok() && response.claims().at(uid).error().empty();
  };
  std::vector<std::thread> pods(kPods);
  for (size_t i = 0; i < kPods; ++i) {
    pods[i] = std::thread([&, uid = "k" + std::to_string(i)] {
      while (!ends) {
        const std::optional<std::string> error = call_prepare(uid);
        if (error && error->empty()) {
          ++granted;
          EXPECT_LE(++held, 2) << "8 GiB hold two shares of 3 GiB";
          EXPECT_TRUE(has_cdi(uid)) << "what was answered is there";
          EXPECT_TRUE(file_exists(dir_ + "/state/claims/" + uid + "/gpu/limits"));
          --held;
        }
        while (!call_unprepare(uid)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    });
  }
  std::minstd_rand random(7);
  for (int death = 0; death < kDeaths; ++death) {
    const int before = granted;
    ASSERT_TRUE(eventually([&] { return granted > before; })) << "after " << death << " deaths";
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30000));
    stop(SIGKILL);
    start();
  }
  ends = true;
  for (std::thread& pod : pods) pod.join();
  EXPECT_TRUE(list_directory(dir_ + "/state/claims")->empty());
  EXPECT_TRUE(list_directory(dir_ + "/cdi")->empty());
  EXPECT_EQ(read_file("/proc/self/mounts")->find(dir_), std::string::npos) << "no mount is left";
  EXPECT_EQ(prepare({"k0"}).claims().at("k0").error(), "");
  ASSERT_EQ(unprepare("k0"), "");
}

TEST_F(AgentTest, AClaimThatEndedUnseenGivesWay) {
  start();
  put_claim("u1", "8Gi", 100);
  ASSERT_EQ(prepare({"u1"}).claims().at("u1").error(), "");
  put_claim("u2", "1Gi", 10);
  EXPECT_NE(prepare({"u2"}).claims().at("u2").error(), "");
  ASSERT_TRUE(api_.remove(claim_path("u1")));
  EXPECT_EQ(prepare({"u2"}).claims().at("u2").error(), "");
  EXPECT_FALSE(has_cdi("u1"));
}

TEST_F(AgentTest, ParallelPreparesFromManyConnections) {
  start();
  for (int i = 0; i < 12; ++i) put_claim("p" + std::to_string(i), "1Gi", 5);
  std::atomic<int> granted = 0;
  std::vector<std::thread> threads(12);
  for (size_t i = 0; i < 12; ++i) {
    threads[i] = std::thread([&, i] {
      const std::string uid = "p" + std::to_string(i);
      if (prepare({uid}).claims().at(uid).error().empty()) ++granted;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(granted, 8);
}

TEST_F(AgentTest, StreamsHealthAndItsChanges) {
  start();
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  const auto stub = ::v1::DRAResourceHealth::NewStub(connect(plugin_socket()));
  const auto reader = stub->NodeWatchResources(&context, {});
  ::v1::NodeWatchResourcesResponse response;
  const auto health_of = [&](int index) {
    return response.devices_size() > index ? response.devices(index).health() : ::v1::UNKNOWN;
  };
  while (health_of(1) != ::v1::HEALTHY) ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.devices(1).device().device_name(), "gpu-1");
  set_fault("lost");
  while (health_of(1) != ::v1::UNHEALTHY) ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(health_of(0), ::v1::HEALTHY);
  context.TryCancel();
}

TEST_F(AgentTest, KeepsWorkingWhileTheVendorHangs) {
  start();
  ASSERT_TRUE(eventually([&] { return api_.list(kSlices).size() == 1; }));
  set_fault("hang");
  put_claim("u1", "1Gi", 10);
  EXPECT_EQ(prepare({"u1"}).claims().at("u1").error(), "") << "the last known cards still stand";
  set_fault("crash");
  ASSERT_TRUE(eventually([&] { return taints(0).size() == 2; })) << "unhealthy after several failures";
  set_fault("none");
  ASSERT_TRUE(eventually([&] { return taints(0).size() == 1; })) << "and well again";
}

// The process and those that it started, and so on.
std::vector<std::string> process_tree(const std::string& pid) {
  std::vector<std::string> tree = {pid};
  for (size_t i = 0; i < tree.size(); ++i) {
    const auto threads = list_directory("/proc/" + tree[i] + "/task");
    for (const std::string& thread : threads.value_or(std::vector<std::string>())) {
      std::istringstream children(
          read_file("/proc/" + tree[i] + "/task/" + thread + "/children", size_t{1} << 16).value_or(""));
      for (std::string child; children >> child;) tree.push_back(child);
    }
  }
  return tree;
}

// Resident memory of several processes in MiB, a page of a file that more than one of them maps counted once: what a
// machine has to have for them. (PSS would give a part of the pages of common libraries to whoever else has them.)
double resident_mib(const std::vector<std::string>& pids) {
  std::map<std::string, int64_t> shared;  // by what is mapped: the most that one process has of it
  int64_t kib = 0;
  for (const std::string& pid : pids) {
    std::map<std::string, int64_t> own;
    std::string mapped;
    std::istringstream lines(read_file("/proc/" + pid + "/smaps", size_t{16} << 20).value_or(""));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string key, value, offset, device, inode;
      words >> key >> value;
      if (!key.ends_with(':')) {
        words >> offset >> device >> inode;
        mapped = device + " " + inode + " " + offset;
      } else if (key.starts_with("Private_") && key != "Private_Hugetlb:") {
        kib += std::stoll(value);
      } else if (key == "Shared_Clean:" || key == "Shared_Dirty:") {
        own[mapped] += std::stoll(value);
      }
    }
    for (const auto& [what, size] : own) shared[what] = std::max(shared[what], size);
  }
  for (const auto& [what, size] : shared) kib += size;
  return static_cast<double>(kib) / 1024;
}

// Not a limit that a busy machine could break: only the memory is asserted. The latencies are printed, and written for
// the benchmark when HEDDLE_AGENT_BENCH names a file.
TEST_F(AgentTest, LatencyOfPrepareAndMemoryOfTheAgent) {
  const std::string out = environment("HEDDLE_AGENT_BENCH");
  const int rounds = out.empty() ? 5 : 200;
  start();
  ASSERT_TRUE(eventually([&] { return api_.list(kSlices).size() == 1; }));
  std::vector<double> milliseconds;
  for (int i = 0; i < rounds; ++i) {
    const std::string uid = "b" + std::to_string(i);
    put_claim(uid, "1Gi", 5);
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(prepare({uid}).claims().at(uid).error(), "");
    milliseconds.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    ASSERT_EQ(unprepare(uid), "");
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  const auto percentile = [&](size_t percent) { return milliseconds[(milliseconds.size() - 1) * percent / 100]; };
  const std::vector<std::string> tree = process_tree(std::to_string(pid_));
  EXPECT_EQ(tree.size(), 3U) << "the agent, and a worker for each vendor's library";
  const double rss_mib = resident_mib(tree);
  EXPECT_GT(rss_mib, 5);
  const json result = {
      {"agent.prepare_p50_ms", percentile(50)}, {"agent.prepare_p99_ms", percentile(99)}, {"agent.rss_mib", rss_mib}};
  std::cout << result.dump() << "\n";
  if (environment("HEDDLE_SANITIZED").empty()) {
    EXPECT_LT(rss_mib, 40);
  }
  if (!out.empty()) {
    ASSERT_TRUE(write_file_atomic(out, result.dump(2) + "\n", 0644));
  }
}

}  // namespace
}  // namespace heddle::agent
