#include "engine/written_fields.h"

#include <gtest/gtest.h>

#include <string>

namespace heddle::engine {
namespace {

std::string text_of(const Result<void>& checked) {
  return checked ? "good" : checked.error().text();
}

TEST(WrittenFields, OfAQueue) {
  const auto queue = [](const std::string& spec) {
    return text_of(check_queue_fields(R"({"kind":"AcceleratorQueue","metadata":{"any":1},"spec":{)" + spec + "}}"));
  };
  EXPECT_EQ(queue(R"("parent":"p","weight":2,"namespaces":["a"],"placementPolicy":"spread","quotas":[{"counts":"Boxes",
      "deviceClass":"c","vendor":"v","model":"m","boxDevices":8,"boxLevel":"l","boxShape":"4x4x4","guaranteed":1,
      "limit":2,"borrowing":1,"lending":1}],"namespaceSelector":{"matchLabels":{"anything":"x"},
      "matchExpressions":[{"key":"k","operator":"In","values":["v"]}]})"),
            "good");
  EXPECT_EQ(queue(R"("wieght":2)"), "spec.wieght: there is no such field; did you mean weight?");
  EXPECT_EQ(queue(R"("quotas":[{"limit":1},{"garanteed":1}])"),
            "spec.quotas[1].garanteed: there is no such field; did you mean guaranteed?");
  EXPECT_EQ(queue(R"("quotas":[{"limt":1}])"), "spec.quotas[0].limt: there is no such field; did you mean limit?");
  EXPECT_EQ(queue(R"("namespaceSelector":{"matchLables":{}})"),
            "spec.namespaceSelector.matchLables: there is no such field; did you mean matchLabels?");
  EXPECT_EQ(queue(R"("namespaceSelector":{"matchExpressions":[{"key":"k","op":"In"}]})"),
            "spec.namespaceSelector.matchExpressions[0].op: there is no such field; there are key, operator, values");
  EXPECT_EQ(text_of(check_queue_fields(R"({"metadata":{},"sepc":{},"status":{"past":{"odd":1}}})")),
            "sepc: there is no such field; did you mean spec?");
  EXPECT_EQ(text_of(check_queue_fields(R"({"spec":{"quotas":{"odd":1}}})")), "good") << "who reads it says what it is";
  EXPECT_EQ(text_of(check_queue_fields(R"({"metadata":{},"status":{"odd":1}})")), "good");
}

TEST(WrittenFields, OfAReservationAndATopology) {
  EXPECT_EQ(
      text_of(check_reservation_fields(
          R"({"spec":{"start":"s","end":"e","queue":"q","namespaces":[],"amounts":[{"vendor":"v","amount":1}]}})")),
      "good");
  EXPECT_EQ(text_of(check_reservation_fields(R"({"spec":{"ende":"e"}})")),
            "spec.ende: there is no such field; did you mean end?");
  EXPECT_EQ(text_of(check_reservation_fields(R"({"spec":{"amounts":[{"amount":1,"vendr":"v"}]}})")),
            "spec.amounts[0].vendr: there is no such field; did you mean vendor?");
  EXPECT_EQ(text_of(check_reservation_fields(R"({"spec":{"amounts":[{"guaranteed":1}]}})")),
            "spec.amounts[0].guaranteed: there is no such field; there are counts, deviceClass, vendor, model, "
            "boxDevices, boxLevel, boxShape, amount");
  EXPECT_EQ(text_of(check_topology_fields(
                R"({"spec":{"levels":[{"name":"n","nodeLabel":"l"},{"name":"m","deviceAttribute":"a/b"}]}})")),
            "good");
  EXPECT_EQ(text_of(check_topology_fields(R"({"spec":{"levels":[{"name":"n","nodeLable":"l"}]}})")),
            "spec.levels[0].nodeLable: there is no such field; did you mean nodeLabel?");
}

}  // namespace
}  // namespace heddle::engine
