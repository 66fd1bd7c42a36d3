#include "dialects/registry.h"

#include <gtest/gtest.h>

namespace heddle::dialects {
namespace {

TEST(Registry, HamiInFields) {
  const auto seven =
      decode_hami_register("GPU-1,10,81920,100,NVIDIA-NVIDIA A100,0,true:GPU-2,10,81920,100,NVIDIA,-1,false:");
  ASSERT_TRUE(seven) << seven.error().text();
  ASSERT_EQ(seven->size(), 2U);
  EXPECT_EQ((*seven)[0], (RegisteredDevice{"GPU-1", "NVIDIA-NVIDIA A100", 0, 10, 81920, 100, 0, "", true, {}}));
  EXPECT_FALSE((*seven)[1].healthy);
  EXPECT_EQ((*seven)[1].numa, -1);
  const auto nine = decode_hami_register("DCU-1,4,16384,60,DCU-K100_AI,1,true,3,hami-core:");
  ASSERT_TRUE(nine) << nine.error().text();
  EXPECT_EQ((*nine)[0].index, 3);
  EXPECT_EQ((*nine)[0].mode, "hami-core");
  EXPECT_TRUE(decode_hami_register(":")->empty());
}

TEST(Registry, HamiInJson) {
  const auto devices = decode_hami_register(
      R"([{"id":"GPU-1","index":2,"count":10,"devmem":81920,"devcore":100,"type":"NVIDIA A100","numa":1,"mode":"mig","health":true,)"
      R"("migProfiles":[{"name":"1g.10gb","memoryMB":9728},{"name":"2g.20gb"}]},{"id":"7-0","count":1}])");
  ASSERT_TRUE(devices) << devices.error().text();
  EXPECT_EQ((*devices)[0],
            (RegisteredDevice{"GPU-1", "NVIDIA A100", 2, 10, 81920, 100, 1, "mig", true, {"1g.10gb", "2g.20gb"}}));
  EXPECT_FALSE((*devices)[1].healthy);
}

TEST(Registry, Volcano) {
  const auto devices = decode_volcano_register("GPU-1,10,32768,NVIDIA-Tesla V100,true,hami-core:");
  ASSERT_TRUE(devices) << devices.error().text();
  EXPECT_EQ((*devices)[0], (RegisteredDevice{"GPU-1", "NVIDIA-Tesla V100", 0, 10, 32768, 0, 0, "hami-core", true, {}}));
}

TEST(Registry, WhatHasNotTheFormSaysWhere) {
  for (const char* bad : {"",
                          "GPU-1",
                          "GPU-1,1,1:",
                          "a,1,2,3,t,0,true,1:",
                          "a,x,2,3,t,0,true:",
                          "a,1,2147483648,3,t,0,true:",
                          "a,1,99999999999,3,t,0,true:",
                          "a,1,-2,3,t,0,true:",
                          "a,1,2,3,t,0,maybe:",
                          "a,1,2,3,t,0,true,-1,m:",
                          ",1,2,3,t,0,true:",
                          "[",
                          "{}",
                          "[1]",
                          "[{}]",
                          R"([{"id":1}])",
                          R"([{"id":"a","devmem":2147483648}])",
                          R"([{"id":"a","devmem":1.5}])",
                          R"([{"id":"a","devmem":-1}])",
                          R"([{"id":"a","devmem":18446744073709551615}])",
                          R"([{"id":"a","health":"yes"}])"}) {
    EXPECT_FALSE(decode_hami_register(bad)) << bad;
  }
  EXPECT_EQ(decode_hami_register("a,1,2,3,t,0,true:b,1,x,3,t,0,true:").error().field, "device 1 memory");
  for (const char* bad : {"", "a,1,2,t,true:", "a,x,2,t,true,m:", "a,1,2,t,yes,m:"})
    EXPECT_FALSE(decode_volcano_register(bad)) << bad;
}

TEST(Registry, Granted) {
  const auto granted = decode_granted("GPU-a,NVIDIA,3000,0:;;GPU-a,NVIDIA,5000,0:GPU-b,NVIDIA,5000,30:;");
  ASSERT_TRUE(granted) << granted.error().text();
  ASSERT_EQ(granted->size(), 3U);
  EXPECT_EQ((*granted)[0], (std::vector<GrantedDevice>{{"GPU-a", "NVIDIA", 3000, 0}}));
  EXPECT_TRUE((*granted)[1].empty());
  EXPECT_EQ((*granted)[2].size(), 2U);
  EXPECT_EQ(decode_granted("GPU-a,NVIDIA,3000,0:")->size(), 1U);  // Volcano writes no ";" at the end
  EXPECT_TRUE(decode_granted("")->empty());
  EXPECT_EQ(decode_granted(";;")->size(), 2U);
  EXPECT_TRUE(decode_granted(":")->front().empty());
  for (const char* bad : {"a", "a,b,1:", "a,b,1,2,3:", "a,b,x,0:", "a,b,2147483648,0:", "a,b,1,-1:", ",b,1,1:"})
    EXPECT_FALSE(decode_granted(bad)) << bad;
}

}  // namespace
}  // namespace heddle::dialects
