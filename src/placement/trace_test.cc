#include "placement/trace.h"

#include <gtest/gtest.h>

#include "placement/replay.h"

namespace heddle::placement {
namespace {

constexpr const char* kNodes = "sn,cpu_milli,memory_mib,gpu,model\na,64000,1024,2,P100\nb,32000,512,1,T4\n";
constexpr const char* kPods =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"
    "p,1000,8,1,460,,5,9\nq,2000,16,2,1000,T4|P100|T4,6,6\nr,3000,24,0,0,,7,8\ns,0,0,1,1000,G9,1,2\n";

TEST(Trace, ReadsNodesAndPods) {
  const auto trace = parse_trace({"nodes.csv", kNodes}, {"pods.csv", kPods});
  ASSERT_TRUE(trace) << trace.error().text();
  EXPECT_EQ(trace->nodes[0], (Node{64000, int64_t{1} << 30, {1000, 1000}, 0}));
  EXPECT_EQ(trace->models, (std::vector<std::string>{"P100", "T4", "G9"}));
  EXPECT_EQ(trace->card_milli(), 3000);
  EXPECT_TRUE(trace->has_times);
  EXPECT_EQ(trace->pods[0].request, (Request{1000, 8 << 20, 1, 460, {}}));
  EXPECT_EQ(trace->pods[0].created, 5);
  EXPECT_EQ(trace->pods[0].deleted, 9);
  EXPECT_EQ(trace->pods[1].request, (Request{2000, 16 << 20, 2, 1000, {0, 1}}));
  EXPECT_EQ(trace->pods[2].request, (Request{3000, 24 << 20, 0, 0, {}}));
  EXPECT_EQ(trace->pods[3].request.kinds, std::vector<Kind>{2});
}

TEST(Trace, ReadsWhatSpreadsheetsWrite) {
  const auto trace = parse_trace(
      {"n", "\xef\xbb\xbfmodel,extra,sn,gpu,memory_mib,cpu_milli\r\n\"P,\"\"1\"\"\",\"two\nlines\",a,1,4,8\r\n\r\n"},
      {"p", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,2,1,3"});
  ASSERT_TRUE(trace) << trace.error().text();
  EXPECT_EQ(trace->models, std::vector<std::string>{"P,\"1\""});
  EXPECT_EQ(trace->nodes[0].cpu_milli, 8);
  EXPECT_EQ(trace->pods.size(), 1U);
  EXPECT_FALSE(trace->has_times);
}

struct Case {
  const char* what;
  std::string nodes;
  std::string pods;
  std::string error;
};

TEST(Trace, SaysWhatIsWrongAndWhere) {
  const std::string node_header = "sn,cpu_milli,memory_mib,gpu,model\n";
  const std::string pod_header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n";
  const std::string timed = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n";
  const std::vector<Case> cases = {
      {"empty", "", kPods, "nodes.csv: the file is empty"},
      {"header alone", node_header, kPods, "nodes.csv: there is nothing below the header"},
      {"missing column", "sn,cpu_milli,memory_mib,model\na,1,1,x\n", kPods, "nodes.csv:1: the column gpu is missing"},
      {"missing pod column", kNodes, "name,cpu_milli,memory_mib,gpu_milli\np,1,1,1\n",
       "pods.csv:1: the column num_gpu is missing"},
      {"column twice", "sn,sn,cpu_milli,memory_mib,gpu,model\n", kPods, "nodes.csv:1: column sn is there twice"},
      {"short line", node_header + "a,1,1,1,x\nb,1,1\n", kPods, "nodes.csv:3: the line has 3 fields, the header 5"},
      {"negative", node_header + "a,-5,1,1,x\n", kPods, "nodes.csv:2: cpu_milli: -5 is negative"},
      {"no number", node_header + "a,1,1,two,x\n", kPods, "nodes.csv:2: gpu: 'two' is not a whole number"},
      {"a fraction", node_header + "a,1.5,1,1,x\n", kPods, "nodes.csv:2: cpu_milli: '1.5' is not a whole number"},
      {"empty number", node_header + "a,1,,1,x\n", kPods, "nodes.csv:2: memory_mib: is empty; write a number"},
      {"too large for a number", node_header + "a,1,99999999999999999999,1,x\n", kPods,
       "nodes.csv:2: memory_mib: '99999999999999999999' is too large"},
      {"too many cards", node_header + "a,1,1,129,x\n", kPods, "nodes.csv:2: gpu: 129 is more than 128"},
      {"node twice", node_header + "a,1,1,1,x\na,1,1,1,x\n", kPods, "nodes.csv:3: sn: 'a' is on line 2 already"},
      {"open quote", node_header + "\"a,1,1,1,x\n", kPods, "nodes.csv:2: a quoted field is not closed"},
      {"share of nothing", kNodes, pod_header + "p,1,1,1,0\n",
       "pods.csv:2: gpu_milli: is 0, but num_gpu is 1; write 1 to 1000"},
      {"more than a card", kNodes, pod_header + "p,1,1,1,1001\n", "pods.csv:2: gpu_milli: 1001 is more than 1000"},
      {"ends before it starts", kNodes, timed + "p,1,1,0,0,9,8\n",
       "pods.csv:2: deletion_time: 8 is before creation_time 9"},
  };
  for (const Case& test : cases) {
    const auto trace = parse_trace({"nodes.csv", test.nodes}, {"pods.csv", test.pods});
    ASSERT_FALSE(trace) << test.what;
    EXPECT_EQ(trace.error().code, Code::kInvalidArgument) << test.what;
    EXPECT_EQ(trace.error().text(), test.error) << test.what;
  }
}

TEST(ArrivalStream, ShufflesThenSamplesUntilTheLoad) {
  const auto trace = parse_trace({"n", kNodes}, {"p", kPods});
  ASSERT_TRUE(trace);
  const auto full = arrival_stream(*trace, 100, 42);
  const auto more = arrival_stream(*trace, 400, 42);
  ASSERT_TRUE(full && more);
  int64_t asked = 0;
  for (const uint32_t pod : *full) {
    EXPECT_LT(asked, 3000);
    asked += trace->pods[pod].request.card_milli();
  }
  EXPECT_GE(asked, 3000);
  ASSERT_GT(more->size(), full->size());
  EXPECT_TRUE(std::equal(full->begin(), full->end(), more->begin()));
  std::vector<uint32_t> first(more->begin(), more->begin() + 4);
  std::sort(first.begin(), first.end());
  EXPECT_EQ(first, (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(*arrival_stream(*trace, 400, 42), *more);
  EXPECT_NE(*arrival_stream(*trace, 4000, 43), *arrival_stream(*trace, 4000, 42));
}

TEST(ArrivalStream, RefusesWhatReachesNoLoad) {
  const auto no_cards = parse_trace({"n", "sn,cpu_milli,memory_mib,gpu,model\na,1,1,0,\n"}, {"p", kPods});
  ASSERT_TRUE(no_cards);
  EXPECT_EQ(arrival_stream(*no_cards, 100, 1).error().message, "no node of the trace has a card");
  const auto no_asks = parse_trace({"n", kNodes}, {"p", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,0,0\n"});
  ASSERT_TRUE(no_asks);
  EXPECT_EQ(arrival_stream(*no_asks, 100, 1).error().message,
            "no pod of the trace asks for a card, so it reaches no load");
}

}  // namespace
}  // namespace heddle::placement
