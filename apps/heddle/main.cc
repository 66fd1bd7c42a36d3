// heddle: the command line.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/print.h"
#include "cli/args.h"
#include "cli/verbs.h"

namespace {

using namespace heddle::cli;  // NOLINT(google-build-using-namespace): wiring only

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string own_path() {
  std::array<char, 4096> path{};
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size() - 1);
  return size > 0 ? std::string(path.data(), static_cast<size_t>(size)) : std::string("heddle");
}

struct Dispatch {
  const Context& context;
  int operator()(const UpArgs& args) const { return up(args, context); }
  int operator()(const RunArgs& args) const { return run(args, context); }
  int operator()(const PsArgs& args) const { return ps(args, context); }
  int operator()(const ExplainArgs& args) const { return explain(args, context); }
  int operator()(const QueueArgs& args) const { return queue(args, context); }
  int operator()(const CancelArgs& args) const { return cancel(args, context); }
  int operator()(const DownArgs& args) const { return down(args, context); }
  int operator()(const UninstallArgs& args) const { return uninstall(args, context); }
  int operator()(const TranslateArgs& args) const { return translate(args); }
  int operator()(const MigrateArgs& args) const { return migrate(args); }
  int operator()(const AllocateArgs& args) const { return allocate(args); }
  int operator()(const PlanArgs& args) const { return plan(args); }
  int operator()(const CelArgs& args) const { return evaluate_cel(args); }
  int operator()(const CatalogArgs& args) const { return show_catalog(args); }
  int operator()(const SimulateArgs& args) const { return simulate(args); }
  int operator()(const GuardArgs& args) const { return guard(args, context); }
  int operator()(const GuardProbeArgs& args) const { return guard_probe(args); }
  int operator()(const VersionArgs&) const { return version(); }
  int operator()(const VendorWorkerArgs& args) const { return vendor_worker(args); }
};

// A full disk under `heddle ps > file` must not pass for success.
bool all_printed() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
  heddle::print_to(stderr, "heddle: standard output cannot be written{}{}\n", errno == 0 ? "" : ": ",
                   errno == 0 ? "" : std::strerror(errno));
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const auto parsed = parse_args({argv + 1, argv + argc});
  if (const auto* message = std::get_if<Message>(&parsed); message != nullptr) {
    heddle::print_to(message->exit_code == 0 ? stdout : stderr, "{}", message->text);
    return all_printed() ? message->exit_code : kError;
  }
  const Context context{own_path(),
                        {variable("HEDDLE_STATE_DIR"), variable("XDG_STATE_HOME"), variable("HOME"), geteuid()},
                        variable("KUBECONFIG")};
  const int code = std::visit(Dispatch{context}, std::get<Args>(parsed));
  return all_printed() ? code : kError;
}
