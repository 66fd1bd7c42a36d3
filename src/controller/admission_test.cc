#include "controller/admission.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "codec/codec.h"

namespace heddle::controller {
namespace {

using Json = nlohmann::json;

std::shared_ptr<const catalog::Requests> rules() {
  static const auto built_in = std::make_shared<const catalog::Requests>(catalog::Requests::built_in().value());
  return built_in;
}

AdmissionContext context(std::shared_ptr<const QuotaTable> quotas = nullptr, const std::string& controller = "") {
  return {rules(), std::move(quotas), controller};
}

Json review(const std::string& kind, const Json& object, const std::string& operation = "CREATE",
            const Json& old = nullptr) {
  return {{"apiVersion", "admission.k8s.io/v1"},
          {"kind", "AdmissionReview"},
          {"request",
           {{"uid", "0123456789-abc"},
            {"kind", {{"group", ""}, {"version", "v1"}, {"kind", kind}}},
            {"operation", operation},
            {"namespace", "default"},
            {"userInfo", {{"username", "alice"}}},
            {"object", object},
            {"oldObject", old}}}};
}

Json pod(const Json& limits) {
  return {
      {"metadata", {{"name", "p"}, {"namespace", "default"}}},
      {"spec",
       {{"containers", Json::array({{{"name", "main"}, {"resources", {{"limits", limits}, {"requests", limits}}}}})}}}};
}

Json response(const Result<AdmissionAnswer>& answer) {
  EXPECT_TRUE(answer.has_value());
  const Json body = Json::parse(answer->body);
  EXPECT_EQ(body["kind"], "AdmissionReview");
  EXPECT_EQ(body["apiVersion"], "admission.k8s.io/v1");
  EXPECT_EQ(body["response"]["uid"], "0123456789-abc");
  return body["response"];
}

TEST(Mutate, MarksOfAGangOnALonePodAreRefused) {
  Json object = pod({{"nvidia.com/gpu", "1"}});
  object["metadata"]["annotations"]["heddle.dev/topology-required"] = "rack";
  const Json refused = response(mutate(review("Pod", object).dump(), context()));
  EXPECT_EQ(refused["allowed"], false);
  EXPECT_EQ(
      refused["status"]["message"],
      "metadata.annotations[heddle.dev/topology-required]: rack says something of a gang, and this pod is in none: "
      "write heddle.dev/gang with the gang's name and heddle.dev/gang-size beside it, or leave it out");
  object["metadata"]["annotations"]["heddle.dev/gang"] = "g";
  object["metadata"]["annotations"]["heddle.dev/gang-size"] = "2";
  EXPECT_EQ(response(mutate(review("Pod", object).dump(), context()))["allowed"], true);
}

TEST(Mutate, ASliceThatIsNotSoldIsRefused) {
  AdmissionContext with_hardware = context();
  with_hardware.hardware = std::make_shared<const catalog::Catalog>(catalog::Catalog::built_in().value());
  Json object = pod({{"google.com/tpu", "4"}});
  object["metadata"]["labels"] = {
      {"heddle.dev/gang", "g"}, {"heddle.dev/gang-size", "12"}, {"heddle.dev/topology-required", "slice-3x4x4"}};
  const Json refused = response(mutate(review("Pod", object).dump(), with_hardware));
  EXPECT_EQ(refused["allowed"], false);
  EXPECT_EQ(refused["status"]["message"],
            "metadata.labels[heddle.dev/topology-required]: slice-3x4x4 is no shape in which Google TPU sells slices: "
            "`heddle catalog show google` has them");
  object["metadata"]["labels"]["heddle.dev/topology-required"] = "slice-2x4x4";
  EXPECT_EQ(response(mutate(review("Pod", object).dump(), with_hardware))["allowed"], true);
}

TEST(Mutate, APolicyOfPlacementThatIsNoneIsRefused) {
  for (const char* list : {"labels", "annotations"}) {
    Json object = pod({{"nvidia.com/gpu", "1"}});
    object["metadata"][list]["heddle.dev/placement-policy"] = "binpack";
    const Json refused = response(mutate(review("Pod", object).dump(), context()));
    EXPECT_EQ(refused["allowed"], false);
    EXPECT_EQ(refused["status"]["message"],
              std::string("metadata.") + list +
                  "[heddle.dev/placement-policy]: is \"binpack\": write packing, best-fit, spread or least-loaded, or "
                  "leave it out");
    object["metadata"][list]["heddle.dev/placement-policy"] = "best-fit";
    EXPECT_EQ(response(mutate(review("Pod", object).dump(), context()))["allowed"], true);
  }
}

// Warnings are cut to what the API server takes, and never in the middle of a character.
TEST(Mutate, AWarningThatIsCutIsStillText) {
  for (const std::string& front : {std::string(), std::string("a"), std::string("ab")}) {
    Json object = pod({{"nvidia.com/gpumem", "3000"}});
    std::string value = front;
    for (int i = 0; i < 300; ++i) value += "\xe4\xb8\xad";
    object["metadata"]["annotations"]["hami.io/gpu-scheduler-policy"] = value;
    const Json answer = response(mutate(review("Pod", object).dump(), context()));
    EXPECT_EQ(answer["allowed"], true);
    ASSERT_FALSE(answer["warnings"].empty());
    bool cut = false;
    for (const Json& warning : answer["warnings"]) {
      EXPECT_LE(warning.get<std::string>().size(), 250U);
      cut = cut || warning.get<std::string>().size() > 245;
    }
    EXPECT_TRUE(cut) << answer;
  }
}

TEST(Mutate, AnswersWithThePatch) {
  const Json object = pod({{"nvidia.com/gpumem", "3000"}});
  const Json got = response(mutate(review("Pod", object).dump(), context()));
  EXPECT_EQ(got["allowed"], true);
  EXPECT_EQ(got["patchType"], "JSONPatch");
  const auto patch = base64_decode(got["patch"].get<std::string>());
  ASSERT_TRUE(patch.has_value());
  const Json after = object.patch(Json::parse(*patch));
  EXPECT_EQ(after["spec"]["schedulingGates"][0]["name"], "heddle.dev/placement");
  EXPECT_EQ(after["spec"]["resourceClaims"][0]["resourceClaimName"], "p-main-0123456789");
  const Json again = response(validate(review("Pod", after).dump(), context()));
  EXPECT_EQ(again["allowed"], true);
}

TEST(Mutate, LeavesTheRestAlone) {
  const Json got = response(mutate(review("Pod", pod({{"cpu", "1"}})).dump(), context()));
  EXPECT_EQ(got["allowed"], true);
  EXPECT_FALSE(got.contains("patch"));
  EXPECT_EQ(response(mutate(review("Pod", pod({{"nvidia.com/gpu", "x"}}), "UPDATE").dump(), context()))["allowed"],
            true);
}

TEST(Mutate, HoldsAGangOverClaimsThatUsersWrote) {
  Json object = pod({{"cpu", "1"}});
  object["spec"]["resourceClaims"] = Json::array({{{"name", "c"}, {"resourceClaimName", "mine"}}});
  const auto gates = [](const Json& before) {
    const Json got = response(mutate(review("Pod", before).dump(), context()));
    if (!got.contains("patch")) return Json::array();
    const Json after = before.patch(Json::parse(*base64_decode(got["patch"].get<std::string>())));
    return after["spec"]["schedulingGates"];
  };
  const Json ours = Json::object({{"name", "heddle.dev/placement"}});
  EXPECT_EQ(gates(object), Json::array());  // a pod alone is not held
  object["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = "g";
  EXPECT_EQ(gates(object), Json::array({ours}));
  const Json other = Json::object({{"name", "example.com/other"}});
  object["spec"]["schedulingGates"] = Json::array({other});
  EXPECT_EQ(gates(object), Json::array({other, ours}));
  object["spec"]["schedulingGates"] = Json::array({ours});
  EXPECT_EQ(gates(object), Json::array());  // called again: nothing to change
  object["spec"].erase("schedulingGates");
  object["spec"].erase("resourceClaims");
  EXPECT_EQ(gates(object), Json::array());
}

TEST(Mutate, RefusesWithFieldAndFix) {
  const Json got = response(mutate(review("Pod", pod({{"nvidia.com/gpumem", "16Gi"}})).dump(), context()));
  EXPECT_EQ(got["allowed"], false);
  EXPECT_EQ(got["status"]["code"], 422);
  EXPECT_EQ(got["status"]["message"],
            "spec.containers[0].resources.limits[nvidia.com/gpumem]: \"16Gi\": the unit is MiB; write 16384 "
            "(container main)");
}

TEST(Mutate, AQuotaOfZeroIsRefusedAtOnce) {
  auto quotas = std::make_shared<QuotaTable>(rules());
  quotas->upsert({"default", "none", {{"requests.nvidia.com/gpu", 0}}, {}});
  quotas->upsert({"other", "some", {{"requests.nvidia.com/gpu", 5}}, {}});
  const AdmissionContext with_quotas = context(quotas);
  EXPECT_EQ(response(mutate(review("Pod", pod({{"nvidia.com/gpu", "1"}})).dump(), with_quotas))["allowed"], false);
  EXPECT_EQ(response(mutate(review("Pod", pod({{"cpu", "1"}})).dump(), with_quotas))["allowed"], true);
}

TEST(Mutate, AQuotaOfZeroCountsWhatARequestNeedsUnnamed) {
  const auto refused = [](const char* key, const Json& limits, std::vector<QuotaTerm> terms = {}) {
    auto quotas = std::make_shared<QuotaTable>(rules());
    quotas->upsert({"default", "none", {{key, 0}}, std::move(terms)});
    return response(mutate(review("Pod", pod(limits)).dump(), context(quotas)))["allowed"] == false;
  };
  const Json whole{{"nvidia.com/gpu", "1"}};
  const Json percent{{"nvidia.com/gpumem-percentage", "10"}};
  const Json memory{{"nvidia.com/gpumem", "10"}};
  for (const Json& limits : {whole, percent, memory}) EXPECT_TRUE(refused("limits.nvidia.com/gpumem", limits));
  EXPECT_TRUE(refused("requests.nvidia.com/gpumem-percentage", percent));
  EXPECT_FALSE(refused("requests.nvidia.com/gpumem-percentage", memory));
  EXPECT_TRUE(refused("requests.nvidia.com/gpucores", whole));
  EXPECT_FALSE(refused("requests.nvidia.com/gpucores", memory));  // a share with cores 0 borrows what is idle
  EXPECT_TRUE(refused("requests.nvidia.com/gpu", whole, {{"BestEffort", "Exists", {}}}));
  EXPECT_FALSE(refused("requests.nvidia.com/gpu", whole, {{"Terminating", "Exists", {}}}));
}

TEST(Mutate, BadReviewsAreErrors) {
  for (const char* text :
       {"", "[]", "{}", R"({"kind":"AdmissionReview"})", R"({"kind":"AdmissionReview","request":{}})",
        R"({"kind":"AdmissionReview","request":{"uid":"x","kind":{"kind":"Pod"},"operation":"CREATE","object":[]}})"}) {
    EXPECT_FALSE(mutate(text, context()).has_value()) << text;
  }
}

TEST(Validate, ResourcesThatCameAfterTheTranslationAreRefused) {
  const Json got = response(validate(review("Pod", pod({{"nvidia.com/gpu", "1"}})).dump(), context()));
  EXPECT_EQ(got["allowed"], false);
  EXPECT_EQ(response(validate(review("Pod", pod({{"nvidia.com/gpu", "0"}})).dump(), context()))["allowed"], true);
}

TEST(Validate, RequestAndGateStayAsTheyAreExceptForTheController) {
  Json before = pod({{"cpu", "1"}});
  before["metadata"]["annotations"]["heddle.dev/request"] = "[1]";
  before["spec"]["schedulingGates"] = Json::array({{{"name", "heddle.dev/placement"}}});
  Json other = before;
  other["metadata"]["annotations"]["heddle.dev/request"] = "[2]";
  Json ungated = before;
  ungated["spec"].erase("schedulingGates");
  Json labelled = before;
  labelled["metadata"]["labels"]["x"] = "y";
  const auto allowed = [&](const Json& after, const std::string& controller) {
    return response(validate(review("Pod", after, "UPDATE", before).dump(), context(nullptr, controller)))["allowed"]
        .get<bool>();
  };
  EXPECT_FALSE(allowed(other, "controller"));
  EXPECT_FALSE(allowed(ungated, "controller"));
  EXPECT_TRUE(allowed(labelled, "controller"));
  EXPECT_TRUE(allowed(ungated, "alice"));
}

struct ClaimCase {
  const char* name;
  const char* request;  // the inside of requests[0]
  const char* message;  // empty: fine
};

class ValidateClaims : public testing::TestWithParam<ClaimCase> {};

TEST_P(ValidateClaims, Says) {
  const Json spec{{"devices", {{"requests", Json::array({Json::parse(GetParam().request)})}}}};
  const std::pair<const char*, Json> objects[] = {{"ResourceClaim", {{"spec", spec}}},
                                                  {"ResourceClaimTemplate", {{"spec", {{"spec", spec}}}}}};
  for (const auto& [kind, object] : objects) {
    const Json got = response(validate(review(kind, object).dump(), context()));
    EXPECT_EQ(got["allowed"], std::string(GetParam().message).empty()) << got;
    if (got["allowed"] == false) {
      EXPECT_NE(got["status"]["message"].get<std::string>().find(GetParam().message), std::string::npos) << got;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, ValidateClaims,
    testing::Values(
        ClaimCase{"plain", R"({"name":"r","exactly":{"deviceClassName":"heddle"}})", ""},
        ClaimCase{
            "selector",
            R"({"name":"r","exactly":{"deviceClassName":"heddle","selectors":[{"cel":{"expression":"device.driver == \"accelerator.heddle.dev\""}}]}})",
            ""},
        ClaimCase{
            "foreign",
            R"({"name":"r","exactly":{"deviceClassName":"gpu.example.com","adminAccess":true,"selectors":[{"cel":{"expression":"1+"}}]}})",
            ""},
        ClaimCase{
            "selector_not_understood",
            R"({"name":"r","exactly":{"deviceClassName":"heddle","selectors":[{"cel":{"expression":"device.driver =="}}]}})",
            "selectors[0]"},
        ClaimCase{"admin", R"({"name":"r","exactly":{"deviceClassName":"heddle-nvidia","adminAccess":true}})",
                  "adminAccess"},
        ClaimCase{"cores",
                  R"({"name":"r","exactly":{"deviceClassName":"heddle","capacity":{"requests":{"cores":"150"}}}})",
                  "0 to 100"},
        ClaimCase{"memory",
                  R"({"name":"r","exactly":{"deviceClassName":"heddle","capacity":{"requests":{"memory":"0"}}}})",
                  "above 0"},
        ClaimCase{"unknown",
                  R"({"name":"r","exactly":{"deviceClassName":"heddle","capacity":{"requests":{"vram":"1Gi"}}}})",
                  "memory and cores"},
        ClaimCase{"count", R"({"name":"r","exactly":{"deviceClassName":"heddle","count":33}})", "1 to 32"}),
    [](const auto& entry) { return std::string(entry.param.name); });

TEST(ValidateClaim, ConfigurationOfOurDriverMustBeUnderstood) {
  const auto message = [](const std::string& device_class, const std::string& parameters) {
    const Json spec{
        {"devices",
         {{"requests", Json::array({{{"name", "r"}, {"exactly", {{"deviceClassName", device_class}}}}})},
          {"config",
           Json::array(
               {{{"opaque", {{"driver", "accelerator.heddle.dev"}, {"parameters", Json::parse(parameters)}}}}})}}}};
    const Json got = response(validate(review("ResourceClaim", {{"spec", spec}}).dump(), context()));
    return got["allowed"] == true ? std::string() : got["status"]["message"].get<std::string>();
  };
  const std::string start = R"({"apiVersion":"heddle.dev/v1alpha1","kind":"ShareConfig",)";
  for (const char* device_class : {"heddle", "my-own-class"}) {
    EXPECT_EQ(message(device_class, start + R"("memoryPercent":50})"), "");
    EXPECT_NE(message(device_class, start + R"("memoryPercent":101})").find("config[0].opaque.parameters"),
              std::string::npos);
    EXPECT_NE(message(device_class, start + R"("memoryPercnt":50})").find("memoryPercnt"), std::string::npos);
    EXPECT_NE(message(device_class, "{}").find("must be a ShareConfig of heddle.dev/v1alpha1"), std::string::npos);
  }
}

TEST(ValidateClaim, AShareIsNamedOnce) {
  struct Case {
    const char* name;
    const char* requests;
    const char* configs;             // {"requests":[...],"percent":n} of our driver, in short
    std::vector<const char*> parts;  // of the answer; none: allowed
  };
  const char* memory = R"([{"name":"r","exactly":{"deviceClassName":"heddle","capacity":{"requests":{"memory":"1Gi"}}}},
                           {"name":"s","exactly":{"deviceClassName":"heddle"}}])";
  const char* alternatives = R"([{"name":"r","firstAvailable":[
      {"name":"big","deviceClassName":"own","capacity":{"requests":{"memory":"9Gi"}}},
      {"name":"small","deviceClassName":"own"}]}])";
  const Case cases[] = {
      {"for another request", memory, R"([{"requests":["s"],"percent":50}])", {}},
      {"for all",
       memory,
       R"([{"requests":[],"percent":50}])",
       {"requests[0].exactly.capacity.requests[memory]", "1Gi", "config[0]", "memoryPercent 50", "leave one out"}},
      {"two percentages",
       memory,
       R"([{"requests":["s"],"percent":50},{"requests":["s"],"percent":20}])",
       {"config[1]", "memoryPercent 20", "request s", "config[0] gives 50"}},
      {"the same twice", memory, R"([{"requests":["s"],"percent":50},{"requests":["s"],"percent":50}])", {}},
      {"an alternative", alternatives, R"([{"requests":["r/big"],"percent":50}])", {"firstAvailable[0].capacity"}},
      {"the other alternative", alternatives, R"([{"requests":["r/small"],"percent":50}])", {}},
  };
  for (const Case& test : cases) {
    Json config = Json::array();
    for (const Json& entry : Json::parse(test.configs)) {
      const Json parameters{
          {"apiVersion", "heddle.dev/v1alpha1"}, {"kind", "ShareConfig"}, {"memoryPercent", entry["percent"]}};
      config.push_back({{"requests", entry["requests"]},
                        {"opaque", {{"driver", "accelerator.heddle.dev"}, {"parameters", parameters}}}});
    }
    const Json spec{{"devices", {{"requests", Json::parse(test.requests)}, {"config", config}}}};
    const Json got = response(validate(review("ResourceClaim", {{"spec", spec}}).dump(), {}));
    EXPECT_EQ(got["allowed"], test.parts.empty()) << test.name << got;
    for (const char* part : test.parts) {
      EXPECT_NE(got["status"]["message"].get<std::string>().find(part), std::string::npos) << test.name << got;
    }
  }
}

TEST(ValidateClaim, VirtualMemoryIsMoreThanTheMemory) {
  const auto message = [](const char* amount) {
    const Json parameters{{"apiVersion", "heddle.dev/v1alpha1"}, {"kind", "ShareConfig"}, {"virtualMemory", amount}};
    const Json config = Json::array({{{"opaque", {{"driver", "accelerator.heddle.dev"}, {"parameters", parameters}}}}});
    const Json requests = Json::parse(
        R"([{"name":"r","exactly":{"deviceClassName":"heddle","capacity":{"requests":{"memory":"8Gi"}}}}])");
    const Json spec{{"devices", {{"requests", requests}, {"config", config}}}};
    const Json got = response(validate(review("ResourceClaim", {{"spec", spec}}).dump(), {}));
    return got["allowed"].get<bool>() ? std::string() : got["status"]["message"].get<std::string>();
  };
  EXPECT_EQ(message("12Gi"), "");
  EXPECT_NE(message("8Gi").find("config[0].opaque.parameters.virtualMemory: 8Gi is not more than the 8Gi"),
            std::string::npos);
  EXPECT_NE(message("12G").find("virtualMemory"), std::string::npos);
}

TEST(ValidateClaim, AMaskNeedsAPartOfTheCompute) {
  const auto allowed = [](const char* capacity) {
    const Json parameters{{"apiVersion", "heddle.dev/v1alpha1"}, {"kind", "ShareConfig"}, {"isolation", "mps"}};
    const Json config = Json::array({{{"opaque", {{"driver", "accelerator.heddle.dev"}, {"parameters", parameters}}}}});
    Json request{{"name", "r"}, {"exactly", {{"deviceClassName", "heddle"}}}};
    request["exactly"]["capacity"]["requests"] = Json::parse(capacity);
    const Json spec{{"devices", {{"requests", Json::array({request})}, {"config", config}}}};
    return response(validate(review("ResourceClaim", {{"spec", spec}}).dump(), {}))["allowed"].get<bool>();
  };
  EXPECT_TRUE(allowed(R"({"memory":"8Gi","cores":"30"})"));
  EXPECT_FALSE(allowed(R"({"memory":"8Gi","cores":"0"})"));
  EXPECT_FALSE(allowed(R"({"memory":"8Gi"})"));
  EXPECT_FALSE(allowed(R"({"memory":"8Gi","cores":"100"})"));
}

TEST(ValidateClass, WhatUsersWriteAboutOurDevices) {
  const auto message = [](const std::string& spec) {
    const Json object{{"metadata", {{"name", "gold"}}}, {"spec", Json::parse(spec)}};
    const Json got = response(validate(review("DeviceClass", object).dump(), {}));
    return got["allowed"] == true ? std::string() : got["status"]["message"].get<std::string>();
  };
  EXPECT_EQ(message(R"({"selectors":[{"cel":{"expression":"device.driver == \"accelerator.heddle.dev\""}}]})"), "");
  EXPECT_NE(message(R"({"selectors":[{"cel":{"expression":"device.driver == \"accelerator.heddle.dev\""}},
                                     {"cel":{"expression":"device.nothing == 1"}}]})")
                .find("spec.selectors[1]"),
            std::string::npos);
  EXPECT_EQ(message(R"({"selectors":[{"cel":{"expression":"device.driver =="}}]})"), "") << "not about us";
  EXPECT_NE(message(R"({"config":[{"opaque":{"driver":"a","parameters":{}}},
                                  {"opaque":{"driver":"accelerator.heddle.dev","parameters":{}}}]})")
                .find("spec.config[1].opaque"),
            std::string::npos);
}

TEST(Validate, ResourcesOfOtherPluginsOfTheVendorMayCome) {
  EXPECT_EQ(response(validate(review("Pod", pod({{"nvidia.com/hostdev", "1"}})).dump(), context()))["allowed"], true);
}

}  // namespace
}  // namespace heddle::controller
