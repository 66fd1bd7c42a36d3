#include "dialects/translate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/random.h"
#include "catalog/catalog.h"
#include "catalog/requests.h"
#include "codec/codec.h"
#include "dialects/testing.h"

namespace heddle::dialects {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kUid = "0123456789abcdef-0000";

Json container(const std::string& name, const Json& limits) {
  Json out;
  out["name"] = name;
  out["image"] = "app";
  out["resources"]["limits"] = limits;
  out["resources"]["requests"] = limits;
  return out;
}

Json pod(Json containers, Json init = nullptr) {
  Json out = Json::parse(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"default"}})");
  // {container} is a list of one to GCC and the container itself to clang.
  for (Json* list : {&containers, &init})
    if (list->is_object()) *list = Json::array({*list});
  out["spec"]["containers"] = std::move(containers);
  if (!init.is_null()) out["spec"]["initContainers"] = std::move(init);
  return out;
}

Translation translate(const Json& object, std::string_view uid = kUid) {
  auto out = translate_pod(testing::rules(), object.dump(), uid);
  EXPECT_TRUE(out.has_value()) << out.error().text();
  return out.value_or(Translation{});
}

Json patched(const Json& object, const Translation& translation) {
  return translation.changed ? object.patch(Json::parse(translation.json_patch)) : object;
}

const Json kShare{{"nvidia.com/gpu", "1"}, {"nvidia.com/gpumem", "3000"}, {"nvidia.com/gpucores", "30"}, {"cpu", "1"}};

TEST(Translate, OneShare) {
  const Json before = pod({container("main", kShare)});
  const Translation t = translate(before);
  ASSERT_TRUE(t.refusals.empty());
  const Json after = patched(before, t);
  EXPECT_EQ(after["spec"]["schedulingGates"], Json::parse(R"([{"name":"heddle.dev/placement"}])"));
  EXPECT_EQ(after["spec"]["resourceClaims"],
            Json::parse(R"([{"name":"heddle-main","resourceClaimName":"p-main-0123456789"}])"));
  const Json& resources = after["spec"]["containers"][0]["resources"];
  EXPECT_EQ(resources,
            Json::parse(R"({"limits":{"cpu":"1"},"requests":{"cpu":"1"},"claims":[{"name":"heddle-main"}]})"));
  const auto requests = parse_requests(after["metadata"]["annotations"]["heddle.dev/request"].get<std::string>());
  ASSERT_TRUE(requests.has_value());
  ASSERT_EQ(requests->size(), 1U);
  EXPECT_EQ(requests->front().claim_name, "p-main-0123456789");
  EXPECT_EQ(requests->front().spec, t.requests.front().spec);
  EXPECT_EQ(t.explanations,
            std::vector<std::string>{
                "container main: HAMi: nvidia.com/gpu=1, nvidia.com/gpumem=3000, nvidia.com/gpucores=30: "
                "a share of 1 NVIDIA GPU: 3000 MiB and 30 % of the compute"});
}

TEST(Translate, PodsThatAskForNothingAreNotTouched) {
  for (const Json& limits :
       {Json{{"cpu", "1"}}, Json{{"nvidia.com/gpu", "0"}}, Json{{"example.com/gpu", "1"}}, Json::object()}) {
    const Translation t = translate(pod({container("main", limits)}));
    EXPECT_FALSE(t.changed) << t.json_patch;
    EXPECT_TRUE(t.refusals.empty());
    EXPECT_TRUE(t.requests.empty());
  }
}

TEST(Translate, TwoContainersHaveTheirOwnClaims) {
  const Json before =
      pod({container("a", kShare), container("b", {{"nvidia.com/gpumem", "5000"}}), container("c", Json::object())});
  const Translation t = translate(before);
  ASSERT_EQ(t.requests.size(), 2U);
  EXPECT_NE(t.requests[0].claim_name, t.requests[1].claim_name);
  const Json after = patched(before, t);
  EXPECT_FALSE(after["spec"]["containers"][2]["resources"].contains("claims"));
}

TEST(Translate, EqualInitContainersUseTheClaimOfAnAppContainer) {
  Json sidecar = container("side", kShare);
  sidecar["restartPolicy"] = "Always";
  const Json before =
      pod({container("a", kShare)}, {container("i", kShare), sidecar, container("j", {{"nvidia.com/gpumem", "1"}}),
                                     container("k", {{"nvidia.com/gpumem", "1"}})});
  const Translation t = translate(before);
  ASSERT_EQ(t.requests.size(), 5U);
  std::map<std::string, std::string> claims;
  for (const ContainerRequest& request : t.requests) claims[request.container] = request.claim_name;
  EXPECT_EQ(claims["i"], claims["a"]);
  EXPECT_NE(claims["side"], claims["a"]);
  EXPECT_NE(claims["j"], claims["a"]);
  EXPECT_EQ(claims["k"], claims["j"]);
  EXPECT_EQ(patched(before, t)["spec"]["resourceClaims"].size(), 3U);
}

TEST(Translate, ForgedAnnotationIsOverwrittenOrRemoved) {
  Json before = pod({container("main", {{"cpu", "1"}})});
  const std::string forged =
      R"([{"container":"main","claimRef":"heddle-main","claimName":"x","spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"heddle-nvidia","count":8}}]}}}])";
  before["metadata"]["annotations"]["heddle.dev/request"] = forged;
  Translation t = translate(before);
  EXPECT_TRUE(t.requests.empty());
  Json after = patched(before, t);
  EXPECT_FALSE(after["metadata"]["annotations"].contains("heddle.dev/request"));
  EXPECT_FALSE(after["spec"].contains("schedulingGates"));

  before["spec"]["containers"][0] = container("main", kShare);
  t = translate(before);
  ASSERT_EQ(t.requests.size(), 1U);
  EXPECT_EQ(t.requests[0].spec.requests[0].exactly->count, 1);
  after = patched(before, t);
  EXPECT_EQ(after["metadata"]["annotations"]["heddle.dev/request"], requests_json(t.requests));
}

TEST(Translate, ReinvocationKeepsNamesAndAddsWhatCameLater) {
  const Json before = pod({container("main", kShare)});
  Json once = patched(before, translate(before));
  EXPECT_FALSE(translate(once, "ffffffffffffffff").changed);

  once["spec"]["containers"].push_back(container("injected", {{"nvidia.com/gpumem", "10"}}));
  once["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] =
      "4000";  // written again by another webhook
  const Translation t = translate(once, "ffffffffffffffff");
  ASSERT_EQ(t.requests.size(), 2U);
  EXPECT_EQ(t.requests[0].claim_name, "p-main-0123456789");
  EXPECT_EQ(t.requests[0].spec.requests[0].exactly->capacity.at("memory").value(), int64_t{4000} << 20);
  EXPECT_EQ(t.requests[1].claim_name, "p-injected-ffffffffff");
  const Json twice = patched(once, t);
  EXPECT_EQ(twice["spec"]["resourceClaims"].size(), 2U);
  EXPECT_FALSE(translate(twice, "eeeeeeeeeeeeeeee").changed);
}

TEST(Translate, AUsersOwnEntryOfTheSameNameIsNotTaken) {
  Json before = pod({container("main", kShare)});
  before["spec"]["resourceClaims"] = Json::parse(R"([{"name":"heddle-main","resourceClaimName":"mine"}])");
  const Json after = patched(before, translate(before));
  ASSERT_EQ(after["spec"]["resourceClaims"].size(), 2U);
  EXPECT_EQ(after["spec"]["resourceClaims"][0]["resourceClaimName"], "mine");
  EXPECT_NE(after["spec"]["resourceClaims"][1]["name"], "heddle-main");
}

TEST(Translate, NodeNameIsRefusedWithTheSelectorToWrite) {
  Json before = pod({container("main", kShare)});
  before["spec"]["nodeName"] = "n1";
  const Translation t = translate(before);
  ASSERT_EQ(t.refusals.size(), 1U);
  EXPECT_EQ(t.refusals[0].field, "spec.nodeName");
  EXPECT_NE(t.refusals[0].message.find("nodeSelector: {kubernetes.io/hostname: n1}"), std::string::npos);
  EXPECT_FALSE(t.changed);
}

TEST(Translate, NodeNameIsRefusedToAnEarlierPassToo) {
  const Json before = pod({container("main", kShare)});
  Json once = patched(before, translate(before));
  once["spec"]["nodeName"] = "n1";
  const Translation t = translate(once);
  ASSERT_EQ(t.refusals.size(), 1U);
  EXPECT_EQ(t.refusals[0].field, "spec.nodeName");
}

TEST(Translate, ResourcesOfOtherPluginsOfTheVendorStay) {
  Json asked = kShare;
  asked["nvidia.com/hostdev"] = "1";
  Json before = pod({container("main", asked), container("net", {{"nvidia.com/rdma_shared", "1"}})});
  const Translation t = translate(before);
  EXPECT_TRUE(t.refusals.empty());
  ASSERT_EQ(t.requests.size(), 1U);
  const Json after = patched(before, t);
  EXPECT_EQ(after["spec"]["containers"][0]["resources"]["limits"], (Json{{"nvidia.com/hostdev", "1"}, {"cpu", "1"}}));
  EXPECT_EQ(after["spec"]["containers"][1], before["spec"]["containers"][1]);
  EXPECT_FALSE(translate(pod({container("net", {{"nvidia.com/hostdev", "1"}})})).changed);
}

// An annotation that agrees with the pod counts as an earlier pass, whoever wrote it: it must not be worth more than
// the resources that the same user may write.
TEST(Translate, AHandWrittenPassIsWorthNoMoreThanResources) {
  const Json before = pod({container("main", kShare)});
  const Json once = patched(before, translate(before));
  EXPECT_FALSE(translate(once).changed);
  const std::string annotation = once["metadata"]["annotations"]["heddle.dev/request"];
  const auto forged = [&](const std::string& from, const std::string& to) {
    std::string text = annotation;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    Json object = once;
    object["metadata"]["annotations"]["heddle.dev/request"] = text.replace(at, from.size(), to);
    return translate(object);
  };
  for (const auto& [from, to] :
       std::initializer_list<std::pair<const char*, const char*>>{{"\"3000Mi\"", "\"0\""},
                                                                  {"\"cores\":\"30\"", "\"cores\":\"101\""},
                                                                  {"\"count\":1", "\"count\":2"},
                                                                  {"\"count\":1", "\"adminAccess\":true,\"count\":1"},
                                                                  {"heddle-nvidia", "heddle"}}) {
    const Translation t = forged(from, to);
    EXPECT_TRUE(t.requests.empty()) << to;
    EXPECT_EQ(t.warnings.size(), 1U) << to;
  }
  const Translation other = forged("\"3000Mi\"", "\"4000Mi\"");
  ASSERT_EQ(other.requests.size(), 1U);  // as if the user had written 4000; quotas count it as well
}

TEST(Translate, MirrorPodsAreLeftAlone) {
  Json before = pod({container("main", kShare)});
  before["spec"]["nodeName"] = "n1";
  before["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "abc";
  const Translation t = translate(before);
  EXPECT_FALSE(t.changed);
  EXPECT_TRUE(t.refusals.empty());
  EXPECT_EQ(t.warnings.size(), 1U);
}

TEST(Translate, EveryRefusalIsReported) {
  const Translation t = translate(
      pod({container("a", {{"nvidia.com/gpumem", "16Gi"}}), container("b", {{"nvidia.com/gpucores", "150"}})}));
  EXPECT_EQ(t.refusals.size(), 2U);
  EXPECT_FALSE(t.changed);
}

TEST(Translate, AResourceNameInAnAnnotationIsRefused) {
  Json before = pod({container("a", {{"cpu", "1"}})});
  before["metadata"]["annotations"]["nvidia.com/gpumem"] = "3000";
  const Translation t = translate(before);
  ASSERT_EQ(t.refusals.size(), 1U);
  EXPECT_NE(t.refusals[0].message.find("use resources.limits"), std::string::npos);
}

TEST(Translate, OnlyAnInitContainerAsks) {
  const Translation t = translate(pod({container("app", {{"cpu", "1"}})}, {container("warm", kShare)}));
  ASSERT_EQ(t.requests.size(), 1U);
  EXPECT_EQ(t.requests[0].container, "warm");
  EXPECT_TRUE(t.requests[0].init);
}

TEST(Translate, ThreeContainersOfWhichOneAsksForNothing) {
  const Json before = pod({container("half", {{"nvidia.com/gpumem-percentage", "50"}}),
                           container("none", {{"cpu", "1"}}), container("some", {{"nvidia.com/gpumem", "2000"}})},
                          {container("first", {{"cpu", "1"}})});
  const Translation t = translate(before);
  ASSERT_EQ(t.requests.size(), 2U);
  EXPECT_EQ(t.requests[0].container, "half");
  EXPECT_EQ(t.requests[0].spec.config.size(), 1U);
  EXPECT_EQ(t.requests[1].spec.requests[0].exactly->capacity.at("memory").value(), int64_t{2000} << 20);
}

TEST(Translate, TwoVendorsInOneContainerAreOneClaim) {
  const Json before = pod({container("main", {{"nvidia.com/gpu", "1"}, {"hygon.com/dcunum", "2"}})});
  const Translation t = translate(before);
  ASSERT_EQ(t.requests.size(), 1U);
  ASSERT_EQ(t.requests[0].spec.requests.size(), 2U);
  EXPECT_NE(t.requests[0].spec.requests[0].name, t.requests[0].spec.requests[1].name);
  EXPECT_EQ(t.explanations.size(), 2U);
  EXPECT_FALSE(translate(patched(before, t), "ffffffffff").changed);
}

// Another webhook adds a second vendor to a container that has its claim already.
TEST(Translate, AVendorThatComesLaterJoinsTheClaim) {
  const Json before = pod({container("main", {{"nvidia.com/gpu", "1"}})});
  Json once = patched(before, translate(before));
  once["spec"]["containers"][0]["resources"]["limits"]["hygon.com/dcunum"] = "2";
  const Translation t = translate(once, "ffffffffff");
  ASSERT_EQ(t.requests.size(), 1U);
  EXPECT_EQ(t.requests[0].claim_name, "p-main-0123456789");
  EXPECT_EQ(t.requests[0].spec.requests.size(), 2U);
}

TEST(Translate, WishesThatNobodyKnowsAreWarnedAbout) {
  const auto warnings = [](const char* key, const char* value) {
    Json one = pod({container("main", kShare)});
    one["metadata"]["annotations"][key] = value;
    const Translation t = translate(one);
    EXPECT_TRUE(t.refusals.empty()) << key;
    return t.warnings.size();
  };
  EXPECT_EQ(warnings("hami.io/node-scheduler-policy", "binpack"), 0U);
  EXPECT_EQ(warnings("hami.io/node-scheduler-policy", "binpak"), 1U);
  EXPECT_EQ(warnings("hami.io/gpu-scheduler-policy", "binpack,topology-aware"), 0U);
  EXPECT_EQ(warnings("hami.io/gpu-scheduler-policy", "binpack,nearest"), 1U);
  EXPECT_EQ(warnings("hami.io/device-scoring-weights", "slot=1,core=1,memory=3"), 0U);
  EXPECT_EQ(warnings("hami.io/device-scoring-weights", "slot=1,core=-1,memory=3"), 1U);
  EXPECT_EQ(warnings("hami.io/device-scoring-weights", "slot=1,core=1"), 1U);
  EXPECT_EQ(warnings("hami.io/vgpu-devices-to-allocate", "GPU-1,NVIDIA,3000,0:;"), 1U);
  EXPECT_EQ(warnings("volcano.sh/vgpu-ids-new", ":"), 1U);
  EXPECT_EQ(warnings("nvidia.com/no-such-wish", "x"), 1U);
  EXPECT_EQ(warnings("example.com/other", "x"), 0U);
}

TEST(Translate, PodsOfOtherSchedulersAreTranslatedToo) {
  Json before = pod({container("main", {{"volcano.sh/vgpu-number", "1"}})});
  before["spec"]["schedulerName"] = "volcano";
  const Translation translated = translate(before);
  EXPECT_EQ(translated.requests.size(), 1U);
  ASSERT_EQ(translated.warnings.size(), 1U);  // who binds it is told, because that one has to honour claims
  EXPECT_NE(translated.warnings[0].find("\"volcano\""), std::string::npos);
  before["spec"]["schedulerName"] = "default-scheduler";
  EXPECT_TRUE(translate(before).warnings.empty());
  Json plain = pod({container("main", {{"cpu", "1"}})});
  plain["spec"]["schedulerName"] = "volcano";
  EXPECT_TRUE(translate(plain).warnings.empty());
}

// What the webhook writes is read again by itself and by the controller, for vendors that this program does not know
// too.
TEST(Translate, AVendorOfAnAdministratorStaysTranslated) {
  const auto hardware = catalog::Catalog::built_in();
  ASSERT_TRUE(hardware);
  const auto rules = catalog::Requests::load({{"acme/requests.yaml", "acme", R"(vendor: acme
title: Acme
sources: [their documents]
domains: [{prefix: acme.example/}]
families:
- id: gpu
  dialect: plugin
  noun: Acme GPU
  request: gpu
  count: acme.example/gpu
  memory: {keys: acme.example/mem, unit: 1Mi}
  attributes: {generation: "2"}
)"}},
                                             *hardware);
  ASSERT_TRUE(rules) << rules.error().text();
  const Json before = pod({container("main", {{"acme.example/gpu", "1"}, {"acme.example/mem", "100"}})});
  const auto first = translate_pod(*rules, before.dump(), kUid);
  ASSERT_TRUE(first);
  ASSERT_EQ(first->requests.size(), 1U);
  EXPECT_TRUE(parse_requests(requests_json(first->requests)));
  const auto second = translate_pod(*rules, patched(before, *first).dump(), kUid);
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->changed);
  EXPECT_TRUE(second->warnings.empty());
}

TEST(Translate, WishesThatThePodKeepsAreExplained) {
  Json before = pod({container("main", {{"metax-tech.com/sgpu", "1"}, {"metax-tech.com/vmemory", "4"}})});
  before["metadata"]["annotations"]["metax-tech.com/sgpu-qos-policy"] = "burst-share";
  before["metadata"]["annotations"]["metax-tech.com/sgpu-topology-aware"] = "true";
  const Translation t = translate(before);
  ASSERT_EQ(t.explanations.size(), 1U);
  EXPECT_NE(t.explanations[0].find("metax-tech.com/sgpu-qos-policy=burst-share: how the vendor's driver shares"),
            std::string::npos);
  EXPECT_NE(t.explanations[0].find("metax-tech.com/sgpu-topology-aware=true: a wish"), std::string::npos);
}

// Kubernetes has cpu, memory and hugepages there; a device would be lost without a word.
TEST(Translate, DevicesAmongThePodsOwnResourcesAreRefused) {
  for (const char* list : {"limits", "requests"}) {
    Json before = pod({container("main", {{"cpu", "1"}})});
    before["spec"]["resources"][list] = Json{{"cpu", "2"}, {"google.com/tpu", 4}};
    const Translation t = translate(before);
    ASSERT_EQ(t.refusals.size(), 1U);
    EXPECT_EQ(t.refusals[0].field, fmt::format("spec.resources.{}[google.com/tpu]", list));
    EXPECT_NE(t.refusals[0].message.find("resources.limits of the container"), std::string::npos);
    before["spec"]["resources"][list] = Json{{"cpu", "2"}, {"google.com/tpu", "0"}};
    EXPECT_TRUE(translate(before).refusals.empty());
  }
}

TEST(Translate, AnIgnoredPodIsLeftAloneUntilTold) {
  Json before = pod({container("main", kShare)});
  before["metadata"]["labels"]["hami.io/webhook"] = "ignore";
  const Translation left = translate(before);
  EXPECT_FALSE(left.changed);
  EXPECT_EQ(left.warnings.size(), 1U);
  const auto told = translate_pod(testing::rules(), before.dump(), kUid, {.translate_ignored = true});
  ASSERT_TRUE(told);
  EXPECT_EQ(told->requests.size(), 1U);
}

// The variable is passed on as HAMi's webhook would; a share of 1 gives way. That HAMi has another default is said to
// the user, on the claim and in an event.
TEST(Translate, ALowPriorityGivesWayAndTheOtherDefaultIsSaid) {
  const auto translated = [](const char* priority) {
    const Json before = pod({container("main", {{"nvidia.com/gpumem", "1000"}, {"nvidia.com/priority", priority}})});
    const Translation t = translate(before);
    EXPECT_TRUE(t.refusals.empty());
    EXPECT_EQ(patched(before, t)["spec"]["containers"][0]["env"],
              Json::array({Json{{"name", "CUDA_TASK_PRIORITY"}, {"value", priority}}}));
    return t;
  };
  const Translation high = translated("0");
  ASSERT_EQ(high.requests.at(0).roundings.size(), 1U);
  EXPECT_NE(high.requests[0].roundings[0].find("nvidia.com/priority: 0 (high) asked: the pod comes before"),
            std::string::npos);
  EXPECT_NE(high.explanations.at(0).find("state 1 on what is to give way"), std::string::npos);
  EXPECT_TRUE(high.requests[0].spec.config.empty());
  const Translation low = translated("1");
  EXPECT_TRUE(low.requests.at(0).roundings.empty());
  EXPECT_TRUE(low.warnings.empty());
  ASSERT_EQ(low.requests[0].spec.config.size(), 1U);
  EXPECT_EQ(codec::parse_share_config(low.requests[0].spec.config[0].parameters_json)->value().priority, 1);
}

TEST(Translate, AVariableThatIsNotReadIsSaidToWhoSetsIt) {
  const auto warnings = [](const char* resource, const Json& env) {
    Json before = pod({container("main", {{resource, "1000"}}), container("other", {{"cpu", "1"}})});
    before["spec"]["containers"][0]["env"] = env;
    before["spec"]["containers"][1]["env"] = Json::array({Json{{"name", "CUDA_OVERSUBSCRIBE"}, {"value", "true"}}});
    const Translation t = translate(before);
    EXPECT_TRUE(t.refusals.empty());
    EXPECT_EQ(patched(before, t)["spec"]["containers"][0]["env"], env);
    return t.warnings;
  };
  const Json on = Json::array({Json{{"name", "CUDA_OVERSUBSCRIBE"}, {"value", "true"}}});
  const std::vector<std::string> said = warnings("nvidia.com/gpumem", on);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_TRUE(said[0].starts_with("container main: variable CUDA_OVERSUBSCRIBE is not read: ")) << said[0];
  EXPECT_NE(said[0].find("virtualMemory"), std::string::npos);
  EXPECT_TRUE(
      warnings("nvidia.com/gpumem", Json::array({Json{{"name", "CUDA_OVERSUBSCRIBE"}, {"value", "false"}}})).empty());
  EXPECT_TRUE(
      warnings("nvidia.com/gpumem", Json::array({Json{{"name", "HOME"}, {"value", "/"}}, Json("odd")})).empty());
}

TEST(Translate, VariablesOfTheDialectsWebhookAreSetOnceAndTheUsersStay) {
  Json before = pod(Json::array({container("a", {{"iluvatar.ai/BI-V150-vgpu", "1"}}),
                                 container("b", {{"iluvatar.ai/BI-V150-vgpu", "1"}}), container("c", {{"cpu", "1"}})}));
  before["spec"]["containers"][1]["env"] = Json::array({Json{{"name", "SOL_CONTINER_NAME"}, {"value", "mine"}}});
  const Translation t = translate(before);
  const Json after = patched(before, t);
  EXPECT_EQ(after["spec"]["containers"][0]["env"], Json::array({Json{{"name", "SOL_CONTINER_NAME"}, {"value", "a"}}}));
  EXPECT_EQ(after["spec"]["containers"][1]["env"], before["spec"]["containers"][1]["env"]);
  EXPECT_FALSE(after["spec"]["containers"][2].contains("env"));
  EXPECT_FALSE(translate(after).changed);
}

TEST(Translate, ExplanationsSayWhatAnnotationsRestrict) {
  Json object = pod({container("main", {{"nvidia.com/gpu", "2"}})});
  object["metadata"]["annotations"] = {
      {"nvidia.com/use-gputype", "A100,H100"}, {"nvidia.com/nouse-gpuuuid", "GPU-1"}, {"nvidia.com/numa-bind", "true"}};
  const Translation t = translate(object);
  ASSERT_EQ(t.explanations.size(), 1U);
  EXPECT_EQ(t.explanations[0],
            "container main: HAMi: nvidia.com/gpu=2: 2 NVIDIA GPUs, whole; only product names with a100, h100; none of "
            "the devices GPU-1; all of the container on one NUMA node");
}

TEST(Translate, APodWithoutMetadataGetsOnlyWhatIsWritten) {
  Json object = pod({container("main", {{"cpu", "1"}})});
  object.erase("metadata");
  EXPECT_FALSE(translate(object).changed);
  object["spec"]["containers"][0] = container("main", kShare);
  const Json after = patched(object, translate(object));
  EXPECT_EQ(after["metadata"].size(), 1U);
  EXPECT_TRUE(after["metadata"]["annotations"].contains("heddle.dev/request"));
}

// A list of another type is an error of the object, not of the program.
TEST(Translate, ContainersOfAnotherShapeAreErrors) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("env":"x","resources":{"limits":{"iluvatar.ai/BI-V150-vgpu":"1"}})", "spec.containers[0].env"},
      {R"("resources":"x")", "spec.containers[0].resources"},
      {R"("resources":{"limits":"x","requests":{"nvidia.com/gpu":"1"}})", "spec.containers[0].resources.limits"},
      {R"("resources":{"limits":{"nvidia.com/gpu":"1"},"requests":[]})", "spec.containers[0].resources.requests"},
      {R"("resources":{"limits":{"nvidia.com/gpu":"1"},"claims":{}})", "spec.containers[0].resources.claims"},
  };
  for (const auto& [fields, field] : cases) {
    const std::string object = fmt::format(
        R"({{"kind":"Pod","metadata":{{"annotations":{{"gpu-fraction":"0.5"}}}},"spec":{{"containers":[{{"name":"a",{}}}]}}}})",
        fields);
    const auto out = translate_pod(testing::rules(), object, kUid);
    ASSERT_FALSE(out) << fields;
    EXPECT_EQ(out.error().field, field) << fields;
  }
}

TEST(Translate, NotAPod) {
  for (const char* text :
       {"", "[]", "{}", R"({"kind":"Service","spec":{}})", R"({"spec":{"containers":{}}})",
        R"({"spec":{"containers":[{}]}})", R"({"spec":{"containers":[],"resourceClaims":{}}})",
        R"({"metadata":[],"spec":{}})", R"({"metadata":{"annotations":[]},"spec":{"containers":[]}})",
        R"({"spec":{"containers":[{"name":"a"},{"name":"a"}]}})"}) {
    EXPECT_FALSE(translate_pod(testing::rules(), text, kUid).has_value()) << text;
  }
}

// Random pods: no request is lost, nothing that is not ours changes, and a second pass changes nothing.
TEST(Translate, NothingIsLostAndASecondPassChangesNothing) {
  SeededRandom random(20261129);
  for (int round = 0; round < 500; ++round) {
    Json lists[2] = {Json::array(), Json::array()};
    std::map<std::string, bool> asks;
    for (const size_t list : {size_t{0}, size_t{1}}) {
      const uint64_t count = random.below(4) + (list == 0 ? 1 : 0);
      for (uint64_t i = 0; i < count; ++i) {
        Json limits = Json::object({{"cpu", "1"}});
        if (random.below(2) == 0) limits["nvidia.com/gpu"] = random.below(3);
        const bool zero = limits.contains("nvidia.com/gpu") && limits["nvidia.com/gpu"] == 0;
        if (!zero && random.below(2) == 0) limits["nvidia.com/gpumem"] = std::to_string(random.below(3) * 1000);
        if (!zero && random.below(3) == 0) limits["nvidia.com/gpucores"] = random.below(101);
        const std::string name = fmt::format("{}{}", list == 0 ? "c" : "i", i);
        const auto number = [&](const char* key) {
          if (!limits.contains(key)) return 0;
          return limits[key].is_string() ? std::stoi(limits[key].get<std::string>()) : limits[key].get<int>();
        };
        asks[name] =
            number("nvidia.com/gpu") > 0 || number("nvidia.com/gpumem") > 0 || number("nvidia.com/gpucores") > 0;
        Json one = container(name, limits);
        if (random.below(2) == 0) one["resources"].erase(random.below(2) == 0 ? "limits" : "requests");
        if (list == 1 && random.below(2) == 0) one["restartPolicy"] = "Always";
        lists[list].push_back(std::move(one));
      }
    }
    const Json before = pod(lists[0], lists[1]);
    const Translation t = translate(before);
    ASSERT_TRUE(t.refusals.empty()) << t.refusals[0].field << t.refusals[0].message << before.dump();
    const Json after = patched(before, t);
    std::set<std::string> translated;
    for (const ContainerRequest& request : t.requests) EXPECT_TRUE(translated.insert(request.container).second);
    for (const auto& [name, asked] : asks) EXPECT_EQ(translated.contains(name), asked) << name << before.dump();
    for (const char* list : {"containers", "initContainers"}) {
      for (size_t i = 0; i < after["spec"][list].size(); ++i) {
        const Json& one = after["spec"][list][i];
        const bool asked = asks[one["name"].get<std::string>()];
        EXPECT_EQ(one["resources"].contains("claims"), asked);
        if (asked) {
          EXPECT_EQ(one["resources"].dump().find("nvidia.com"), std::string::npos);
        }
        EXPECT_EQ(one["image"], before["spec"][list][i]["image"]);
      }
    }
    EXPECT_FALSE(translate(after, "ffffffffff").changed);
  }
}

}  // namespace
}  // namespace heddle::dialects
