// Credential plugins of kubeconfigs: a program prints who the user is, as EKS, GKE, AKS and logins over OIDC have it.
// Contract: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "kube/config.h"

namespace heddle::kube {

struct Credential {
  std::string token;             // empty: the certificate alone
  std::string client_cert_data;  // PEM; both or neither
  std::string client_key_data;
  std::optional<Time> expires;  // none: until the API server refuses it
};

// What a plugin printed: an ExecCredential of this apiVersion. Errors: kInvalidArgument naming the field.
Result<Credential> parse_credential(std::string_view text, std::string_view api_version);

// Runs the plugin of the configuration (config.plugin is set), with this process's environment, its standard error and,
// where `may_ask`, its standard input. Blocks until the plugin has ended, at most for the deadline, and until
// `cancel_fd` (-1: none) is readable; then it is killed. Thread rule: any thread. Errors: kNotFound (no such program,
// with the kubeconfig's hint how to install it), kDeadlineExceeded, kUnavailable (it failed, or was cancelled),
// kInvalidArgument (what it printed is no credential).
Result<Credential> run_credential_plugin(const Config& config, bool may_ask, Duration deadline, int cancel_fd = -1);

}  // namespace heddle::kube
