// Evaluation of the usual selectors takes nothing from the heap: the global operator new is counted.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "cel/program.h"

namespace {
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): operator new has nowhere else to count
size_t allocations = 0;
}  // namespace

[[gnu::noinline]] void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  std::abort();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t /*size*/) noexcept {
  std::free(memory);
}

namespace heddle::cel {
namespace {

class CelAllocationTest : public ::testing::TestWithParam<const char*> {};

TEST_P(CelAllocationTest, EvaluatesWithoutTheHeap) {
  model::Device device;
  device.name = "gpu-0";
  device.attributes = {{"vendor", std::string("nvidia")},
                       {"model", std::string("NVIDIA H100 80GB HBM3")},
                       {"index", int64_t{3}},
                       {"sriov", true},
                       {"driverVersion", model::Version{"580.65.6"}}};
  device.capacity["memory"] = {.value = *Quantity::parse("80Gi"), .policy = {}};
  const DeviceView view(device, "d");
  const Environment environment;
  const auto program = Program::compile(GetParam(), environment);
  ASSERT_TRUE(program) << program.error().message;
  Evaluator evaluator;
  ASSERT_TRUE(evaluator.matches(**program, view)) << "grows what is used again";
  const size_t before = allocations;
  bool selected = false;
  for (int i = 0; i < 100; ++i) selected = evaluator.matches(**program, view).value();
  EXPECT_EQ(allocations, before);
  EXPECT_TRUE(selected);
}

INSTANTIATE_TEST_SUITE_P(
    Selectors, CelAllocationTest,
    ::testing::Values(
        R"(device.driver == "d" && device.attributes["d"].vendor == "nvidia")",
        R"(device.attributes["d"].model.startsWith("NVIDIA H100") || device.attributes["d"].index > 4)",
        R"(device.attributes["d"].driverVersion.compareTo(semver("570.0.0")) > 0)",
        R"(device.capacity["d"].memory.compareTo(quantity("40Gi")) >= 0)",
        R"(device.attributes["d"].index in [1, 2, 3] && device.attributes["d"].sriov)",
        R"(device.attributes["d"].model.matches("^NVIDIA (A|H)100.*HBM[0-9]$") && device.driver.find("^[a-z]") == "d")",
        R"(cel.bind(a, device.attributes["d"], a.index == 3 && a.vendor != "amd"))",
        R"("vendor" in device.attributes["d"] && has(device.attributes["d"].index))",
        R"(device.attributes["d"].driverVersion.major() >= 1 && device.capacity["d"].memory.isGreaterThan(quantity("1Mi")))"));

}  // namespace
}  // namespace heddle::cel
