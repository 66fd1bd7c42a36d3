// Any text as a selector, evaluated against a device with every kind of attribute: no crash, no leak, bounded work.
#include <cstdint>
#include <string_view>

#include "cel/program.h"

namespace {

heddle::model::Device device() {
  heddle::model::Device made;
  made.allow_multiple_allocations = true;
  made.attributes["s"] = std::string("text");
  made.attributes["i"] = int64_t{7};
  made.attributes["b"] = true;
  made.attributes["v"] = heddle::model::Version{"1.2.3-a"};
  made.attributes["x.example.com/l"] = std::vector<int64_t>{1, 2, 3};
  made.capacity["m"] = {*heddle::Quantity::parse("80Gi"), {}};
  return made;
}

struct Fixture {
  heddle::model::Device published = device();
  heddle::cel::DeviceView view{published, "d"};
  heddle::cel::Environment environment;
  heddle::cel::Evaluator evaluator{100'000};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Fixture fixture;
  auto program = heddle::cel::Program::compile({reinterpret_cast<const char*>(data), size}, fixture.environment);
  if (program) (void)fixture.evaluator.matches(**program, fixture.view);
  return 0;
}
