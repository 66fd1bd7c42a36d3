#include "kube/config.h"

#include <yaml-cpp/yaml.h>

#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/yaml.h"

namespace heddle::kube {
namespace {

constexpr size_t kMaxFileBytes = size_t{4} << 20;

tl::unexpected<Error> bad(std::string message, std::string field) {
  return fail(Code::kInvalidArgument, std::move(message), std::move(field));
}

Result<std::string> decode_base64(std::string_view text, const std::string& field) {
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  size_t padding = 0;
  for (const char c : text) {
    uint32_t value = 0;
    if (c >= 'A' && c <= 'Z') {
      value = static_cast<uint32_t>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      value = static_cast<uint32_t>(c - 'a') + 26;
    } else if (c >= '0' && c <= '9') {
      value = static_cast<uint32_t>(c - '0') + 52;
    } else if (c == '+') {
      value = 62;
    } else if (c == '/') {
      value = 63;
    } else if (c == '=') {
      ++padding;
      continue;
    } else if (c == '\n' || c == '\r' || c == ' ') {
      continue;
    } else {
      return bad("not base64", field);
    }
    if (padding > 0) return bad("not base64: text after its padding", field);
    bits = (bits << 6) | value;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>((bits >> count) & 0xff);
  }
  if (padding > 2 || count >= 6) return bad("not base64: cut short", field);
  return out;
}

// A node with its path, for messages.
struct Field {
  YAML::Node node;
  std::string path;

  [[nodiscard]] Field child(const char* name) const {
    return {node.IsMap() ? node[name] : YAML::Node(YAML::NodeType::Undefined), path + "." + name};
  }
  [[nodiscard]] bool present() const { return node.IsDefined() && !node.IsNull(); }
  [[nodiscard]] Result<std::string> text() const {
    if (!present()) return std::string();
    if (!node.IsScalar()) return bad("must be a string", path);
    return node.Scalar();
  }
};

// clusters, users and contexts are lists of {name: ..., <kind>: {...}}.
Result<Field> find_named(const YAML::Node& root, const char* list, const char* kind, const std::string& name) {
  const YAML::Node entries = root[list];
  if (entries.IsDefined() && !entries.IsNull() && !entries.IsSequence()) return bad("must be a list", list);
  for (size_t i = 0; i < entries.size(); ++i) {
    const Field entry{entries[i], std::string(list) + "[" + std::to_string(i) + "]"};
    HEDDLE_TRY(const std::string entry_name, entry.child("name").text());
    if (entry_name != name) continue;
    Field found = entry.child(kind);
    if (found.present() && !found.node.IsMap()) return bad("must be an object", found.path);
    if (!found.present()) found.node = YAML::Node(YAML::NodeType::Map);
    return found;
  }
  return bad("no entry is named \"" + name + "\"", list);
}

// Paths in a kubeconfig are relative to the file.
std::string beside(const std::string& file, const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? path : file.substr(0, slash + 1) + path;
}

struct FileOrData {
  std::string file;
  std::string data;
};

// "certificate-authority" and "certificate-authority-data"; the data wins where both are given, as in client-go.
Result<FileOrData> read_file_or_data(const Field& owner, const std::string& name, const std::string& kubeconfig) {
  FileOrData out;
  HEDDLE_TRY(const std::string data, owner.child((name + "-data").c_str()).text());
  if (!data.empty()) {
    HEDDLE_TRY(out.data, decode_base64(data, owner.path + "." + name + "-data"));
    return out;
  }
  HEDDLE_TRY(const std::string file, owner.child(name.c_str()).text());
  out.file = beside(kubeconfig, file);
  return out;
}

Result<void> read_cluster(const Field& cluster, const std::string& kubeconfig, Config& config) {
  HEDDLE_TRY(config.server, cluster.child("server").text());
  while (config.server.ends_with('/')) config.server.pop_back();
  if (!config.server.starts_with("https://") && !config.server.starts_with("http://")) {
    return bad("must be an http:// or https:// address, is \"" + config.server + "\"", cluster.path + ".server");
  }
  HEDDLE_TRY(FileOrData authority, read_file_or_data(cluster, "certificate-authority", kubeconfig));
  config.ca_file = std::move(authority.file);
  config.ca_data = std::move(authority.data);
  HEDDLE_TRY(config.proxy_url, cluster.child("proxy-url").text());
  const Field insecure = cluster.child("insecure-skip-tls-verify");
  HEDDLE_TRY(const std::string skip, insecure.text());
  if (!skip.empty() && skip != "true" && skip != "false") return bad("must be true or false", insecure.path);
  config.insecure_skip_verify = skip == "true";
  if (config.insecure_skip_verify && !(config.ca_file.empty() && config.ca_data.empty())) {
    return bad("cannot be combined with a certificate-authority", insecure.path);
  }
  const Field server_name = cluster.child("tls-server-name");
  if (server_name.present()) {
    return fail(Code::kUnsupported, "is not supported: name the server by a host of its certificate", server_name.path);
  }
  return {};
}

Result<void> read_user(const Field& user, const std::string& kubeconfig, Config& config) {
  struct Refused {
    const char* name;
    const char* instead;
  };
  constexpr std::array kRefused = {
      Refused{
          "exec",
          "credential plugins (of EKS, GKE, AKS and others) are not supported yet: write a kubeconfig with a token, "
          "such as `kubectl create token` makes, a token file or a client certificate"},
      Refused{"auth-provider", "auth providers are not supported: use a token, a token file or a client certificate"},
      Refused{"username", "basic authentication is not supported: use a token or a client certificate"},
      Refused{"password", "basic authentication is not supported: use a token or a client certificate"},
      Refused{"as", "impersonation is not supported"},
  };
  for (const Refused& refused : kRefused) {
    const Field field = user.child(refused.name);
    if (field.present()) return fail(Code::kUnsupported, refused.instead, field.path);
  }
  HEDDLE_TRY(config.token, user.child("token").text());
  HEDDLE_TRY(const std::string token_file, user.child("tokenFile").text());
  // As in client-go: the file is what is kept up to date, the token only the start value.
  config.token_file = beside(kubeconfig, token_file);
  HEDDLE_TRY(FileOrData cert, read_file_or_data(user, "client-certificate", kubeconfig));
  HEDDLE_TRY(FileOrData key, read_file_or_data(user, "client-key", kubeconfig));
  const bool has_cert = !cert.file.empty() || !cert.data.empty();
  const bool has_key = !key.file.empty() || !key.data.empty();
  if (has_cert && !has_key) return bad("is missing beside client-certificate", user.path + ".client-key");
  if (has_key && !has_cert) return bad("is missing beside client-key", user.path + ".client-certificate");
  config.client_cert_file = std::move(cert.file);
  config.client_cert_data = std::move(cert.data);
  config.client_key_file = std::move(key.file);
  config.client_key_data = std::move(key.data);
  return {};
}

Result<Config> read_kubeconfig(const YAML::Node& root, const std::string& path, const std::string& wanted) {
  if (!root.IsMap()) return bad("is not a kubeconfig: it has no fields", path);
  std::string context_name = wanted;
  if (context_name.empty()) {
    HEDDLE_TRY(context_name, (Field{root["current-context"], "current-context"}.text()));
    if (context_name.empty()) return bad("is not set, and no context was named", "current-context");
  }
  HEDDLE_TRY(const Field context, find_named(root, "contexts", "context", context_name));
  HEDDLE_TRY(const std::string cluster_name, context.child("cluster").text());
  if (cluster_name.empty()) return bad("is not set", context.path + ".cluster");
  HEDDLE_TRY(const std::string user_name, context.child("user").text());
  Config config;
  HEDDLE_TRY(const std::string name_space, context.child("namespace").text());
  if (!name_space.empty()) config.name_space = name_space;
  HEDDLE_TRY(const Field cluster, find_named(root, "clusters", "cluster", cluster_name));
  HEDDLE_CHECK_OK(read_cluster(cluster, path, config));
  if (!user_name.empty()) {
    HEDDLE_TRY(const Field user, find_named(root, "users", "user", user_name));
    HEDDLE_CHECK_OK(read_user(user, path, config));
  }
  return config;
}

}  // namespace

Result<Config> load_kubeconfig(const std::string& path, const std::string& context) {
  HEDDLE_TRY(const std::string text, read_file(path, kMaxFileBytes));
  if (const auto trouble = yaml_trouble(text)) {
    return bad("is not YAML: line " + std::to_string(trouble->line) + ", column " + std::to_string(trouble->column) +
                   ": " + trouble->what,
               path);
  }
  try {
    return read_kubeconfig(YAML::Load(text), path, context);
  } catch (const YAML::Exception& error) {
    return bad(std::string("is not YAML: ") + error.what(), path);
  }
}

Result<Config> in_cluster_config(const std::string& host, const std::string& port, const std::string& folder) {
  if (host.empty()) return bad("is not set: this process does not run in a pod", "KUBERNETES_SERVICE_HOST");
  if (port.empty()) return bad("is not set: this process does not run in a pod", "KUBERNETES_SERVICE_PORT");
  Config config;
  const bool ipv6 = host.find(':') != std::string::npos && host.front() != '[';
  config.server = "https://" + (ipv6 ? "[" + host + "]" : host) + ":" + port;
  config.token_file = folder + "/token";
  config.ca_file = folder + "/ca.crt";
  if (!file_exists(config.token_file)) {
    return fail(Code::kNotFound, "no service account token: is automountServiceAccountToken off?", config.token_file);
  }
  if (!file_exists(config.ca_file)) return fail(Code::kNotFound, "no certificate authority", config.ca_file);
  if (auto name_space = read_file(folder + "/namespace", kMaxFileBytes)) {
    while (!name_space->empty() && name_space->back() <= ' ') name_space->pop_back();
    if (!name_space->empty()) config.name_space = *name_space;
  }
  return config;
}

Result<Config> default_config(const std::string& explicit_path) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (!explicit_path.empty()) return load_kubeconfig(explicit_path);
  const std::string path = variable("KUBECONFIG");
  if (path.empty()) {
    return in_cluster_config(variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT"));
  }
  if (path.find(':') != std::string::npos) {
    return fail(Code::kUnsupported, "names several files, which are not merged: name one", "KUBECONFIG");
  }
  return load_kubeconfig(path);
}

}  // namespace heddle::kube
