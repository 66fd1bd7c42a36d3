// Queues, topologies and reservations: what is read, and what is said of what cannot be meant.
#include <gtest/gtest.h>

#include <string>

#include "codec/codec.h"

namespace heddle::codec {
namespace {

using Counts = model::QuotaMeter::Counts;

std::string object(const std::string& spec, const std::string& status = "{}") {
  return R"({"metadata":{"name":"q","uid":"u","generation":3},"spec":)" + spec + R"(,"status":)" + status + "}";
}

TEST(QueueCodec, AQueueIsReadInTheUnitsOfItsMeters) {
  const auto queue = parse_queue(object(
      R"({"parent":"research","weight":3,"placementPolicy":"least-loaded","namespaces":["a","b"],
          "namespaceSelector":{"matchLabels":{"team":"x"},"matchExpressions":[{"key":"k","operator":"Exists"}]},
          "quotas":[{"vendor":"nvidia","model":"H100","guaranteed":8,"limit":"12500m"},
                    {"counts":"Memory","guaranteed":"640Gi","borrowing":0},
                    {"counts":"Cores","deviceClass":"heddle","limit":400},
                    {"counts":"Boxes","boxDevices":8,"guaranteed":2,"lending":"1"}]})",
      R"({"past":{"at":"2027-01-01T00:00:00Z","milliDeviceSeconds":7},"inForce":{"parent":"old"}})"));
  ASSERT_TRUE(queue.has_value()) << queue.error().text();
  EXPECT_EQ(queue->spec.parent, "research");
  EXPECT_EQ(queue->spec.weight, 3);
  EXPECT_EQ(queue->spec.placement_policy, model::PlacementPolicy::kLeastLoaded);
  EXPECT_EQ(queue->generation, 3);
  ASSERT_EQ(queue->spec.quotas.size(), 4U);
  EXPECT_EQ(queue->spec.quotas[0].guaranteed, 8000);
  EXPECT_EQ(queue->spec.quotas[0].limit, 12500);
  EXPECT_EQ(queue->spec.quotas[1].guaranteed, int64_t{640} << 30);
  EXPECT_EQ(queue->spec.quotas[1].borrowing, 0);
  EXPECT_EQ(queue->spec.quotas[2].limit, 400);
  EXPECT_EQ(queue->spec.quotas[3].meter.box_devices, 8);
  EXPECT_EQ(queue->spec.quotas[3].lending, 1);
  EXPECT_EQ(model::meter_name(queue->spec.quotas[0].meter), "nvidia H100 devices");
  EXPECT_EQ(model::meter_name(queue->spec.quotas[2].meter), "device compute of class heddle");
  EXPECT_EQ(model::meter_name(queue->spec.quotas[3].meter), "boxes of 8 devices");
  ASSERT_TRUE(queue->spec.namespace_selector.has_value());
  EXPECT_TRUE(model::matches(*queue->spec.namespace_selector, {{"team", "x"}, {"k", ""}}));
  EXPECT_FALSE(model::matches(*queue->spec.namespace_selector, {{"team", "x"}}));
  EXPECT_EQ(queue->past->milli_device_seconds, 7);
  EXPECT_EQ(queue->in_force->parent, "old");
  EXPECT_EQ(parse_queue(object(queue->spec_json))->spec, queue->spec);
}

TEST(QueueCodec, BoxesWiderThanANode) {
  const auto queue =
      parse_queue(object(R"({"quotas":[{"counts":"Boxes","boxDevices":72,"boxLevel":"linkDomain","guaranteed":2},
                           {"counts":"Boxes","boxShape":"8x4x4","model":"TPU v5p","limit":1},
                           {"counts":"Boxes","boxDevices":8,"boxLevel":"node","limit":1},
                           {"counts":"Boxes","boxShape":"4x4x1","limit":1},
                           {"counts":"Boxes","boxDevices":64,"boxLevel":"cloud.google.com/gke-nodepool"}]})"));
  ASSERT_TRUE(queue.has_value()) << queue.error().text();
  const auto& quotas = queue->spec.quotas;
  EXPECT_EQ(model::meter_name(quotas[0].meter), "boxes of 72 devices of one linkDomain");
  EXPECT_EQ(model::box_name(quotas[0].meter), "72 in one linkDomain");
  EXPECT_EQ(quotas[1].meter.box_shape, "4x4x8") << "slices may be turned";
  EXPECT_EQ(quotas[1].meter.box_devices, 128);
  EXPECT_EQ(model::meter_name(quotas[1].meter), "slices of 4x4x8 TPU v5p devices");
  EXPECT_EQ(model::meter_name(quotas[2].meter), "boxes of 8 devices") << "the node is where boxes lie";
  EXPECT_EQ(quotas[3].meter.box_shape, "4x4") << "a side of one says nothing";
  EXPECT_EQ(model::box_name(quotas[4].meter), "64 in one cloud.google.com/gke-nodepool");
}

TEST(QueueCodec, AReservationAndATopologyAreRead) {
  const auto reservation = parse_reservation(object(
      R"({"start":"2027-01-01T00:00:00Z","end":"2027-01-02T00:00:00Z","queue":"train","amounts":[{"model":"T4","amount":4}]})"));
  ASSERT_TRUE(reservation.has_value()) << reservation.error().text();
  EXPECT_EQ(reservation->amounts.begin()->second, 4000);
  EXPECT_EQ((reservation->end - reservation->start).nanos, Duration::seconds(86400).nanos);
  const auto topology = parse_topology(object(
      R"({"levels":[{"name":"link","deviceAttribute":"accelerator.heddle.dev/linkDomain"},{"name":"rack","nodeLabel":"r","reserveNodes":2,"reserveUse":"Replacements"}]})"));
  ASSERT_TRUE(topology.has_value()) << topology.error().text();
  EXPECT_EQ(topology->levels[1].node_label, "r");
  EXPECT_EQ(topology->levels[0].reserve_nodes, 0);
  EXPECT_EQ(topology->levels[1].reserve_nodes, 2);
  EXPECT_EQ(topology->levels[1].reserve_use, model::ReserveUse::kReplacements);
}

struct Bad {
  const char* name;
  char kind;  // q, r or t
  const char* spec;
  const char* text;  // field and fix
};

class BadObject : public ::testing::TestWithParam<Bad> {};

TEST_P(BadObject, IsRefusedWithFieldAndFix) {
  const std::string json = object(GetParam().spec);
  std::string told = "it was accepted";
  const auto keep = [&](const auto& parsed) {
    if (!parsed) told = parsed.error().text();
  };
  if (GetParam().kind == 'q') keep(parse_queue(json));
  if (GetParam().kind == 'r') keep(parse_reservation(json));
  if (GetParam().kind == 't') keep(parse_topology(json));
  EXPECT_EQ(told, GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadObject,
    ::testing::Values(
        Bad{"OwnParent", 'q', R"({"parent":"q"})",
            "spec.parent: is the queue itself; name another queue, or leave it out"},
        Bad{"NoWeight", 'q', R"({"weight":0})", "spec.weight: is 0: write 1 to 1000000"},
        Bad{"Policy", 'q', R"({"placementPolicy":"binpack"})",
            "spec.placementPolicy: is \"binpack\": write packing, best-fit, spread or least-loaded, or leave it out"},
        Bad{"Counts", 'q', R"({"quotas":[{"counts":"Cards"}]})",
            "spec.quotas[0].counts: must be Devices, Memory, Cores or Boxes"},
        Bad{"BoxWithoutSize", 'q', R"({"quotas":[{"counts":"Boxes"}]})",
            "spec.quotas[0].boxDevices: must be set where boxes are counted, such as 8"},
        Bad{"BoxOfOne", 'q', R"({"quotas":[{"counts":"Boxes","boxDevices":1}]})",
            "spec.quotas[0].boxDevices: is 1: write 2 to 64"},
        Bad{"BoxElsewhere", 'q', R"({"quotas":[{"boxDevices":8}]})",
            "spec.quotas[0].boxDevices: is for counts: Boxes only; leave it out, or count Boxes"},
        Bad{"LargeBox", 'q', R"({"quotas":[{"counts":"Boxes","boxDevices":72,"limit":1}]})",
            "spec.quotas[0].boxDevices: is 72: write 2 to 64, or more with the boxLevel that they lie in"},
        Bad{"LevelElsewhere", 'q', R"({"quotas":[{"boxLevel":"rack","limit":1}]})",
            "spec.quotas[0].boxLevel: is for counts: Boxes only; leave it out, or count Boxes"},
        Bad{"ShapeAndSize", 'q', R"({"quotas":[{"counts":"Boxes","boxShape":"4x4x4","boxDevices":64}]})",
            "spec.quotas[0].boxDevices: a slice has the devices of its shape: leave it out"},
        Bad{"Shape", 'q', R"({"quotas":[{"counts":"Boxes","boxShape":"4x4x"}]})",
            "spec.quotas[0].boxShape: must be the sides of a slice, such as 4x4x8, of 2 to 65536 devices"},
        Bad{"ShapeOfOne", 'q', R"({"quotas":[{"counts":"Boxes","boxShape":"1x1"}]})",
            "spec.quotas[0].boxShape: must be the sides of a slice, such as 4x4x8, of 2 to 65536 devices"},
        Bad{"OneSide", 'q', R"({"quotas":[{"counts":"Boxes","boxShape":"8"}]})",
            "spec.quotas[0].boxShape: must be the sides of a slice, such as 4x4x8, of 2 to 65536 devices"},
        Bad{"FourSides", 'q', R"({"quotas":[{"counts":"Boxes","boxShape":"2x2x2x2"}]})",
            "spec.quotas[0].boxShape: must be the sides of a slice, such as 4x4x8, of 2 to 65536 devices"},
        Bad{"Negative", 'q', R"({"quotas":[{"guaranteed":-1}]})", "spec.quotas[0].guaranteed: must not be negative"},
        Bad{"HalfABox", 'q', R"({"quotas":[{"counts":"Boxes","boxDevices":8,"limit":"1500m"}]})",
            "spec.quotas[0].limit: must be a whole number"},
        Bad{"TooFine", 'q', R"({"quotas":[{"limit":"1u"}]})",
            "spec.quotas[0].limit: is finer than a thousandth of a device; round it to thousandths"},
        Bad{"TooLarge", 'q', R"({"quotas":[{"counts":"Memory","limit":"1e30"}]})",
            "spec.quotas[0].limit: is too large: write at most 2^63-1; leave it out for no bound"},
        Bad{"LimitBelow", 'q', R"({"quotas":[{"guaranteed":2,"limit":1}]})",
            "spec.quotas[0].limit: is less than what is guaranteed; raise it, or lower guaranteed"},
        Bad{"Twice", 'q', R"({"quotas":[{"model":"T4","limit":2},{"model":"T4","guaranteed":1}]})",
            "spec.quotas[1]: counts the same as an entry before it: write one entry for T4 devices"},
        Bad{"Operator", 'q', R"({"namespaceSelector":{"matchExpressions":[{"key":"a","operator":"Gt"}]}})",
            "spec.namespaceSelector.matchExpressions[0].operator: must be In, NotIn, Exists or DoesNotExist"},
        Bad{"NoQuantity", 'q', R"({"quotas":[{"limit":true}]})",
            "spec.quotas[0].limit: must be a quantity, such as \"16Gi\""},
        Bad{"NoStart", 'r', R"({"end":"2027-01-01T00:00:00Z","queue":"q","amounts":[{"amount":1}]})",
            "spec.start: must be set, such as 2027-01-31T08:00:00Z"},
        Bad{"EndsFirst", 'r',
            R"({"start":"2027-01-02T00:00:00Z","end":"2027-01-01T00:00:00Z","queue":"q","amounts":[{"amount":1}]})",
            "spec.end: must be after start"},
        Bad{"NoAmount", 'r',
            R"({"start":"2027-01-01T00:00:00Z","end":"2027-01-02T00:00:00Z","queue":"q","amounts":[{}]})",
            "spec.amounts[0].amount: must be set"},
        Bad{"Nobody", 'r', R"({"start":"2027-01-01T00:00:00Z","end":"2027-01-02T00:00:00Z","amounts":[{"amount":1}]})",
            "spec: must say who may use it: a queue, namespaces, or both"},
        Bad{"NoLevels", 't', R"({"levels":[]})", "spec.levels: must name at least one level"},
        Bad{"BothSources", 't', R"({"levels":[{"name":"a","nodeLabel":"b","deviceAttribute":"c"}]})",
            "spec.levels[0]: must have either nodeLabel or deviceAttribute"},
        Bad{"Reserve", 't', R"({"levels":[{"name":"a","nodeLabel":"x","reserveNodes":-1}]})",
            "spec.levels[0].reserveNodes: is -1: write 0 to 4096"},
        Bad{"ReserveUse", 't', R"({"levels":[{"name":"a","nodeLabel":"x","reserveNodes":1,"reserveUse":"Never"}]})",
            "spec.levels[0].reserveUse: must be WhenNeeded (also by what fits nowhere else) or Replacements"},
        Bad{"ReserveOfNone", 't', R"({"levels":[{"name":"a","nodeLabel":"x","reserveUse":"Replacements"}]})",
            "spec.levels[0].reserveUse: is for reserveNodes: write how many, or leave it out"},
        Bad{"ReserveOfNodes", 't',
            R"({"levels":[{"name":"a","nodeLabel":"x","reserveNodes":1},{"name":"node","nodeLabel":"y"}]})",
            "spec.levels[1].name: is the node itself: reserveNodes goes with levels that are wider"},
        Bad{"SameLevel", 't', R"({"levels":[{"name":"a","nodeLabel":"b"},{"name":"a","nodeLabel":"c"}]})",
            "spec.levels[1].name: is the name of a narrower level already"}),
    [](const auto& entry) { return std::string(entry.param.name); });

}  // namespace
}  // namespace heddle::codec
