// Certificates for a webhook server, made and checked without other tools: a CA of our own, server certificates of it,
// and the decision when to make new ones. ECDSA P-256, PEM in and out. Free functions, any thread, about a millisecond
// each.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace heddle::kube {

struct KeyPair {
  std::string certificate_pem;
  std::string key_pem;  // PKCS#8, not encrypted
};

// A self-signed CA that may sign server certificates only. Errors: kInternal.
Result<KeyPair> make_ca(const std::string& common_name, Time not_before, Time not_after);

// A server certificate for these names: DNS names, or IP addresses ("10.0.0.1", "::1"). Not valid longer than its CA.
// Errors: kInvalidArgument (no names, a bad name, a CA pair that is none).
Result<KeyPair> make_server_certificate(const KeyPair& ca, const std::vector<std::string>& names, Time not_before,
                                        Time not_after);

struct CertificateInfo {
  Time not_before;
  Time not_after;
  std::string subject;             // the common name
  std::vector<std::string> names;  // DNS names and IP addresses, sorted
};
// The first certificate of the text. Errors: kInvalidArgument.
Result<CertificateInfo> parse_certificate(const std::string& certificate_pem);

// Whether a client that trusts only ca_pem (one or more certificates) accepts this server under `name` at `now`.
// Errors: kInvalidArgument with the reason.
Result<void> verify_certificate(const std::string& certificate_pem, const std::string& ca_pem, const std::string& name,
                                Time now);

// Why new certificates are needed now; empty when they are not: unreadable, key does not fit, wrong CA, a name missing,
// not valid yet, or less than a third of its life left (of the CA's or of the server's).
std::string needs_rotation(const KeyPair& server, const std::string& ca_pem, const std::vector<std::string>& names,
                           Time now);

}  // namespace heddle::kube
