// A controller that starts on a large fleet that is half in use: 10,000 nodes with 10 cards, a claim and a bound pod
// for every second card. Measured: from the first object of the lists, as JSON text, to the first write for the one pod
// that waits; and what the process holds then. The network and the API server are not in it. Prints one JSON object.
//   restart_bench [NODES]
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "codec/codec.h"
#include "controller/reconciler.h"
#include "engine/test_fleet.h"

namespace heddle::controller {
namespace {

constexpr int kCardsANode = 10;

std::string node_text(const std::string& name) {
  return fmt::format(
      R"({{"metadata":{{"name":"{0}","uid":"node-{0}","resourceVersion":"7","labels":{{"kubernetes.io/hostname":"{0}",)"
      R"("topology.kubernetes.io/zone":"a","node.kubernetes.io/instance-type":"gpu10"}}}},"spec":{{}},"status":{{)"
      R"("allocatable":{{"cpu":"128","memory":"1Ti","pods":"250"}},"conditions":[{{"type":"Ready","status":"True"}}]}}}})",
      name);
}

std::string pod_text(const std::string& name, const std::string& node) {
  const std::string place =
      node.empty() ? R"("schedulingGates":[{"name":"heddle.dev/placement"}])" : fmt::format(R"("nodeName":"{}")", node);
  return fmt::format(
      R"({{"metadata":{{"name":"{0}","namespace":"default","uid":"pod-{0}","resourceVersion":"8"}},"spec":{{{1},)"
      R"("resourceClaims":[{{"name":"card","resourceClaimName":"{0}"}}],"containers":[{{"name":"main","image":"work",)"
      R"("resources":{{"requests":{{"cpu":"8","memory":"32Gi"}},"claims":[{{"name":"card"}}]}}}}]}},)"
      R"("status":{{"phase":"{2}"}}}})",
      name, place, node.empty() ? "Pending" : "Running");
}

// granted: the node and card; empty for a claim without an allocation.
std::string claim_text(const std::string& name, const std::string& node, int card) {
  const engine::ClaimRequest request = engine::test::make_claim("default/" + name, {});
  model::ResourceClaim claim;
  claim.meta.name_space = "default";
  claim.meta.name = name;
  claim.meta.uid = "claim-" + name;
  claim.meta.resource_version = "9";
  claim.spec = request.spec;
  if (!node.empty()) {
    model::DeviceResult result;
    result.request = "gpu";
    result.driver = engine::test::kDriver;
    result.pool = node + "/nvidia";
    result.device = fmt::format("gpu-{}", card);
    claim.allocation.emplace();
    claim.allocation->results.push_back(result);
    claim.reserved_for.push_back({.api_group = {}, .resource = "pods", .name = name, .uid = "pod-" + name});
  }
  return codec::claim_json(claim);
}

class Restart {
 public:
  explicit Restart(int nodes) : nodes_(nodes), log_("bench", LogLevel::kError, clock_, 2) {
    ReconcilerOptions options;
    options.rules = std::make_shared<const catalog::Requests>(catalog::Requests::built_in().value());
    reconciler_ = std::make_unique<Reconciler>(std::move(options), clock_, log_);
  }

  // Nothing when something went wrong.
  std::optional<double> run() {
    if (!list()) return std::nullopt;
    const auto start = std::chrono::steady_clock::now();
    reconciler_->lead();
    const std::vector<Write> writes = reconciler_->run();
    spent_ += std::chrono::steady_clock::now() - start;
    for (const Write& write : writes) {
      if (write.kind == WriteKind::kProtectClaim || write.kind == WriteKind::kAllocateClaim) return spent_.count();
    }
    return std::nullopt;
  }

 private:
  template <typename Parse, typename Take>
  bool add(const std::string& text, const Parse& parse, const Take& take) {
    const auto start = std::chrono::steady_clock::now();
    auto object = parse(text);
    if (!object) {
      fmt::print(stderr, "restart: {}\n", object.error().text());
      return false;
    }
    take(std::move(*object));
    spent_ += std::chrono::steady_clock::now() - start;
    return true;
  }

  bool add_pod(const std::string& name, const std::string& node, int card) {
    return add(pod_text(name, node), codec::parse_pod, [&](auto pod) { reconciler_->upsert_pod(std::move(pod)); }) &&
           add(claim_text(name, node, card), codec::parse_claim,
               [&](auto claim) { reconciler_->upsert_claim(std::move(claim)); });
  }

  bool list() {
    reconciler_->upsert_class(engine::test::make_class());
    for (int n = 0; n < nodes_; ++n) {
      const std::string name = fmt::format("node-{:05}", n);
      if (!add(node_text(name), codec::parse_node, [&](auto node) { reconciler_->upsert_node(std::move(node)); }) ||
          !add(codec::slice_json(engine::test::make_slice(name, kCardsANode, 80000 * engine::test::kMiB)),
               codec::parse_slice, [&](auto slice) { reconciler_->upsert_slice(std::move(slice)); })) {
        return false;
      }
      for (int card = 0; card < kCardsANode; card += 2) {
        if (!add_pod(fmt::format("pod-{:05}-{}", n, card), name, card)) return false;
      }
    }
    return add_pod("waits", "", 0);
  }

  int nodes_;
  SystemClock clock_;
  Logger log_;
  std::unique_ptr<Reconciler> reconciler_;
  std::chrono::duration<double> spent_{0};
};

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  file >> total >> resident;
  return static_cast<double>(resident * sysconf(_SC_PAGESIZE)) / (1 << 20);
}

}  // namespace
}  // namespace heddle::controller

int main(int argc, char** argv) {
  const int nodes = argc > 1 ? std::atoi(argv[1]) : 10'000;
  if (nodes <= 0) {
    fmt::print(stderr, "usage: restart_bench [NODES]\n");
    return 1;
  }
  heddle::controller::Restart restart(nodes);
  const auto seconds = restart.run();
  if (!seconds) {
    fmt::print(stderr, "restart: the pod that waits got nothing\n");
    return 3;
  }
  fmt::print("{{\"placement.nodes10k.rss_mib\": {:.0f}, \"placement.nodes10k.restart_s\": {:.2f}}}\n",
             heddle::controller::resident_mib(), *seconds);
  return 0;
}
