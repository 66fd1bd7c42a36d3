// How to reach an API server: from a kubeconfig file or from inside a pod.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace heddle::kube {

// Whether a credential plugin may ask the user on the terminal.
enum class Interactive { kNever, kIfAvailable, kAlways };

// A program that prints who the user is (credential_plugin.h): users[].user.exec.
struct CredentialPlugin {
  std::string field;        // of the kubeconfig, for messages
  std::string api_version;  // client.authentication.k8s.io/v1 or .../v1beta1
  std::string command;      // a path, or a name to look for in $PATH
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;  // over this process's
  std::string install_hint;
  bool provide_cluster_info = false;
  Interactive interactive = Interactive::kIfAvailable;
};

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
  // Asked by Client::create() and again when its credential expires or is refused. Only without a token of either kind.
  std::optional<CredentialPlugin> plugin;
  bool insecure_skip_verify = false;
  std::string proxy_url;               // empty: by the environment (https_proxy, no_proxy), never for loopback
  std::string name_space = "default";  // of the context
  std::string user_agent = "heddle/" HEDDLE_VERSION;
};

// The current context of a kubeconfig file (or the named one). Errors: kNotFound, kInvalidArgument naming the field;
// kUnsupported for auth-provider users. Paths in it are relative to its folder.
Result<Config> load_kubeconfig(const std::string& path, const std::string& context = {});

// Several of them as one, as kubectl reads KUBECONFIG: of two entries of one name the first counts, files that do not
// exist are passed over. kNotFound when none exists.
Result<Config> load_kubeconfigs(const std::vector<std::string>& paths, const std::string& context = {});

inline constexpr const char* kServiceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";

// KUBERNETES_SERVICE_HOST and the service account of the pod. Errors: kInvalidArgument (not in a pod), kNotFound (no
// token).
Result<Config> in_cluster_config(const std::string& host, const std::string& port,
                                 const std::string& folder = kServiceAccountFolder);

// The usual order: explicit path if not empty, else the files of KUBECONFIG's value (separated by colons) if not empty,
// else in-cluster.
Result<Config> default_config(const std::string& explicit_path, const std::string& context = {});

}  // namespace heddle::kube
