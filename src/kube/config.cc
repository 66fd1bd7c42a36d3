#include "kube/config.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/base64.h"
#include "base/file.h"
#include "base/yaml.h"

namespace heddle::kube {
namespace {

constexpr size_t kMaxFileBytes = size_t{4} << 20;

tl::unexpected<Error> bad(std::string message, std::string field) {
  return fail(Code::kInvalidArgument, std::move(message), std::move(field));
}

Result<std::string> decode_base64(std::string text, const std::string& field) {
  std::erase_if(text, [](char c) { return c == '\n' || c == '\r' || c == ' '; });
  auto bytes = base64_decode(text);
  if (!bytes) return bad("not base64", field);
  return *std::move(bytes);
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

// One file of those that are read as one.
struct Document {
  std::string path;
  YAML::Node root;
  std::string prefix;  // of its fields in messages: which file, where there are several
};

// An object of a document.
struct Found {
  Field field;
  const Document* document = nullptr;
};

// clusters, users and contexts are lists of {name: ..., <kind>: {...}}.
Result<Found> find_named(const std::vector<Document>& documents, const char* list, const char* kind,
                         const std::string& name) {
  std::string others;
  for (const Document& document : documents) {
    const std::string path = document.prefix + list;
    const YAML::Node entries = document.root[list];
    if (!entries.IsDefined() || entries.IsNull()) continue;
    if (!entries.IsSequence()) return bad("must be a list", path);
    for (size_t i = 0; i < entries.size(); ++i) {
      const Field entry{entries[i], path + "[" + std::to_string(i) + "]"};
      HEDDLE_TRY(const std::string entry_name, entry.child("name").text());
      if (entry_name != name) {
        others += (others.empty() ? "" : ", ") + entry_name;
        continue;
      }
      Field found = entry.child(kind);
      if (found.present() && !found.node.IsMap()) return bad("must be an object", found.path);
      if (!found.present()) found.node = YAML::Node(YAML::NodeType::Map);
      return Found{std::move(found), &document};
    }
  }
  const std::string there = others.empty() ? "there is none" : "there are " + others;
  return bad("no entry is named \"" + name + "\"; " + there, list);
}

std::vector<std::string> split_paths(const std::string& list) {
  std::vector<std::string> out;
  for (size_t from = 0; from <= list.size();) {
    const size_t to = std::min(list.find(':', from), list.size());
    if (to > from) out.push_back(list.substr(from, to - from));
    from = to + 1;
  }
  return out;
}

// Paths in a kubeconfig are relative to the file.
std::string beside(const std::string& file, const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? path : file.substr(0, slash + 1) + path;
}

Result<void> check_readable(const std::string& file, const std::string& field) {
  if (file.empty()) return {};
  if (const auto content = read_file(file); !content) return bad(content.error().message, field);
  return {};
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
  const Field field = owner.child(name.c_str());
  HEDDLE_TRY(const std::string file, field.text());
  out.file = beside(kubeconfig, file);
  HEDDLE_CHECK_OK(check_readable(out.file, field.path));
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

Result<Interactive> read_interactive(const Field& exec, bool required) {
  const Field field = exec.child("interactiveMode");
  HEDDLE_TRY(const std::string mode, field.text());
  if (mode == "Never") return Interactive::kNever;
  if (mode == "Always") return Interactive::kAlways;
  if (mode == "IfAvailable" || (mode.empty() && !required)) return Interactive::kIfAvailable;
  return bad("must be Never, IfAvailable or Always, is \"" + mode + "\"", field.path);
}

// args: a list of texts; env: a list of {name, value}.
Result<void> read_plugin_lists(const Field& exec, CredentialPlugin& plugin) {
  const Field args = exec.child("args");
  const Field env = exec.child("env");
  if (args.present() && !args.node.IsSequence()) return bad("must be a list", args.path);
  if (env.present() && !env.node.IsSequence()) return bad("must be a list", env.path);
  for (size_t i = 0; args.present() && i < args.node.size(); ++i) {
    HEDDLE_TRY(std::string text, (Field{args.node[i], args.path + "[" + std::to_string(i) + "]"}.text()));
    plugin.arguments.push_back(std::move(text));
  }
  for (size_t i = 0; env.present() && i < env.node.size(); ++i) {
    const Field entry{env.node[i], env.path + "[" + std::to_string(i) + "]"};
    HEDDLE_TRY(std::string name, entry.child("name").text());
    HEDDLE_TRY(std::string value, entry.child("value").text());
    if (name.empty() || name.find('=') != std::string::npos) {
      return bad("must be the name of a variable, is \"" + name + "\"", entry.path + ".name");
    }
    plugin.environment.emplace_back(std::move(name), std::move(value));
  }
  return {};
}

Result<CredentialPlugin> read_plugin(const Field& exec, const std::string& kubeconfig) {
  constexpr std::string_view kV1 = "client.authentication.k8s.io/v1";
  CredentialPlugin plugin;
  plugin.field = exec.path;
  HEDDLE_TRY(plugin.api_version, exec.child("apiVersion").text());
  if (plugin.api_version != kV1 && plugin.api_version != std::string(kV1) + "beta1") {
    return bad("must be " + std::string(kV1) + " or " + std::string(kV1) + "beta1, is \"" + plugin.api_version +
                   "\": let the tool that wrote this kubeconfig write it again",
               exec.path + ".apiVersion");
  }
  HEDDLE_TRY(plugin.command, exec.child("command").text());
  if (plugin.command.empty()) return bad("is not set", exec.path + ".command");
  if (plugin.command.find('/') != std::string::npos) plugin.command = beside(kubeconfig, plugin.command);
  HEDDLE_CHECK_OK(read_plugin_lists(exec, plugin));
  HEDDLE_TRY(plugin.install_hint, exec.child("installHint").text());
  HEDDLE_TRY(const std::string info, exec.child("provideClusterInfo").text());
  if (!info.empty() && info != "true" && info != "false") {
    return bad("must be true or false", exec.path + ".provideClusterInfo");
  }
  plugin.provide_cluster_info = info == "true";
  HEDDLE_TRY(plugin.interactive, read_interactive(exec, plugin.api_version == kV1));
  return plugin;
}

Result<void> read_user(const Field& user, const std::string& kubeconfig, Config& config) {
  struct Refused {
    const char* name;
    const char* instead;
  };
  constexpr std::array kRefused = {
      Refused{"auth-provider", "auth providers are not supported: use exec, a token or a client certificate"},
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
  HEDDLE_CHECK_OK(check_readable(config.token_file, user.path + ".tokenFile"));
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
  const Field exec = user.child("exec");
  if (exec.present() && config.token.empty() && config.token_file.empty()) {
    HEDDLE_TRY(config.plugin, read_plugin(exec, kubeconfig));
  }
  return {};
}

Result<std::string> current_context(const std::vector<Document>& documents) {
  for (const Document& document : documents) {
    HEDDLE_TRY(std::string name, (Field{document.root["current-context"], document.prefix + "current-context"}.text()));
    if (!name.empty()) return name;
  }
  return bad("is not set, and no context was named", "current-context");
}

Result<Config> read_kubeconfig(const std::vector<Document>& documents, const std::string& wanted) {
  std::string context_name = wanted;
  if (context_name.empty()) {
    HEDDLE_TRY(context_name, current_context(documents));
  }
  HEDDLE_TRY(const Found context, find_named(documents, "contexts", "context", context_name));
  HEDDLE_TRY(const std::string cluster_name, context.field.child("cluster").text());
  if (cluster_name.empty()) return bad("is not set", context.field.path + ".cluster");
  HEDDLE_TRY(const std::string user_name, context.field.child("user").text());
  Config config;
  HEDDLE_TRY(const std::string name_space, context.field.child("namespace").text());
  if (!name_space.empty()) config.name_space = name_space;
  HEDDLE_TRY(const Found cluster, find_named(documents, "clusters", "cluster", cluster_name));
  HEDDLE_CHECK_OK(read_cluster(cluster.field, cluster.document->path, config));
  if (!user_name.empty()) {
    HEDDLE_TRY(const Found user, find_named(documents, "users", "user", user_name));
    HEDDLE_CHECK_OK(read_user(user.field, user.document->path, config));
  }
  return config;
}

Result<Document> read_document(const std::string& path, bool one_of_several) {
  HEDDLE_TRY(const std::string text, read_file(path, kMaxFileBytes));
  if (const auto trouble = yaml_trouble(text)) {
    return bad("is not YAML: line " + std::to_string(trouble->line) + ", column " + std::to_string(trouble->column) +
                   ": " + trouble->what,
               path);
  }
  Document out{path, YAML::Load(text), one_of_several ? path + ": " : std::string()};
  // `kubectl config` leaves an empty file behind when the last entry goes: as good as none among several.
  if (one_of_several && (!out.root.IsDefined() || out.root.IsNull())) out.root = YAML::Node(YAML::NodeType::Map);
  if (!out.root.IsMap()) return bad("is not a kubeconfig: it has no fields", path);
  return out;
}

}  // namespace

Result<Config> load_kubeconfig(const std::string& path, const std::string& context) {
  return load_kubeconfigs({path}, context);
}

Result<Config> load_kubeconfigs(const std::vector<std::string>& paths, const std::string& context) {
  const bool several = paths.size() > 1;
  std::vector<Document> documents;
  try {
    for (const std::string& path : paths) {
      auto document = read_document(path, several);
      if (document) {
        documents.push_back(*std::move(document));
      } else if (!several || document.error().code != Code::kNotFound) {
        return tl::unexpected<Error>(std::move(document).error());
      }
    }
    if (documents.empty()) return fail(Code::kNotFound, "none of its files exists", "KUBECONFIG");
    auto config = read_kubeconfig(documents, context);
    if (!config && !several) config.error().message += " (kubeconfig " + paths.front() + ")";
    return config;
  } catch (const YAML::Exception& error) {
    return bad(std::string("is not YAML: ") + error.what(), several ? "KUBECONFIG" : paths.front());
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

Result<Config> default_config(const std::string& explicit_path, const std::string& context) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (!explicit_path.empty()) return load_kubeconfig(explicit_path, context);
  const std::string list = variable("KUBECONFIG");
  if (!list.empty()) return load_kubeconfigs(split_paths(list), context);
  if (!context.empty()) return bad("needs a kubeconfig, and there is none", "--context");
  return in_cluster_config(variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT"));
}

}  // namespace heddle::kube
