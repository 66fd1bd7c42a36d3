#include "engine/inventory.h"

#include <gtest/gtest.h>

namespace heddle::engine {
namespace {

model::ResourceSlice slice_of(int64_t memory) {
  model::ResourceSlice slice;
  slice.meta.name = "slice";
  slice.driver = "d";
  slice.pool = "pool";
  slice.pool_slice_count = 1;
  slice.scope = {.kind = model::NodeScope::Kind::kNode, .node = "node", .selector = {}};
  for (int64_t i = 0; i < 8; ++i) {
    model::Device device;
    device.name = "gpu-" + std::to_string(i);
    device.allow_multiple_allocations = true;
    device.capacity["memory"] = {.value = Quantity::from_int(memory + i), .policy = {}};
    slice.devices.push_back(std::move(device));
  }
  return slice;
}

TEST(Inventory, ShapesThatNoDeviceHasAnyMoreAreForgotten) {
  const Ledger ledger;
  allocator::QueryCache cache;
  Inventory inventory("d", ledger, cache);
  for (int64_t i = 0; i < 5000; ++i) inventory.upsert_slice(slice_of(i * 8));
  EXPECT_LE(inventory.kept_shapes(), 64U);
  const allocator::DeviceInfo* device = inventory.find({"d", "pool", "gpu-7"});
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->shape->capacities.at(0).published.value, Quantity::from_int(4999 * 8 + 7));
  EXPECT_LT(device->shape->id, 64U);
}

}  // namespace
}  // namespace heddle::engine
