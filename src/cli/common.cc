#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <iterator>

#include "base/file.h"
#include "base/print.h"
#include "cli/layout.h"
#include "cli/verbs.h"

namespace heddle::cli {

int report(const Error& error) {
  print_to(stderr, "heddle: {}\n", printable_lines(error.text()));
  return error.code == Code::kInvalidArgument ? kUsage : kError;
}

int report_answer(const Error& error) {
  const int code = report(error);
  return error.code == Code::kPermissionDenied ? kNo : code;
}

int report_error(const Error& error) {
  (void)report(error);
  return kError;
}

namespace {

// ~/.kube/config where nothing else is named; empty where it is not there either.
std::string own_kubeconfig(const Context& context) {
  const std::string path = context.surroundings.home + "/.kube/config";
  return file_exists(path) ? path : std::string();
}

}  // namespace

Result<kube::Config> cluster_config(const ClusterFlags& flags, const Context& context) {
  const bool named = !flags.kubeconfig.empty() || !context.kubeconfig.empty();
  auto config = kube::default_config(named ? flags.kubeconfig : own_kubeconfig(context), flags.context);
  if (!config && config.error().field == "KUBERNETES_SERVICE_HOST") {
    return fail(Code::kNotFound, "there is no kubeconfig, and this is no pod of a cluster: name the file of one",
                "--kubeconfig");
  }
  return config;
}

bool knows_cluster(const Context& context) {
  return !context.kubeconfig.empty() || !own_kubeconfig(context).empty();
}

int report_one_line(const Error& error) {
  std::string line;
  for (const char c : error.text()) line += c == '\n' || c == '\r' ? "\\n" : std::string(1, c);
  print_to(stderr, "heddle: {}\n", printable(line));
  return kError;
}

Result<std::string> read_input(const std::string& file) {
  if (file != "-") return read_file(file);
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  if (std::cin.bad()) return fail(Code::kInternal, "standard input cannot be read");
  return text;
}

std::string find_guard_library(const std::string& program, const std::string& name) {
  const std::string bin = program.substr(0, program.rfind('/'));
  const std::string base = bin.substr(0, bin.rfind('/'));
  for (const char* folder : {"/lib/", "/lib/heddle/"}) {
    if (file_exists(base + folder + name)) return base + folder + name;
  }
  return base + "/lib/" + name;
}

Result<std::string> find_socket(const std::string& state_dir, const Context& context) {
  HEDDLE_TRY(const auto folder, standalone::used_state_dir(state_dir, context.surroundings));
  return standalone::state_paths(folder).socket;
}

}  // namespace heddle::cli
