#include "standalone/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle::standalone {
namespace {

using testing::HasSubstr;

JobRequest share(int64_t mebibytes, std::optional<int64_t> cores) {
  JobRequest request;
  request.command = {"true"};
  request.memory_bytes = mebibytes << 20;
  request.cores = cores;
  return request;
}

std::vector<vendors::Card> cards() {
  vendors::Card h100;
  h100.model = "NVIDIA H100 80GB HBM3";
  vendors::Card l4;
  l4.model = "NVIDIA L4";
  return {h100, h100, l4};
}

TEST(ParseMemory, TakesUnitsAndRefusesEverythingElseWithTheFix) {
  struct Case {
    const char* text;
    int64_t bytes;  // -1: refused
    const char* message;
  };
  const std::vector<Case> cases = {
      {"8Gi", int64_t{8} << 30, ""},
      {"3000Mi", int64_t{3000} << 20, ""},
      {"1Mi", 1 << 20, ""},
      {"1.5Gi", int64_t{1536} << 20, ""},
      {"1048576", 1 << 20, ""},
      {"8", -1, "write 8Gi or 8Mi"},
      {"0", -1, "no unit"},
      {"8GB", -1, "such as 8Gi"},
      {"", -1, "such as 8Gi"},
      {"-8Gi", -1, "too little"},
      {"1Ki", -1, "the least is 1Mi"},
      {"24G", -1, "write 22889Mi"},
      {"9000000Ti", -1, "more than any card"},
  };
  for (const auto& c : cases) {
    const auto bytes = parse_memory(c.text);
    if (c.bytes >= 0) {
      ASSERT_TRUE(bytes) << c.text << ": " << bytes.error().text();
      EXPECT_EQ(*bytes, c.bytes) << c.text;
    } else {
      ASSERT_FALSE(bytes) << c.text;
      EXPECT_THAT(bytes.error().text(), HasSubstr(c.message)) << c.text;
    }
  }
}

TEST(CheckRequest, NamesTheFlag) {
  struct Case {
    const char* what;
    std::function<void(JobRequest&)> change;
    const char* flag;
  };
  const std::vector<Case> cases = {
      {"no command", [](JobRequest& r) { r.command.clear(); }, ""},
      {"no cards", [](JobRequest& r) { r.count = 0; }, "--count"},
      {"too many cards", [](JobRequest& r) { r.count = 33; }, "--count"},
      {"memory twice", [](JobRequest& r) { r.memory_percent = 10; }, "--memory-percent"},
      {"negative memory", [](JobRequest& r) { r.memory_bytes = -(1 << 20); }, "--memory"},
      {"part of a MiB", [](JobRequest& r) { r.memory_bytes = (1 << 20) + 1; }, "--memory"},
      {"0 percent", [](JobRequest& r) { r.memory_bytes.reset(), r.memory_percent = 0; }, "--memory-percent"},
      {"101 percent", [](JobRequest& r) { r.memory_bytes.reset(), r.memory_percent = 101; }, "--memory-percent"},
      {"150 cores", [](JobRequest& r) { r.cores = 150; }, "--cores"},
      {"-1 cores", [](JobRequest& r) { r.cores = -1; }, "--cores"},
      {"cores alone", [](JobRequest& r) { r.memory_bytes.reset(), r.cores = 30; }, "--cores"},
      {"priority", [](JobRequest& r) { r.priority = INT64_MIN; }, "--priority"},
      {"a name that is a number", [](JobRequest& r) { r.name = "17"; }, "--name"},
      {"a name that moves the cursor", [](JobRequest& r) { r.name = "\033[2J"; }, "--name"},
      {"a long name", [](JobRequest& r) { r.name = std::string(65, 'x'); }, "--name"},
  };
  for (const auto& c : cases) {
    auto request = share(3000, std::nullopt);
    EXPECT_TRUE(check_request(request));
    c.change(request);
    const auto checked = check_request(request);
    ASSERT_FALSE(checked) << c.what;
    EXPECT_EQ(checked.error().code, Code::kInvalidArgument);
    EXPECT_EQ(checked.error().field, c.flag) << c.what;
    EXPECT_TRUE(parse_request(request_json(request))) << c.what << ": a ledger with it can still be read";
  }
}

TEST(CheckRequest, CountsTheCharactersOfANameNotItsBytes) {
  auto request = share(3000, std::nullopt);
  for (int i = 0; i < 64; ++i) request.name += "é";
  EXPECT_TRUE(check_request(request));
}

TEST(RequestJson, ComesBackAsItWas) {
  auto request = share(3000, 30);
  request.name = "a \"name\"";
  request.model = "H100";
  request.count = 2;
  request.priority = 7;
  request.patience = Patience::kRefuse;
  request.placement_policy = model::PlacementPolicy::kLeastLoaded;
  request.reservation = "r";
  request.on_eviction = OnEviction::kRequeue;
  request.deadline_seconds = 7200;
  request.lifetime = Lifetime::kDetached;
  request.virtual_bytes = int64_t{64} << 30;
  request.isolation = "mps";
  request.vendor = "ascend";
  EXPECT_EQ(parse_request(request_json(request)).value(), request);
  const auto policy = parse_request(R"({"placementPolicy":"first"})");
  ASSERT_FALSE(policy);
  EXPECT_THAT(policy.error().text(), HasSubstr("placementPolicy: is \"first\": write packing"));
  for (const char* bad : {"", "[]", "null", R"({"command":"true"})", R"({"command":[1]})",
                          R"({"command":["a"],"count":"2"})", R"({"command":["a"],"count":1.5})",
                          R"({"command":["a"],"memoryBytes":18446744073709551615})", R"({"command":["a"],"name":3})"}) {
    EXPECT_FALSE(parse_request(bad)) << bad;
  }
}

TEST(CheckOnCards, VirtualMemoryIsMoreThanWhatIsGranted) {
  constexpr int64_t kGi = int64_t{1} << 30;
  auto here = cards();
  for (auto& card : here) card.memory_bytes = card.model == "NVIDIA L4" ? 24 * kGi : 80 * kGi;
  const auto why = [&here](std::optional<int64_t> percent, int64_t gi, const std::string& model) {
    JobRequest request;
    request.command = {"true"};
    request.memory_percent = percent;
    request.virtual_bytes = gi * kGi;
    request.model = model;
    EXPECT_TRUE(check_request(request)) << "the request alone does not tell";
    const auto checked = check_on_cards(request, here);
    return checked ? std::string("good") : checked.error().text();
  };
  EXPECT_EQ(why(25, 20, "h100"),
            "--virtual-memory: 20Gi is not more than the 20Gi that 25% of a card (NVIDIA H100 80GB HBM3) are: ask for "
            "more, or leave it out");
  EXPECT_EQ(why(25, 21, "h100"), "good");
  EXPECT_EQ(why(25, 7, "L4"), "good");
  EXPECT_THAT(why(25, 7, ""), HasSubstr("7Gi is not more than the 20Gi")) << "it may get either";
  EXPECT_THAT(why(std::nullopt, 12, "L4"), HasSubstr("12Gi is not more than the 24Gi that the whole of a card"));
  EXPECT_EQ(why(std::nullopt, 25, "L4"), "good");
  EXPECT_TRUE(check_on_cards(share(3000, 30), here));
}

TEST(ClaimSpec, SaysWhatWasAsked) {
  const auto spec = claim_spec(share(3000, 30), cards()).value();
  ASSERT_EQ(spec.requests.size(), 1U);
  const auto& exactly = *spec.requests[0].exactly;
  EXPECT_EQ(exactly.capacity.at("memory"), Quantity::bytes(int64_t{3000} << 20));
  EXPECT_EQ(exactly.capacity.at("cores"), Quantity::from_int(30));
  EXPECT_TRUE(spec.constraints.empty());
  EXPECT_TRUE(spec.config.empty());

  EXPECT_EQ(claim_spec(share(3000, std::nullopt), cards())->requests[0].exactly->capacity.at("cores"),
            Quantity::from_int(0))
      << "a share always names cores; without --cores it has no cap and no guarantee";

  JobRequest whole;
  whole.command = {"true"};
  whole.count = 2;
  const auto cards_spec = claim_spec(whole, cards()).value();
  EXPECT_TRUE(cards_spec.requests[0].exactly->capacity.empty());
  EXPECT_EQ(cards_spec.requests[0].exactly->count, 2);
  EXPECT_EQ(cards_spec.constraints.at(0).distinct_attribute, "accelerator.heddle.dev/uuid");

  JobRequest more = share(3000, 30);
  more.virtual_bytes = int64_t{9000} << 20;
  const auto more_spec = claim_spec(more, cards()).value();
  EXPECT_THAT(more_spec.config.at(0).parameters_json, HasSubstr(R"("virtualMemory":"9000Mi")"));
  EXPECT_EQ(more_spec.requests[0].exactly->capacity.at("memory"), Quantity::bytes(int64_t{3000} << 20))
      << "of the card only what is granted is taken";

  JobRequest percent = whole;
  percent.count = 1;
  percent.memory_percent = 25;
  const auto percent_spec = claim_spec(percent, cards()).value();
  EXPECT_THAT(percent_spec.config.at(0).parameters_json, HasSubstr("\"memoryPercent\":25"));
  EXPECT_EQ(percent_spec.requests[0].exactly->capacity.count("memory"), 0U);
}

// As on a cluster, so that placement knows who gives way.
TEST(ClaimSpec, AShareWithoutCoresOfALowPriorityGivesWay) {
  JobRequest low = share(3000, std::nullopt);
  low.priority = -1;
  EXPECT_THAT(claim_spec(low, cards())->config.at(0).parameters_json, HasSubstr("\"priority\":1"));
  low.cores = 30;
  EXPECT_TRUE(claim_spec(low, cards())->config.empty()) << "cores are a promise";
  low.priority = 5;
  low.cores.reset();
  EXPECT_TRUE(claim_spec(low, cards())->config.empty());
  JobRequest whole;
  whole.command = {"true"};
  whole.priority = -1;
  EXPECT_TRUE(claim_spec(whole, cards())->config.empty()) << "nobody else is on its card";
}

TEST(ClaimSpec, FindsModelsByAPartOfTheirName) {
  auto request = share(3000, 30);
  request.model = "h100";
  EXPECT_EQ(claim_spec(request, cards())->requests[0].exactly->selectors.at(0),
            R"(device.attributes["accelerator.heddle.dev"].model in ["NVIDIA H100 80GB HBM3"])");
  request.model = "A100";
  const auto missing = claim_spec(request, cards());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().field, "--model");
  EXPECT_THAT(missing.error().message, HasSubstr("NVIDIA H100 80GB HBM3, NVIDIA L4"));
}

TEST(ClaimSpec, IsOfOneVendor) {
  auto both = cards();
  for (auto& card : both) card.vendor = "nvidia";
  vendors::Card npu;
  npu.vendor = "ascend";
  npu.model = "910B4";
  both.push_back(npu);
  const auto selectors = [&both](const std::string& vendor, const std::string& model) {
    auto request = share(3000, 30);
    request.vendor = vendor;
    request.model = model;
    return claim_spec(request, both)->requests[0].exactly->selectors;
  };
  const std::string is_npu = R"(device.attributes["accelerator.heddle.dev"].vendor == "ascend")";
  EXPECT_THAT(selectors("Ascend", ""), testing::ElementsAre(is_npu));
  EXPECT_THAT(selectors("", "910b4"),
              testing::ElementsAre(is_npu, R"(device.attributes["accelerator.heddle.dev"].model in ["910B4"])"));
  const auto refusal = [&both](const std::string& vendor, const std::string& model) {
    auto request = share(3000, 30);
    request.vendor = vendor;
    request.model = model;
    const auto spec = claim_spec(request, both);
    return spec ? Error{} : spec.error();
  };
  EXPECT_EQ(refusal("", "").code, Code::kInvalidArgument);
  EXPECT_THAT(refusal("", "").message, HasSubstr("write --vendor ascend or --vendor nvidia"));
  EXPECT_EQ(refusal("amd", "").field, "--vendor");
  EXPECT_THAT(refusal("amd", "").message, HasSubstr("there are: ascend, nvidia"));
  EXPECT_EQ(refusal("ascend", "H100").field, "--model") << "of another vendor";
  auto alone = share(3000, 30);
  alone.vendor = "ascend";
  EXPECT_TRUE(claim_spec(alone, {npu})->requests[0].exactly->selectors.empty()) << "all are";
}

TEST(FormatBytes, UsesTheLargestExactUnit) {
  EXPECT_EQ(format_bytes(int64_t{3000} << 20), "3000Mi");
  EXPECT_EQ(format_bytes(int64_t{8} << 30), "8Gi");
  EXPECT_EQ(format_bytes(int64_t{1} << 40), "1Ti");
  EXPECT_EQ(format_bytes(0), "0");
  EXPECT_EQ(format_bytes(1000), "1000");
}

}  // namespace
}  // namespace heddle::standalone
