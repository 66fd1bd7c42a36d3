// The thin shell around the Reconciler: queue, sinks, ledger versions, quotas, certificates, and what decides whether
// to start.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "controller/certificates.h"
#include "controller/controller.h"
#include "controller/event_queue.h"
#include "controller/ledger.h"
#include "controller/quota.h"
#include "controller/watches.h"
#include "dialects/claim_form.h"

namespace heddle::controller {
namespace {

using Json = nlohmann::json;

std::shared_ptr<const catalog::Requests> rules() {
  static const auto kRules = std::make_shared<const catalog::Requests>(catalog::Requests::built_in().value());
  return kRules;
}

DeviceUsage nvidia(int64_t devices, int64_t memory_mib = 0, int64_t cores = 0, int64_t percent = 0) {
  return {{{"nvidia", {devices, memory_mib, cores, percent}}}};
}

model::ClaimSpec whole_card() {
  dialects::Ask ask;
  ask.vendor = "nvidia";
  return dialects::claim_spec({{ask}, false});
}

model::ClaimSpec share(int64_t count, int64_t percent, int64_t cores) {
  dialects::Ask ask;
  ask.vendor = "nvidia";
  ask.kind = dialects::Ask::Kind::kShare;
  ask.count = count;
  ask.percent = percent;
  ask.cores = cores;
  return dialects::claim_spec({{ask}, false});
}

std::string pod_text(const std::string& name, const std::string& uid) {
  return Json{{"metadata", {{"name", name}, {"namespace", "d"}, {"uid", uid}, {"resourceVersion", "1"}}},
              {"spec", Json::object()}}
      .dump();
}

TEST(EventQueue, CoalescesObjectsAndKeepsTheOrderOfTheRest) {
  EventQueue queue;
  queue.push(*parse_object(ObjectKind::kPod, pod_text("a", "1")));
  queue.push(TaskEvent{[] {}});
  queue.push(*parse_object(ObjectKind::kPod, pod_text("a", "2")));
  queue.push(ObjectEvent{ObjectKind::kPod, "d/a", Removed{"2"}});
  const auto events = queue.pop(0);
  ASSERT_EQ(events.size(), 2U);
  const auto& removed = std::get<Removed>(std::get<ObjectEvent>(events[0]).what);
  EXPECT_TRUE(removed.uid.empty());  // the reader never saw uid 2 and may still know uid 1
  EXPECT_TRUE(queue.pop(0).empty());
  queue.close();
  queue.push(TaskEvent{[] {}});
  EXPECT_TRUE(queue.pop(1'000'000'000).empty());
}

TEST(ObjectSink, ANewListRemovesWhatItNoLongerHas) {
  const SystemClock clock;
  const Logger log("test", LogLevel::kError, clock);
  EventQueue queue;
  int lists = 0;
  ObjectSink sink(ObjectKind::kPod, queue, log, [&] { ++lists; });
  const std::string a = pod_text("a", "1");
  const std::string b = pod_text("b", "2");
  sink.replace({a, b});
  EXPECT_EQ(queue.pop(0).size(), 2U);
  sink.deleted(a);
  sink.added_or_modified(pod_text("c", "3"));
  EXPECT_EQ(queue.pop(0).size(), 2U);
  sink.replace({pod_text("c", "3")});
  const auto events = queue.pop(0);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(std::get<ObjectEvent>(events[1]).key, "d/b");
  EXPECT_EQ(std::get<Removed>(std::get<ObjectEvent>(events[1]).what).uid, "2");
  EXPECT_EQ(lists, 2);
}

model::ResourceClaim claim(const std::string& version, const std::string& uid = "u") {
  model::ResourceClaim out;
  out.meta.name_space = "d";
  out.meta.name = "c";
  out.meta.uid = uid;
  out.meta.resource_version = version;
  return out;
}

TEST(Ledger, OlderVersionsAndGoneClaimsChangeNothing) {
  Ledger ledger("accelerator.heddle.dev");
  EXPECT_EQ(ledger.upsert(claim("10")), Ledger::Change::kContent);
  EXPECT_EQ(ledger.upsert(claim("9")), Ledger::Change::kNone);
  EXPECT_EQ(ledger.find("d/c")->meta.resource_version, "10");
  ledger.remove("d/c", "other");
  EXPECT_NE(ledger.find("d/c"), nullptr);
  ledger.remove("d/c", "u");
  EXPECT_EQ(ledger.find("d/c"), nullptr);
  EXPECT_EQ(ledger.upsert(claim("11")), Ledger::Change::kNone);  // a late answer
  EXPECT_EQ(ledger.upsert(claim("12", "v")), Ledger::Change::kContent);
}

TEST(Ledger, AClaimOfTheSameNameDoesNotInheritAPlan) {
  Ledger ledger("accelerator.heddle.dev");
  ledger.upsert(claim("1"));
  model::Allocation allocation;
  allocation.results.push_back({"r",
                                "accelerator.heddle.dev",
                                "n/nvidia",
                                "x",
                                false,
                                {},
                                {},
                                {},
                                "s",
                                {{"memory", Quantity::bytes(int64_t{5} << 20)}, {"cores", Quantity::from_int(7)}}});
  ledger.plan("d/c", {}, allocation);
  EXPECT_EQ(ledger.usage("d"), nvidia(1, 5, 7));
  ledger.upsert(claim("2"));
  EXPECT_NE(ledger.planned("d/c"), nullptr);
  ledger.upsert(claim("3", "new"));
  EXPECT_EQ(ledger.planned("d/c"), nullptr);
  EXPECT_EQ(ledger.usage("d"), DeviceUsage{});
}

TEST(Quota, ReadsOnlyWhatItCounts) {
  const auto quota = parse_quota(
      R"({"metadata":{"name":"q","namespace":"d"},"spec":{"hard":{"cpu":"4","requests.nvidia.com/gpu":"2","limits.nvidia.com/gpumem":"20k"}}})");
  ASSERT_TRUE(quota.has_value());
  EXPECT_EQ(quota->hard,
            (std::map<std::string, int64_t>{{"requests.nvidia.com/gpu", 2}, {"limits.nvidia.com/gpumem", 20000}}));
  EXPECT_TRUE(
      parse_quota(
          R"({"metadata":{},"spec":{"scopes":["CrossNamespacePodAffinity"],"hard":{"requests.nvidia.com/gpu":"0"}}})")
          ->hard.empty());
  EXPECT_FALSE(parse_quota("[]").has_value());
  QuotaTable table(rules());
  table.upsert(*quota);
  const auto exceeded = [&](const std::string& name_space, DeviceUsage used, DeviceUsage ask) {
    return table.exceeded(name_space, {}, [&](const Quota&) { return used; }, ask).has_value();
  };
  EXPECT_FALSE(exceeded("d", nvidia(1, 0, 0), nvidia(1, 20000, 0)));
  EXPECT_TRUE(exceeded("d", nvidia(1, 0, 0), nvidia(2, 0, 0)));
  EXPECT_TRUE(exceeded("d", nvidia(0, 1, 0), nvidia(0, 20000, 0)));
  EXPECT_FALSE(exceeded("other", nvidia(9, 9, 9), nvidia(9, 9, 9)));
  table.remove("d/q");
  EXPECT_FALSE(exceeded("d", nvidia(1, 0, 0), nvidia(2, 0, 0)));
}

TEST(Quota, PercentagesOfMemoryAreCountedFromTheConfiguration) {
  const model::ClaimSpec spec = share(2, 30, 10);
  EXPECT_EQ(least_usage(spec), nvidia(2, 0, 20, 60));
  model::Allocation allocation;
  for (const char* device : {"gpu-0", "gpu-1"}) {
    model::DeviceResult result;
    result.request = "gpu";
    result.driver = "accelerator.heddle.dev";
    result.device = device;
    result.consumed_capacity = {{"memory", Quantity::bytes(int64_t{7} << 20)}, {"cores", Quantity::from_int(10)}};
    allocation.results.push_back(result);
  }
  allocation.config.push_back({false, spec.config.front()});
  EXPECT_EQ(usage_of(spec, allocation, "accelerator.heddle.dev"), nvidia(2, 14, 20, 60));
  EXPECT_EQ(least_usage(whole_card()), nvidia(1, 0, 100, 0));
}

TEST(Quota, EachVendorsKeysCountItsOwnDevices) {
  struct Case {
    const char* key;
    const char* kind;
    Amounts amounts;
    int64_t counted;
  };
  const Case cases[] = {{"requests.nvidia.com/gpu", "nvidia", {2, 0, 0, 0}, 2},
                        {"requests.volcano.sh/vgpu-number", "nvidia", {2, 0, 0, 0}, 2},
                        {"requests.nvidia.com/gpu", "amd", {2, 0, 0, 0}, 0},
                        {"requests.nvidia.com/gpu", "nvidia#1g.5gb", {2, 0, 0, 0}, 0},
                        {"requests.nvidia.com/mig-1g.5gb", "nvidia#1g.5gb", {2, 0, 0, 0}, 2},
                        {"limits.nvidia.com/gpumem", "nvidia", {1, 3000, 0, 0}, 3000},
                        {"limits.cambricon.com/mlu.smlu.vmemory", "cambricon", {1, 257, 0, 0}, 2},
                        {"requests.mthreads.com/sgpu-core", "mthreads", {1, 0, 50, 0}, 8},
                        {"requests.aws.amazon.com/neuroncore", "aws", {2, 0, 0, 0}, 4},
                        {"requests.huawei.com/Ascend910B4", "ascend/910B4,Ascend910B4", {3, 0, 0, 0}, 3},
                        {"requests.huawei.com/Ascend910B4-1", "ascend/910B4,Ascend910B4", {3, 0, 0, 0}, 0},
                        {"requests.enflame.com/drs-gcu", "enflame#3g", {2, 0, 0, 0}, 6},
                        {"requests.enflame.com/drs-gcu", "enflame", {2, 0, 0, 0}, 0},
                        {"requests.enflame.com/drs-gcu", "nvidia#3g", {2, 0, 0, 0}, 0},
                        {"requests.enflame.com/gcu", "enflame#3g", {2, 0, 0, 0}, 0},
                        {"limits.nvidia.com/gpumem-percentage", "nvidia", {1, 0, 0, 30}, 30}};
  for (const Case& c : cases) {
    QuotaTable table(rules());
    table.upsert({"d", "q", {{c.key, 0}}, {}});
    const DeviceUsage ask{{{c.kind, c.amounts}}};
    const auto reason = table.exceeded("d", {}, [](const Quota&) { return DeviceUsage{}; }, ask);
    EXPECT_EQ(reason.has_value(), c.counted > 0) << c.key << " " << c.kind;
    if (reason) {
      EXPECT_NE(reason->message.find(" " + std::to_string(c.counted) + " more asked"), std::string::npos)
          << reason->message;
    }
  }
}

TEST(Quota, ScopesThatThePodDecides) {
  const PodScope batch{true, true, "batch"};
  const PodScope plain{false, false, ""};
  const auto by_class = [](const std::string& inside) {
    return R"("scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass",)" + inside + "}]}";
  };
  const std::tuple<std::string, bool, bool> cases[] = {
      {R"("scopes":["BestEffort"])", true, false},
      {R"("scopes":["NotBestEffort"])", false, true},
      {R"("scopes":["Terminating"])", true, false},
      {R"("scopes":["NotTerminating"])", false, true},
      {R"("scopes":["Terminating","NotBestEffort"])", false, false},
      {R"("scopes":["PriorityClass"])", true, false},
      {by_class(R"("operator":"In","values":["x","batch"])"), true, false},
      {by_class(R"("operator":"NotIn","values":["batch"])"), false, true},
      {by_class(R"("operator":"DoesNotExist")"), false, true},
      {R"("scopes":[])", true, true},
  };
  for (const auto& [scopes, covers_batch, covers_plain] : cases) {
    const auto quota = parse_quota(
        R"({"metadata":{"name":"q","namespace":"d"},"spec":{"hard":{"requests.nvidia.com/gpu":"0"},)" + scopes + "}}");
    ASSERT_TRUE(quota.has_value()) << scopes;
    EXPECT_EQ(quota->covers(batch), covers_batch) << scopes;
    EXPECT_EQ(quota->covers(plain), covers_plain) << scopes;
    QuotaTable table(rules());
    table.upsert(*quota);
    EXPECT_EQ(table.forbidden("d", batch, nvidia(1)).has_value(), covers_batch) << scopes;
  }
  EXPECT_FALSE(parse_quota(R"({"spec":{"scopes":[1]}})").has_value());
  EXPECT_FALSE(parse_quota(R"({"spec":{"scopeSelector":{"matchExpressions":[{}]}}})").has_value());
}

TEST(Certificates, SecretAndBundle) {
  const Time now{1'800'000'000'000'000'000};
  const std::vector<std::string> names = {"heddle-webhook.heddle-system.svc", "127.0.0.1"};
  const auto pair = make_pair(names, now, "");
  ASSERT_TRUE(pair.has_value()) << pair.error().text();
  EXPECT_FALSE(needs_renewal(*pair, names, now));
  EXPECT_TRUE(needs_renewal(*pair, {"other.svc"}, now));
  EXPECT_TRUE(needs_renewal(*pair, names, now + Duration::seconds(300 * 86400)));

  Json secret = Json::parse(secret_patch(*pair, "5"));
  EXPECT_EQ(secret["metadata"]["resourceVersion"], "5");
  const auto back = read_secret(secret.dump());
  ASSERT_TRUE(back.has_value() && back->has_value());
  EXPECT_EQ((*back)->certificate_pem, pair->certificate_pem);
  EXPECT_FALSE(needs_renewal(**back, names, now));
  EXPECT_FALSE(read_secret(R"({"metadata":{}})")->has_value());
  EXPECT_FALSE(read_secret(R"({"data":{"ca.crt":"QQ==","tls.crt":"QQ==","tls.key":"QQ=="}})")->has_value());

  // While a new certificate is on its way to the replicas, the API server trusts both authorities.
  const auto next = make_pair(names, now + Duration::seconds(300 * 86400), pair->ca_pem);
  ASSERT_TRUE(next.has_value());
  EXPECT_NE(next->ca_pem.find(pair->ca_pem), std::string::npos);
  EXPECT_FALSE(needs_renewal(*next, names, now + Duration::seconds(300 * 86400)));

  Json configuration{
      {"metadata", {{"resourceVersion", "7"}}},
      {"webhooks", Json::array({{{"clientConfig", {{"url", "u"}}}}, {{"clientConfig", {{"url", "v"}}}}})}};
  const auto patch = bundle_patch(configuration.dump(), pair->ca_pem);
  ASSERT_TRUE(patch.has_value());
  const Json patched = configuration.patch(Json::parse(*patch));
  EXPECT_EQ(patched["webhooks"][1]["clientConfig"]["url"], "v");
  EXPECT_FALSE(bundle_patch(patched.dump(), pair->ca_pem).has_value());
  EXPECT_TRUE(bundle_patch(patched.dump(), next->ca_pem).has_value());
}

TEST(Baseline, OldClustersAreRefusedWithTheReason) {
  EXPECT_TRUE(check_version(R"({"major":"1","minor":"36","gitVersion":"v1.36.0"})").has_value());
  EXPECT_TRUE(check_version(R"({"major":"1","minor":"37+","gitVersion":"v1.37.2"})").has_value());
  const auto old = check_version(R"({"major":"1","minor":"35","gitVersion":"v1.35.4"})");
  ASSERT_FALSE(old.has_value());
  EXPECT_EQ(old.error().code, Code::kUnsupported);
  EXPECT_NE(old.error().message.find("v1.35.4"), std::string::npos);
  EXPECT_FALSE(check_version("{}").has_value());
}

TEST(DieAt, Forms) {
  EXPECT_EQ(parse_die_at("")->write, 0U);
  EXPECT_EQ(parse_die_at("3")->when, DieAt::When::kAfterAnswer);
  EXPECT_EQ(parse_die_at("3:before")->when, DieAt::When::kBeforeSending);
  for (const char* bad : {"x", "3:", "3:later", ":before", "-1"}) EXPECT_FALSE(parse_die_at(bad).has_value()) << bad;
}

}  // namespace
}  // namespace heddle::controller
