// Controller and agent may differ by one version: what each writes is pinned in files (README.md).
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "agent/claim_service.h"
#include "agent/names.h"
#include "agent/record.h"
#include "agent/slices.h"
#include "base/file.h"
#include "base/random.h"
#include "catalog/requests.h"
#include "codec/codec.h"
#include "controller/objects.h"
#include "dialects/claim_form.h"
#include "dialects/translate.h"
#include "engine/engine.h"
#include "vendors/wire.h"

namespace heddle {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMiB = int64_t{1} << 20;
const std::string kDriver(agent::kDriver);

std::string golden(const std::string& name, const std::string& version = "0.1") {
  const auto text = read_file(std::string(HEDDLE_COMPAT_DIR) + "/" + version + "/" + name + ".json");
  EXPECT_TRUE(text) << text.error().text();
  return text.value_or("");
}

// The same with an unknown member in every object, as a later version may write it.
Json with_unknown(Json value) {
  if (value.is_object()) {
    for (auto& [key, member] : value.items()) member = with_unknown(member);
    value["zzFromTheFuture"] = {{"value", 1}, {"list", Json::array({"a", Json::object()})}};
  } else if (value.is_array()) {
    for (Json& item : value) item = with_unknown(item);
  }
  return value;
}

// Maps whose keys are names (of attributes, capacities, labels): a new name there is content, not an unknown field.
Json without_names(Json value, const std::vector<std::string>& pointers) {
  for (const std::string& pointer : pointers) value.at(Json::json_pointer(pointer)).erase("zzFromTheFuture");
  return value;
}

Json future_slice() {
  Json slice = with_unknown(Json::parse(golden("slice")));
  for (const char* list : {"/spec/devices/0/attributes", "/spec/devices/0/capacity"}) {
    slice = without_names(slice, {list});
  }
  slice["spec"]["devices"][0]["attributes"]["newAttribute"] = {{"string", "x"}};
  return slice;
}

Json future_claim() {
  return without_names(
      with_unknown(Json::parse(golden("claim"))),
      {"/metadata/labels", "/metadata/annotations", "/spec/devices/requests/0/exactly/capacity/requests",
       "/spec/devices/config/0/opaque/parameters", "/status/allocation/devices/results/0/consumedCapacity"});
}

vendors::Card card() {
  const auto inventory = vendors::parse_inventory(golden("inventory"));
  EXPECT_TRUE(inventory) << inventory.error().text();
  return inventory && !inventory->cards.empty() ? inventory->cards[0] : vendors::Card{};
}

model::Pod pod() {
  model::Pod result;
  result.meta.name_space = "team";
  result.meta.name = "train";
  result.meta.uid = "pod-uid";
  return result;
}

// What the agent grants for the claim of a controller.
Result<agent::ClaimRecord> granted(const model::ResourceClaim& claim) {
  vendors::Card healthy = card();
  healthy.healthy = true;
  return agent::grant_of(claim, "claim-uid", {"node-1", {healthy}, {}}, false);
}

TEST(Compat, ThisVersionWritesWhatTheNewestFolderSays) {
  auto slices = agent::desired_slices({"node-1", "node-uid"}, {card()}, {});
  ASSERT_EQ(slices.size(), 1U);
  slices[0].generation = 1;
  EXPECT_EQ(Json::parse(codec::slice_json(slices[0])), Json::parse(golden("slice")));

  const auto requests = dialects::parse_requests(golden("request"));
  ASSERT_TRUE(requests) << requests.error().text();
  EXPECT_EQ(Json::parse(dialects::requests_json(*requests)), Json::parse(golden("request")));

  const auto claim = codec::parse_claim(golden("claim"));
  ASSERT_TRUE(claim) << claim.error().text();
  model::ResourceClaim made = controller::claim_for(pod(), requests->at(1));
  made.meta.uid = "claim-uid";
  made.allocation = claim->allocation;
  made.reserved_for = claim->reserved_for;
  EXPECT_EQ(Json::parse(codec::claim_json(made)), Json::parse(golden("claim")));

  const auto record = agent::parse_record(golden("record"));
  ASSERT_TRUE(record) << record.error().text();
  EXPECT_EQ(Json::parse(agent::record_json(*record)), Json::parse(golden("record")));
}

TEST(Compat, TheRequestOfAnotherWebhookIsRead) {
  const auto requests = dialects::parse_requests(golden("request"));
  ASSERT_TRUE(requests) << requests.error().text();
  ASSERT_EQ(requests->size(), 2U);
  EXPECT_TRUE(requests->at(0).init);
  EXPECT_EQ(requests->at(0).spec.requests.at(0).exactly->count, 2);
  EXPECT_EQ(requests->at(0).spec.requests.at(0).exactly->capacity.at("memory").value(), 3000 * kMiB);
  EXPECT_EQ(requests->at(1).claim_name, "train-main-0123456789");
  const Json future = without_names(
      with_unknown(Json::parse(golden("request"))),
      {"/0/spec/devices/requests/0/exactly/capacity/requests", "/1/spec/devices/requests/0/exactly/capacity/requests",
       "/1/spec/devices/config/0/opaque/parameters"});
  const auto later = dialects::parse_requests(future.dump());
  ASSERT_TRUE(later) << later.error().text();
  EXPECT_EQ(later->at(0).spec, requests->at(0).spec);
  EXPECT_TRUE(controller::same_spec(later->at(1).spec, requests->at(1).spec));
}

// From 0.2 on the webhook says of each request which type of device it means, and what was rounded; from 0.3 on which
// shares give way; from 0.5 on which template memory was rounded up to.
class CompatWebhook : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Versions, CompatWebhook, testing::Values("0.3", "0.5"));

TEST(Compat, TheRequestOfAWebhookThatKnewNoTemplatesIsRead) {
  const auto read = dialects::parse_requests(golden("request", "0.2"));
  ASSERT_TRUE(read) << read.error().text();
  for (const auto& request : *read) EXPECT_TRUE(dialects::read_claim_form(request.spec)) << request.claim_name;
}

TEST_P(CompatWebhook, ThisVersionWritesTheRequestOfTheNewestFolders) {
  const auto rules = catalog::Requests::built_in();
  ASSERT_TRUE(rules) << rules.error().text();
  const auto translated = dialects::translate_pod(*rules, golden("pod", GetParam()), "0123456789abcdef");
  ASSERT_TRUE(translated) << translated.error().text();
  ASSERT_TRUE(translated->refusals.empty()) << translated->refusals.front().message;
  const Json written = Json::parse(dialects::requests_json(translated->requests));
  const Json newest = Json::parse(golden("request", GetParam()));
  EXPECT_EQ(written, newest) << Json::diff(newest, written).dump(1);

  const auto read = dialects::parse_requests(newest.dump());
  ASSERT_TRUE(read) << read.error().text();
  ASSERT_EQ(read->size(), translated->requests.size());
  for (size_t i = 0; i < read->size(); ++i) {
    EXPECT_EQ((*read)[i].spec, translated->requests[i].spec) << i;
    EXPECT_EQ((*read)[i].roundings, translated->requests[i].roundings) << i;
    const model::ResourceClaim claim = controller::claim_for(pod(), (*read)[i]);
    const auto again = codec::parse_claim(codec::claim_json(claim));
    ASSERT_TRUE(again) << again.error().text();
    EXPECT_TRUE(controller::same_spec(again->spec, claim.spec)) << i;
  }
}

TEST(Compat, ASliceOfAnotherAgentIsPlacedOn) {
  for (const Json& text : {Json::parse(golden("slice")), future_slice()}) {
    auto slice = codec::parse_slice(text.dump());
    ASSERT_TRUE(slice) << slice.error().text();
    std::erase_if(slice->devices.at(0).taints,
                  [](const model::Taint& taint) { return taint.key == "heddle.dev/unhealthy"; });
    engine::State state(kDriver);
    model::Node node;
    node.meta.name = "node-1";
    node.ready = model::Node::Ready::kTrue;
    state.upsert_node(node);
    state.upsert_slice(*slice);
    const auto device_class = codec::parse_class(
        R"({"metadata":{"name":"heddle-nvidia"},"spec":{"selectors":[{"cel":{"expression":
        "device.driver == \"accelerator.heddle.dev\" && device.attributes[\"accelerator.heddle.dev\"].vendor == \"nvidia\""}}]}})");
    ASSERT_TRUE(device_class) << device_class.error().text();
    state.upsert_class(*device_class);
    engine::PlacementRequest request;
    const auto requests = dialects::parse_requests(golden("request"));
    ASSERT_TRUE(requests);
    request.claims.push_back({"team/train-main-0123456789", "claim-uid", requests->at(1).spec});
    SeededRandom random(1);
    const auto outcome = state.place(request, random);
    ASSERT_TRUE(outcome) << outcome.error().text();
    const auto* assigned = std::get_if<engine::Assigned>(&*outcome);
    ASSERT_NE(assigned, nullptr);
    const model::DeviceResult& result = assigned->allocations.at(0).results.at(0);
    EXPECT_EQ(result.device, "gpu-3");
    EXPECT_EQ(result.consumed_capacity.at("memory").value(), 4096 * kMiB)
        << "half of the card, as the ShareConfig says";
  }
}

TEST(Compat, AClaimOfAnotherControllerIsPreparedAsItSays) {
  const auto record = agent::parse_record(golden("record"));
  ASSERT_TRUE(record) << record.error().text();
  for (const Json& text : {Json::parse(golden("claim")), future_claim()}) {
    const auto claim = codec::parse_claim(text.dump());
    ASSERT_TRUE(claim) << claim.error().text();
    EXPECT_EQ(model::allocated_node(*claim->allocation), "node-1");
    const auto grant = granted(*claim);
    ASSERT_TRUE(grant) << grant.error().text();
    EXPECT_EQ(grant->devices, record->devices);
    EXPECT_EQ(grant->pods, record->pods);
  }
}

TEST(Compat, WhatAnotherAgentLeftOnTheNodeIsRead) {
  const auto record = agent::parse_record(golden("record"));
  ASSERT_TRUE(record) << record.error().text();
  EXPECT_EQ(record->devices.at(0).memory_bytes, 4096 * kMiB);
  const auto low = agent::parse_record(golden("record", "0.3"));
  ASSERT_TRUE(low) << low.error().text();
  EXPECT_EQ(record->devices.at(0).priority, 0);
  EXPECT_EQ(low->devices.at(0).priority, 1);
  EXPECT_EQ(Json::parse(agent::record_json(*low)), Json::parse(golden("record", "0.3")));
  const auto more = agent::parse_record(golden("record", "0.4"));
  ASSERT_TRUE(more) << more.error().text();
  EXPECT_EQ(more->devices.at(0).virtual_bytes, 12288 * kMiB);
  EXPECT_EQ(Json::parse(agent::record_json(*more)), Json::parse(golden("record", "0.4")));
  const auto made = agent::parse_record(golden("record", "0.5"));
  ASSERT_TRUE(made) << made.error().text();
  ASSERT_TRUE(made->devices.at(0).made);
  EXPECT_EQ(made->devices.at(0).made->order.place, 155);
  EXPECT_EQ(Json::parse(agent::record_json(*made)), Json::parse(golden("record", "0.5")));
  const auto later = agent::parse_record(with_unknown(Json::parse(golden("record"))).dump());
  ASSERT_TRUE(later) << later.error().text();
  EXPECT_EQ(*later, *record);
  const auto inventory = vendors::parse_inventory(with_unknown(Json::parse(golden("inventory"))).dump());
  ASSERT_TRUE(inventory) << inventory.error().text();
  EXPECT_EQ(inventory->cards.at(0).uuid, record->devices.at(0).card_uuid);
}

TEST(Compat, AShareConfigThatIsNotUnderstoodWhollyIsRefused) {
  Json parameters = Json::parse(golden("claim"))["spec"]["devices"]["config"][0]["opaque"]["parameters"];
  const auto known = codec::parse_share_config(parameters.dump());
  ASSERT_TRUE(known) << known.error().text();
  EXPECT_EQ(known->value().memory_percent, 50);
  const auto later = codec::parse_share_config(with_unknown(parameters).dump());
  ASSERT_FALSE(later);
  EXPECT_NE(later.error().text().find("zzFromTheFuture"), std::string::npos) << later.error().text();
}

}  // namespace
}  // namespace heddle
