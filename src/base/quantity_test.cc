#include "base/quantity.h"

#include <gtest/gtest.h>

#include <limits>

namespace heddle {
namespace {

struct Case {
  const char* text;
  const char* shown;  // null: refused
  std::optional<int64_t> value;
  std::optional<int64_t> milli;
};

// Text, String(), Value() and MilliValue() as k8s.io/apimachinery v0.37.2 gives them; nothing where Go's int64 wraps.
const Case kCases[] = {
    {"0", "0", 0, 0},
    {"Ki", "0", 0, 0},
    {"5.", "5.", 5, 5000},
    {"+5", "+5", 5, 5000},
    {"007", "007", 7, 7000},
    {"1.500", "1.500", 2, 1500},
    {"0.100", "100m", 1, 100},
    {"0.1", "100m", 1, 100},
    {"1.5Gi", "1536Mi", 1610612736, 1610612736000},
    {"0.5Ki", "512", 512, 512000},
    {"-0.5Ki", "-512", -512, -512000},
    {"-1.5", "-1500m", -2, -1500},
    {"1.024k", "1.024k", 1024, 1024000},
    {"1.1Ki", "1126400m", 1127, 1126400},
    {"9223372036854775807", "9223372036854775807", std::numeric_limits<int64_t>::max(), std::nullopt},
    {"9223372036854775808", "9223372036854775808", std::nullopt, std::nullopt},
    {"-9223372036854775808", "-9223372036854775808", std::numeric_limits<int64_t>::min(), std::nullopt},
    {"-9223372036854775809", "-9223372036854775809", std::nullopt, std::nullopt},
    {"123456789012345678901234567890", "123456789012345678901234567890", std::nullopt, std::nullopt},
    {"9223372036854775807Ki", "9223372036854775807", std::numeric_limits<int64_t>::max(), std::nullopt},
    {"8Ei", "9223372036854775807", std::numeric_limits<int64_t>::max(), std::nullopt},
    {"0.0000000001", "1n", 1, 1},
    {"0.1n", "1n", 1, 1},
    {"1.0000000001", "1000000001n", 2, 1001},
    {"1e-1000", "1e-9", 1, 1},
    {"1e30", "1e30", std::nullopt, std::nullopt},
    {"1000m", "1", 1, 1000},
    {"1500m", "1500m", 2, 1500},
    {"1000k", "1M", 1000000, 1000000000},
    {"1024Ki", "1Mi", 1048576, 1048576000},
    {"1023Mi", "1023Mi", 1072693248, 1072693248000},
    {"3000Mi", "3000Mi", 3145728000, 3145728000000},
    {"1e3", "1e3", 1000, 1000000},
    {"10e2", "1e3", 1000, 1000000},
    {"", nullptr, {}, {}},
    {"Ei", nullptr, {}, {}},
    {" 1", nullptr, {}, {}},
    {"1,5", nullptr, {}, {}},
    {"--1", nullptr, {}, {}},
    {"1.2.3", nullptr, {}, {}},
    {"1i", nullptr, {}, {}},
    {"1mi", nullptr, {}, {}},
    {"-3.01e-", nullptr, {}, {}},
    {"aoeu", nullptr, {}, {}},
};

TEST(QuantityTest, AgreesWithUpstream) {
  for (const Case& test : kCases) {
    const auto quantity = Quantity::parse(test.text);
    ASSERT_EQ(quantity.has_value(), test.shown != nullptr) << test.text;
    if (!quantity) {
      EXPECT_EQ(quantity.error().code, Code::kInvalidArgument);
      continue;
    }
    EXPECT_EQ(quantity->to_string(), test.shown) << test.text;
    EXPECT_EQ(quantity->value(), test.value) << test.text;
    EXPECT_EQ(quantity->milli_value(), test.milli) << test.text;
  }
}

// Upstream writes "1" here and loses the value; we keep it.
TEST(QuantityTest, KeepsValuesBeyondTheLargestSuffix) {
  const Quantity quantity = Quantity::parse("10000000E").value();
  EXPECT_EQ(quantity.to_string(), "10000000E");
  EXPECT_EQ(Quantity::parse(quantity.to_string()).value(), quantity);
}

TEST(QuantityTest, ComparesExactlyAcrossNotations) {
  const char* ascending[] = {"-123456789012345678901234567890",
                             "-1E",
                             "-2",
                             "-1500m",
                             "-1n",
                             "0",
                             "1n",
                             "999m",
                             "1",
                             "1.5",
                             "1k",
                             "1Ki",
                             "9223372036854775806",
                             "9223372036854775807",
                             "9223372036854775807001m",
                             "9223372036854775808",
                             "10E",
                             "123456789012345678901234567890",
                             "1e30"};
  for (size_t i = 0; i < std::size(ascending); ++i) {
    for (size_t j = 0; j < std::size(ascending); ++j) {
      const int want = i < j ? -1 : static_cast<int>(i > j);
      EXPECT_EQ(Quantity::parse(ascending[i])->compare(*Quantity::parse(ascending[j])), want)
          << ascending[i] << " and " << ascending[j];
    }
  }
  EXPECT_EQ(*Quantity::parse("1Gi"), Quantity::bytes(1073741824));
  EXPECT_EQ(*Quantity::parse("1.0"), *Quantity::parse("1000m"));
}

TEST(QuantityTest, KnowsWholeNumbersAndSigns) {
  EXPECT_TRUE(Quantity::parse("3000m")->is_integer());
  EXPECT_FALSE(Quantity::parse("3001m")->is_integer());
  EXPECT_FALSE(Quantity::parse("12345678901234567890.5")->is_integer());
  EXPECT_TRUE(Quantity::parse("12345678901234567890")->is_integer());
  EXPECT_EQ(Quantity::parse("-12345678901234567890")->sign(), -1);
  EXPECT_EQ(Quantity::parse("-0")->sign(), 0);
  EXPECT_EQ(Quantity::parse("1n")->sign(), 1);
}

TEST(QuantityTest, WritesBytesInBinarySuffixes) {
  EXPECT_EQ(Quantity::bytes(81920 * int64_t{1048576}).to_string(), "80Gi");
  EXPECT_EQ(Quantity::bytes(3000 * int64_t{1048576}).to_string(), "3000Mi");
  EXPECT_EQ(Quantity::bytes(1000).to_string(), "1k");
  EXPECT_EQ(Quantity::bytes(1025).to_string(), "1025");
  EXPECT_EQ(Quantity::from_int(100).to_string(), "100");
}

}  // namespace
}  // namespace heddle

namespace heddle {
namespace {

TEST(QuantityArithmetic, IsExact) {
  struct Addition {
    const char* a;
    const char* b;
    const char* sum;
  };
  for (const Addition& c : {Addition{"1", "2", "3"},
                            {"1Gi", "1Mi", "1025Mi"},
                            {"500m", "500m", "1"},
                            {"1", "-1", "0"},
                            {"-3", "1", "-2"},
                            {"9223372036854775807", "1", "9223372036854775808"},
                            {"1n", "1", "1000000001n"},
                            {"0", "1Ki", "1Ki"},
                            {"100", "-99999999999999999999", "-99999999999999999899"}}) {
    auto sum = Quantity::parse(c.a)->plus(*Quantity::parse(c.b));
    ASSERT_TRUE(sum) << c.a << " + " << c.b;
    EXPECT_EQ(*sum, *Quantity::parse(c.sum)) << c.a << " + " << c.b << " = " << sum->to_string();
    auto back = sum->plus(Quantity::parse(c.b)->negated());
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, *Quantity::parse(c.a)) << c.a << " + " << c.b << " - " << c.b;
  }
}

TEST(QuantityArithmetic, ApproximatesAndGivesUpOnNumbersTooFarApart) {
  EXPECT_DOUBLE_EQ(Quantity::parse("1500m")->approximate(), 1.5);
  EXPECT_DOUBLE_EQ(Quantity::parse("1Gi")->approximate(), 1073741824.0);
  EXPECT_FALSE(Quantity::parse("1e100000")->plus(*Quantity::parse("1")));
}

}  // namespace
}  // namespace heddle
