// How to reach an API server: from a kubeconfig file or from inside a pod.
#pragma once

#include <string>

#include "base/result.h"

namespace heddle::kube {

struct Config {
  std::string server;            // "https://host:port", no trailing slash
  std::string ca_file;           // PEM; exactly one of file and data, or neither for the system's store
  std::string ca_data;           // PEM text
  std::string token;             // bearer token
  std::string token_file;        // read again when it changes (projected service account tokens)
  std::string client_cert_file;  // mutual TLS
  std::string client_key_file;
  std::string client_cert_data;
  std::string client_key_data;
  bool insecure_skip_verify = false;
  std::string proxy_url;               // empty: by the environment (https_proxy, no_proxy), never for loopback
  std::string name_space = "default";  // of the context
  std::string user_agent = "heddle/" HEDDLE_VERSION;
};

// The current context of a kubeconfig file (or the named one). Errors: kNotFound, kInvalidArgument naming the field;
// kUnsupported for exec and auth-provider users.
Result<Config> load_kubeconfig(const std::string& path, const std::string& context = {});

inline constexpr const char* kServiceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";

// KUBERNETES_SERVICE_HOST and the service account of the pod. Errors: kInvalidArgument (not in a pod), kNotFound (no
// token).
Result<Config> in_cluster_config(const std::string& host, const std::string& port,
                                 const std::string& folder = kServiceAccountFolder);

// The usual order: explicit path if not empty, else KUBECONFIG's value if not empty, else in-cluster. KUBECONFIG must
// name one file: a list of files to be merged is kUnsupported.
Result<Config> default_config(const std::string& explicit_path);

}  // namespace heddle::kube
