#include "kube/certificates.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace heddle::kube {
namespace {

constexpr int64_t kDay = 86'400'000'000'000;
const Time kNow{1'800'000'000'000'000'000};
Time days(int64_t n) {
  return {kNow.unix_nanos + n * kDay};
}
const std::vector<std::string> kNames = {"heddle.heddle-system.svc", "10.96.0.7", "fd00::7"};

KeyPair ca_of(int64_t from, int64_t to) {
  return make_ca("heddle-webhook-ca", days(from), days(to)).value();
}
KeyPair server_of(const KeyPair& ca, int64_t from, int64_t to) {
  return make_server_certificate(ca, kNames, days(from), days(to)).value();
}

TEST(Certificates, AServerCertificateSaysWhatWasAsked) {
  const KeyPair ca = ca_of(-1, 3650);
  const auto server = make_server_certificate(ca, kNames, days(-1), days(90));
  ASSERT_TRUE(server) << server.error().text();
  const auto info = parse_certificate(server->certificate_pem);
  ASSERT_TRUE(info) << info.error().text();
  EXPECT_EQ(info->not_before, days(-1));
  EXPECT_EQ(info->not_after, days(90));
  EXPECT_EQ(info->subject, "heddle.heddle-system.svc");
  EXPECT_EQ(info->names, (std::vector<std::string>{"10.96.0.7", "fd00::7", "heddle.heddle-system.svc"}));
  for (const std::string& name : kNames) {
    const auto verified = verify_certificate(server->certificate_pem, ca.certificate_pem, name, kNow);
    EXPECT_TRUE(verified) << name << ": " << verified.error().text();
  }
}

TEST(Certificates, WhatAClientWouldRefuse) {
  const KeyPair ca = ca_of(-1, 3650);
  const KeyPair other = ca_of(-1, 3650);  // the same name, another key
  const KeyPair server = server_of(ca, -1, 90);
  const auto refused = [&](const std::string& ca_pem, const std::string& name, Time now) {
    return !verify_certificate(server.certificate_pem, ca_pem, name, now).has_value();
  };
  EXPECT_FALSE(refused(ca.certificate_pem, kNames[0], kNow));
  EXPECT_TRUE(refused(other.certificate_pem, kNames[0], kNow));
  EXPECT_TRUE(refused(ca.certificate_pem, "other.svc", kNow));
  EXPECT_TRUE(refused(ca.certificate_pem, "10.96.0.8", kNow));
  EXPECT_TRUE(refused(ca.certificate_pem, kNames[0], days(91)));
  EXPECT_TRUE(refused(ca.certificate_pem, kNames[0], days(-2)));
  EXPECT_FALSE(refused(other.certificate_pem + ca.certificate_pem, kNames[0], kNow));  // a bundle, while rotating
}

TEST(Certificates, AServerDoesNotOutliveItsCa) {
  const KeyPair ca = ca_of(-1, 30);
  EXPECT_EQ(parse_certificate(server_of(ca, -1, 90).certificate_pem)->not_after, days(30));
}

TEST(Certificates, BadInputIsRefused) {
  const KeyPair ca = ca_of(-1, 3650);
  const KeyPair other = ca_of(-1, 3650);
  const auto field_of = [](const Result<KeyPair>& made) { return made ? std::string("fine") : made.error().field; };
  EXPECT_EQ(field_of(make_server_certificate(ca, {}, days(0), days(1))), "names");
  EXPECT_EQ(field_of(make_server_certificate(ca, {"a,DNS:evil"}, days(0), days(1))), "names");
  EXPECT_EQ(field_of(make_server_certificate(ca, {"a b"}, days(0), days(1))), "names");
  EXPECT_EQ(field_of(make_server_certificate({ca.certificate_pem, other.key_pem}, {"a"}, days(0), days(1))), "ca");
  EXPECT_EQ(field_of(make_server_certificate(server_of(ca, 0, 9), {"a"}, days(0), days(1))), "ca");  // no CA
  EXPECT_EQ(field_of(make_server_certificate({"x", "y"}, {"a"}, days(0), days(1))), "ca");
  EXPECT_FALSE(parse_certificate("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"));
}

TEST(Certificates, RotationIsDecidedInTime) {
  const KeyPair ca = ca_of(-10, 300);
  const KeyPair server = server_of(ca, 0, 90);
  const auto why = [&](const KeyPair& pair, const std::string& ca_pem, const std::vector<std::string>& names,
                       Time now) { return needs_rotation(pair, ca_pem, names, now); };
  EXPECT_EQ(why(server, ca.certificate_pem, kNames, days(0)), "");
  EXPECT_EQ(why(server, ca.certificate_pem, kNames, days(60)), "");
  EXPECT_NE(why(server, ca.certificate_pem, kNames, days(61)), "");  // less than a third left
  EXPECT_NE(why(server, ca.certificate_pem, kNames, days(-1)), "");  // a clock that went back
  EXPECT_NE(why(server, ca.certificate_pem, {"new.svc"}, kNow), "");
  EXPECT_NE(why(server, ca_of(-1, 300).certificate_pem, kNames, kNow), "");
  EXPECT_NE(why({server.certificate_pem, ca.key_pem}, ca.certificate_pem, kNames, kNow), "");
  EXPECT_NE(why({"", ""}, ca.certificate_pem, kNames, kNow), "");
  EXPECT_NE(why(server, "", kNames, kNow), "");
  const KeyPair old_ca = ca_of(-250, 50);
  EXPECT_NE(why(server_of(old_ca, 0, 49), old_ca.certificate_pem, kNames, kNow), "");
}

}  // namespace
}  // namespace heddle::kube
