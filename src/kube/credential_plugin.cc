#include "kube/credential_plugin.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_read.h"
#include "base/unique_fd.h"

namespace heddle::kube {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxOutputBytes = size_t{1} << 20;

// KUBERNETES_EXEC_INFO: what the plugin may know of the question.
Result<std::string> exec_info(const Config& config, bool may_ask) {
  Json info = {
      {"kind", "ExecCredential"}, {"apiVersion", config.plugin->api_version}, {"spec", {{"interactive", may_ask}}}};
  if (config.plugin->provide_cluster_info) {
    std::string authority = config.ca_data;
    if (!config.ca_file.empty()) {
      HEDDLE_TRY(authority, read_file(config.ca_file));
    }
    Json cluster = {{"server", config.server}, {"insecure-skip-tls-verify", config.insecure_skip_verify}};
    if (!authority.empty()) cluster["certificate-authority-data"] = base64_encode(authority);
    if (!config.proxy_url.empty()) cluster["proxy-url"] = config.proxy_url;
    info["spec"]["cluster"] = std::move(cluster);
  }
  return dump_json(info);
}

// "NAME=value" lines: this process's, and over them the plugin's and the question.
std::vector<std::string> environment_of(const CredentialPlugin& plugin, const std::string& info) {
  std::map<std::string, std::string> values;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view line(*entry);
    const size_t equals = line.find('=');
    if (equals != std::string_view::npos) values.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  for (const auto& [name, value] : plugin.environment) values[name] = value;
  values["KUBERNETES_EXEC_INFO"] = info;
  std::vector<std::string> lines;
  lines.reserve(values.size());
  for (const auto& [name, value] : values) lines.push_back(name + "=" + value);
  return lines;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

struct Started {
  int error = 0;  // of errno, or 0
  pid_t pid = 0;
};

Started spawn(const std::vector<std::string>& command, const std::vector<std::string>& environment, bool may_ask,
              int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (!may_ask) posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &pipe);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const std::vector<char*> arguments = pointers(command);
  const std::vector<char*> variables = pointers(environment);
  Started out;
  out.error = posix_spawnp(&out.pid, arguments[0], &actions, &attributes, arguments.data(), variables.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return out;
}

// The wait for one process: until its deadline, or until somebody cancels.
struct Patience {
  int64_t until_nanos = 0;  // of the monotonic clock
  int cancel_fd = -1;
};

// Returns once fd is readable. Errors: kDeadlineExceeded, kUnavailable (cancelled).
Result<void> await(int fd, const Patience& patience) {
  const SystemClock clock;
  while (true) {
    const int64_t left = patience.until_nanos - clock.monotonic_nanos();
    if (left <= 0) return fail(Code::kDeadlineExceeded, "did not end in time");
    std::array<pollfd, 2> entries = {pollfd{fd, POLLIN, 0}, pollfd{patience.cancel_fd, POLLIN, 0}};
    const int ready = ::poll(entries.data(), entries.size(), static_cast<int>(left / 1'000'000) + 1);
    if (ready < 0 && errno != EINTR) return fail_errno("poll", errno);
    if (ready > 0 && entries[1].revents != 0) return fail(Code::kUnavailable, "was not waited for");
    if (ready > 0) return {};
  }
}

// All that comes until the end of the output. Errors: await()'s, and kUnavailable for too much.
Result<std::string> read_output(int output, const Patience& patience) {
  std::string text;
  while (true) {
    HEDDLE_CHECK_OK(await(output, patience));
    std::array<char, 4096> buffer;
    const ssize_t got = ::read(output, buffer.data(), buffer.size());
    if (got == 0) return text;
    if (got < 0 && errno != EINTR) return fail_errno("read", errno);
    if (got > 0) text.append(buffer.data(), static_cast<size_t>(got));
    if (text.size() > kMaxOutputBytes) return fail(Code::kUnavailable, "prints more than a credential");
  }
}

// Its output once the process has closed it and ended; whoever does not in time is killed.
Result<std::string> await_output(pid_t pid, int output, const Patience& patience) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  auto text = read_output(output, patience);
  if (text && pidfd.valid()) {
    if (auto ended = await(pidfd.get(), patience); !ended) text = tl::unexpected<Error>(std::move(ended).error());
  }
  if (!text) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!text || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) return text;
  return fail(Code::kUnavailable, WIFEXITED(status) ? "ended with " + std::to_string(WEXITSTATUS(status))
                                                    : "was ended by signal " + std::to_string(WTERMSIG(status)));
}

Result<std::string> output_of(const CredentialPlugin& plugin, const std::vector<std::string>& environment, bool may_ask,
                              const Patience& patience) {
  std::vector<std::string> command = plugin.arguments;
  command.insert(command.begin(), plugin.command);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno("pipe", errno);
  const UniqueFd hear(ends[0]);
  UniqueFd tell(ends[1]);
  const Started started = spawn(command, environment, may_ask, tell.get());
  if (started.error == ENOENT) {
    return fail(Code::kNotFound,
                "is not installed, or not in $PATH" +
                    (plugin.install_hint.empty() ? std::string() : ". The kubeconfig says: " + plugin.install_hint));
  }
  if (started.error != 0) return fail_errno("cannot start", started.error);
  tell.reset();
  return await_output(started.pid, hear.get(), patience);
}

}  // namespace

Result<Credential> parse_credential(std::string_view text, std::string_view api_version) {
  const Json root = parse_json(text);
  if (!root.is_object()) return fail(Code::kInvalidArgument, "prints no JSON object");
  if (json_text(root, "kind") != "ExecCredential") {
    return fail(Code::kInvalidArgument, "must be ExecCredential, is \"" + json_text(root, "kind") + "\"", "kind");
  }
  if (json_text(root, "apiVersion") != api_version) {
    return fail(
        Code::kInvalidArgument,
        "must be " + std::string(api_version) + " as the kubeconfig says, is \"" + json_text(root, "apiVersion") + "\"",
        "apiVersion");
  }
  const auto status = root.find("status");
  if (status == root.end() || !status->is_object()) return fail(Code::kInvalidArgument, "is missing", "status");
  Credential out;
  out.token = json_text(*status, "token");
  out.client_cert_data = json_text(*status, "clientCertificateData");
  out.client_key_data = json_text(*status, "clientKeyData");
  if (out.client_cert_data.empty() != out.client_key_data.empty()) {
    return fail(Code::kInvalidArgument, "has one of clientCertificateData and clientKeyData: both or neither",
                "status");
  }
  if (out.token.empty() && out.client_cert_data.empty()) {
    return fail(Code::kInvalidArgument, "has neither a token nor a client certificate", "status");
  }
  // A header ends at a line's end: nothing behind it may become a header of its own.
  if (out.token.find_first_of("\r\n") != std::string::npos) {
    return fail(Code::kInvalidArgument, "has more than one line", "status.token");
  }
  const std::string expires = json_text(*status, "expirationTimestamp");
  if (!expires.empty()) {
    auto time = parse_rfc3339(expires);
    if (!time) return fail(Code::kInvalidArgument, time.error().message, "status.expirationTimestamp");
    out.expires = *time;
  }
  return out;
}

Result<Credential> run_credential_plugin(const Config& config, bool may_ask, Duration deadline, int cancel_fd) {
  const CredentialPlugin& plugin = *config.plugin;
  const bool asks = may_ask && plugin.interactive != Interactive::kNever && ::isatty(STDIN_FILENO) == 1;
  if (plugin.interactive == Interactive::kAlways && !asks) {
    return fail(Code::kUnavailable,
                "\"" + plugin.command + "\" has to ask the user (interactiveMode: Always), and there is no terminal",
                plugin.field);
  }
  HEDDLE_TRY(const std::string info, exec_info(config, asks));
  const Patience patience{SystemClock().monotonic_nanos() + deadline.nanos, cancel_fd};
  auto text = output_of(plugin, environment_of(plugin, info), asks, patience);
  if (!text) return fail(text.error().code, "\"" + plugin.command + "\" " + text.error().message, plugin.field);
  auto credential = parse_credential(*text, plugin.api_version);
  if (!credential) {
    return fail(credential.error().code, "what \"" + plugin.command + "\" prints: " + credential.error().text(),
                plugin.field);
  }
  return credential;
}

}  // namespace heddle::kube
