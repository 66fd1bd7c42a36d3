#include "kube/credential_plugin.h"

#include <gtest/gtest.h>

#include <string>

namespace heddle::kube {
namespace {

constexpr const char* kV1 = "client.authentication.k8s.io/v1";

std::string credential(const std::string& status) {
  return R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":)" + status + "}";
}

TEST(ParseCredential, ReadsTokenCertificateAndExpiry) {
  const auto got = parse_credential(
      credential(
          R"({"token":"t","clientCertificateData":"c","clientKeyData":"k","expirationTimestamp":"1970-01-01T00:01:00Z"})"),
      kV1);
  ASSERT_TRUE(got) << got.error().text();
  EXPECT_EQ(got->token, "t");
  EXPECT_EQ(got->client_cert_data, "c");
  EXPECT_EQ(got->client_key_data, "k");
  ASSERT_TRUE(got->expires);
  EXPECT_EQ(got->expires->unix_nanos, 60'000'000'000);
}

TEST(ParseCredential, WithoutExpiryItHoldsUntilItIsRefused) {
  const auto got = parse_credential(credential(R"({"token":"t","expirationTimestamp":null})"), kV1);
  ASSERT_TRUE(got) << got.error().text();
  EXPECT_FALSE(got->expires);
}

struct Bad {
  const char* name;
  std::string text;
  const char* field;
};

class BadCredential : public ::testing::TestWithParam<Bad> {};

TEST_P(BadCredential, NamesTheField) {
  const auto got = parse_credential(GetParam().text, kV1);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kInvalidArgument);
  EXPECT_EQ(got.error().field, GetParam().field) << got.error().text();
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadCredential,
    ::testing::Values(
        Bad{"no_json", "Please log in", ""}, Bad{"list", "[]", ""}, Bad{"kind", R"({"kind":"Status"})", "kind"},
        Bad{"version", R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1"})",
            "apiVersion"},
        Bad{"no_status", R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1"})", "status"},
        Bad{"nothing", credential("{}"), "status"},
        Bad{"half", credential(R"({"token":"t","clientKeyData":"k"})"), "status"},
        Bad{"two_lines", credential(R"({"token":"t\r\nImpersonate-User: root"})"), "status.token"},
        Bad{"time", credential(R"({"token":"t","expirationTimestamp":"soon"})"), "status.expirationTimestamp"}),
    [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace heddle::kube
