// heddle: the command line.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

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
  int operator()(const CancelArgs& args) const { return cancel(args, context); }
  int operator()(const DownArgs& args) const { return down(args, context); }
  int operator()(const UninstallArgs& args) const { return uninstall(args, context); }
  int operator()(const TranslateArgs& args) const { return translate(args); }
  int operator()(const VersionArgs&) const { return version(); }
  int operator()(const VendorWorkerArgs& args) const { return vendor_worker(args); }
};

}  // namespace

int main(int argc, char** argv) {
  const auto parsed = parse_args({argv + 1, argv + argc});
  if (const auto* message = std::get_if<Message>(&parsed); message != nullptr) {
    fmt::print(message->exit_code == 0 ? stdout : stderr, "{}", message->text);
    return message->exit_code;
  }
  const Context context{own_path(),
                        {variable("HEDDLE_STATE_DIR"), variable("XDG_STATE_HOME"), variable("HOME"), geteuid()},
                        variable("KUBECONFIG")};
  return std::visit(Dispatch{context}, std::get<Args>(parsed));
}
