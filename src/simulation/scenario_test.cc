// How fleets and workloads are written, and what bad ones are told.
#include "simulation/scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle::simulation {
namespace {

using ::testing::HasSubstr;

TEST(ScenarioTest, AGroupOfNodesIsCutIntoDomains) {
  const auto fleet = read_fleet({"fleet.json", R"({"nodes": [
    {"name": "a", "count": 5, "labels": {"zone": "z"}, "nodesPerDomain": {"heddle.dev/rack": 2},
     "devices": [{"vendor": "nvidia", "model": "H100", "count": 8, "memory": "80Gi"},
                 {"vendor": "ascend", "model": "910B", "memory": "64Gi"}]},
    {"name": "b"}], "patience": "1h", "grace": 0})"});
  ASSERT_TRUE(fleet.has_value()) << fleet.error().text();
  ASSERT_EQ(fleet->nodes.size(), 6U);
  EXPECT_EQ(fleet->nodes[4].name, "a-4");
  EXPECT_EQ(fleet->nodes[3].labels.at("heddle.dev/rack"), "a-1");
  EXPECT_EQ(fleet->nodes[4].labels.at("heddle.dev/rack"), "a-2");
  EXPECT_EQ(fleet->nodes[0].devices[1].count, 1);
  EXPECT_EQ(fleet->nodes[5].name, "b");
  EXPECT_EQ(fleet->patience, Duration::seconds(3600));
  EXPECT_EQ(fleet->grace, Duration{});
}

TEST(ScenarioTest, ATorusHasANodeForEachHost) {
  const auto fleet = read_fleet({"f", R"({"nodes": [
    {"name": "t", "labels": {"a": "b"}, "torus": {"shape": "4x4x2", "host": "2x2x1", "wraps": true}}]})"});
  ASSERT_TRUE(fleet.has_value()) << fleet.error().text();
  ASSERT_EQ(fleet->nodes.size(), 8U);
  EXPECT_EQ(fleet->nodes[5].name, "t-5");
  EXPECT_EQ(fleet->nodes[5].labels, (std::map<std::string, std::string>{{"a", "b"},
                                                                        {"heddle.dev/torus", "t"},
                                                                        {"heddle.dev/torus-shape", "4x4x2"},
                                                                        {"heddle.dev/torus-host", "2x2x1"},
                                                                        {"heddle.dev/torus-position", "1-0-1"},
                                                                        {"heddle.dev/torus-wraps", "true"}}));
}

TEST(ScenarioTest, AnEntryStandsForManyWorkloadsInTheOrderOfArrival) {
  const NamedJson file{"w.json", R"({"workloads": [
    {"name": "a", "count": 3, "arrival": "10s", "every": "1m", "duration": ["10m", "2h"], "request": {}},
    {"name": "b", "arrival": 30, "duration": "1d", "gang": {"size": 4, "minimum": 2}, "request": {"devices": 8}}]})"};
  const auto workloads = read_workloads(file, 7);
  ASSERT_TRUE(workloads.has_value()) << workloads.error().text();
  ASSERT_EQ(workloads->size(), 4U);
  EXPECT_EQ((*workloads)[1].name, "b");
  EXPECT_EQ((*workloads)[1].minimum, 2);
  EXPECT_EQ((*workloads)[3].name, "a-2");
  EXPECT_EQ((*workloads)[3].arrival, Duration::seconds(130));
  EXPECT_GE((*workloads)[0].duration, Duration::seconds(600));
  EXPECT_LE((*workloads)[0].duration, Duration::seconds(7200));
  const auto again = read_workloads(file, 7);
  const auto other = read_workloads(file, 8);
  EXPECT_EQ((*workloads)[0].duration, (*again)[0].duration);
  EXPECT_NE((*workloads)[0].duration, (*other)[0].duration);
}

struct Bad {
  const char* text;
  const char* field;
  const char* says;
};

TEST(ScenarioTest, ABadFleetIsToldTheFieldAndTheFix) {
  const Bad cases[] = {
      {"[", "f", "is not JSON"},
      {"[]", "f", "object in braces"},
      {"{}", "f: nodes", "name the nodes"},
      {R"({"nodes": {}})", "f: nodes", "list in brackets"},
      {R"({"nodes": [{}]})", "f: nodes[0].name", "is missing"},
      {R"({"nodes": [{"name": "t", "torus": {"shape": "4x4", "host": "big"}}]})", "f: nodes[0].torus.host",
       "no topology"},
      {R"({"nodes": [{"name": "t", "torus": {"shape": "4x4x3", "host": "2x2x2"}}]})", "f: nodes[0].torus",
       "4x4x3 is not made of whole hosts of 2x2x2"},
      {R"({"nodes": [{"name": "t", "count": 3, "torus": {"shape": "4x4", "host": "2x2"}}]})", "f: nodes[0].count",
       "as many nodes as hosts"},
      {R"({"nodes": [{"name": "a"}, {"name": "a"}]})", "f: nodes", "two nodes are called a"},
      {R"({"nodes": [{"name": "a"}], "queues": [{"name": "q"}, {"name": "q"}]})", "f: queues[1].name",
       "two queues are called q"},
      {R"({"nodes": [{"name": "a"}], "queues": [{"name": "q", "placementPolicy": "tight"}]})", "f: queues[0]",
       "placementPolicy"},
      {R"({"nodes": [{"name": "a", "gpus": 8}]})", "f: nodes[0].gpus", "there is no such field"},
      {R"({"nodes": [{"name": "a", "count": 0}]})", "f: nodes[0].count", "whole number from 1"},
      {R"({"nodes": [{"name": "a", "devices": [{"model": "x", "memory": "1Gi"}]}]})", "f: nodes[0].devices[0].vendor",
       "is missing"},
      {R"({"nodes": [{"name": "a", "devices": [{"vendor": "NVIDIA", "model": "x", "memory": "1Gi"}]}]})",
       "f: nodes[0].devices[0].vendor", "small letters"},
      {R"({"nodes": [{"name": "a", "devices": [{"vendor": "v", "model": "x\"y", "memory": "1Gi"}]}]})",
       "f: nodes[0].devices[0].model", "leave it out"},
      {R"({"nodes": [{"name": "a", "devices": [{"vendor": "v", "model": "x"}]}]})", "f: nodes[0].devices[0].memory",
       "80Gi"},
      {R"({"nodes": [{"name": "a"}], "patience": "soon"})", "f: patience", "2h"},
      {R"({"nodes": [{"name": "a"}], "queues": [{"weight": 1}]})", "f: queues[0].name", "is missing"},
      {R"({"nodes": [{"name": "a"}], "queues": [{"name": "q", "wight": 1}]})", "f: queues[0].wight", "weight"},
      {R"({"nodes": [{"name": "a"}], "queues": [{"name": "q", "quotas": [{"garanteed": 1}]}]})",
       "f: queues[0].quotas[0].garanteed", "did you mean guaranteed?"},
      {R"({"nodes": [{"name": "a"}], "reservations": [{"name": "r", "start": "1h", "end": "2h",
       "amounts": [{"amonut": 1}]}]})",
       "f: reservations[0].amounts[0].amonut", "did you mean amount?"},
      {R"({"nodes": [{"name": "a"}], "queues": [{"name": "q", "weight": 0}]})", "f: queues[0]", "spec.weight"},
  };
  for (const Bad& bad : cases) {
    const auto fleet = read_fleet({"f", bad.text});
    ASSERT_FALSE(fleet.has_value()) << bad.text;
    EXPECT_EQ(fleet.error().code, Code::kInvalidArgument);
    EXPECT_EQ(fleet.error().field, bad.field) << bad.text;
    EXPECT_THAT(fleet.error().message, HasSubstr(bad.says)) << bad.text;
  }
}

TEST(ScenarioTest, ABadWorkloadIsToldTheFieldAndTheFix) {
  const Bad cases[] = {
      {R"("duration": "1h")", "f: workloads[0].request", "what each member asks for"},
      {R"("request": {})", "f: workloads[0].duration", "how long a run takes"},
      {R"("duration": "1w", "request": {})", "f: workloads[0].duration", "2h"},
      {R"("duration": [5], "request": {})", "f: workloads[0].duration", "two in brackets"},
      {R"("duration": ["2h", "1h"], "request": {})", "f: workloads[0].duration", "swap them"},
      {R"("duration": 1, "request": {"devices": 0})", "f: workloads[0].request.devices", "from 1"},
      {R"("duration": 1, "request": {"memory": "1500k"})", "f: workloads[0].request.memory", "3000Mi"},
      {R"("duration": 1, "request": {"memory": "1Gi", "memoryPercent": 10})", "f: workloads[0].request.memoryPercent",
       "leave one"},
      {R"("duration": 1, "request": {"cores": 101})", "f: workloads[0].request.cores", "from 0 to 100"},
      {R"("duration": 1, "request": {}, "gang": {"size": 2, "minimum": 3})", "f: workloads[0].gang.minimum", "1 to 2"},
      {R"("duration": 1, "request": {}, "topology": {"required": "aisle"})", "f: workloads[0].topology.required",
       "rack"},
      {R"("duration": 1, "request": {}, "gang": {"size": 4, "segment": 2})", "f: workloads[0].gang",
       "topology.segment, a level"},
      {R"("duration": 1, "request": {}, "gaps": "odd")", "f: workloads[0].gaps", "random"},
      {R"("duration": 1, "request": {}, "priorty": 1)", "f: workloads[0].priorty", "priority"},
      {R"("duration": 1, "request": {}, "nodeSelector": {"a": 1})", "f: workloads[0].nodeSelector[a]", "quotes"},
  };
  for (const Bad& bad : cases) {
    const std::string text = std::string(R"({"workloads": [{"name": "w", )") + bad.text + "}]}";
    const auto workloads = read_workloads({"f", text}, 1);
    ASSERT_FALSE(workloads.has_value()) << text;
    EXPECT_EQ(workloads.error().code, Code::kInvalidArgument);
    EXPECT_EQ(workloads.error().field, bad.field) << text;
    EXPECT_THAT(workloads.error().message, HasSubstr(bad.says)) << text;
  }
  const auto twice = read_workloads(
      {"f",
       R"({"workloads": [{"name": "w", "duration": 1, "request": {}}, {"name": "w", "duration": 1, "request": {}}]})"},
      1);
  ASSERT_FALSE(twice.has_value());
  EXPECT_THAT(twice.error().text(), HasSubstr("two workloads are called w"));
}

}  // namespace
}  // namespace heddle::simulation
