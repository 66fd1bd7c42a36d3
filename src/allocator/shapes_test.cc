#include "allocator/shapes.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace heddle::allocator {
namespace {

Shape shape_of(int64_t memory, bool shared = true) {
  model::Device device;
  device.allow_multiple_allocations = shared;
  device.capacity["memory"] = {.value = Quantity::from_nano(Amount{memory} * kUnit, Quantity::Format::kBinarySi),
                               .policy = {}};
  return make_shape(device).value();
}

TEST(Shapes, EqualShapesAreOne) {
  Shapes shapes;
  const auto first = shapes.intern(shape_of(1024));
  EXPECT_EQ(first, shapes.intern(shape_of(1024)));
  EXPECT_NE(first, shapes.intern(shape_of(1025)));
  EXPECT_NE(first, shapes.intern(shape_of(1024, false)));
  Shape managed = shape_of(1024);
  managed.memory = 0;
  const auto other = shapes.intern(std::move(managed));
  EXPECT_NE(first, other) << "its memory is a part of something";
  EXPECT_NE(first->id, other->id);
}

TEST(Shapes, WhatNoDeviceHasIsForgottenAndItsIdUsedAgain) {
  Shapes shapes;
  std::vector<std::shared_ptr<const Shape>> in_use;
  in_use.reserve(10);
  for (int64_t i = 0; i < 10; ++i) in_use.push_back(shapes.intern(shape_of(i)));
  uint32_t highest = 0;
  for (int64_t i = 100; i < 10'000; ++i) {
    const auto passing = shapes.intern(shape_of(i));
    highest = std::max(highest, passing->id);
    for (const auto& kept : in_use) ASSERT_NE(kept->id, passing->id);
  }
  EXPECT_LE(shapes.size(), 64U);
  EXPECT_LT(highest, 64U);
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(in_use[static_cast<size_t>(i)], shapes.intern(shape_of(i)));
}

}  // namespace
}  // namespace heddle::allocator
