// heddle-controller: flags and wiring.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>

#include "base/print.h"
#include "base/random.h"
#include "controller/controller.h"
#include "kube/client.h"

namespace {

using namespace heddle;

struct Flags {
  std::string kubeconfig;
  std::string log_level = "info";
  bool leader_elect = true;
  double qps = 0;
  int64_t burst = 0;
  std::string die_at;
  controller::ControllerOptions controller;
};

void declare(CLI::App& app, Flags& flags) {
  controller::ControllerOptions& c = flags.controller;
  app.set_version_flag("--version", "heddle-controller " HEDDLE_VERSION);
  app.add_option("--kubeconfig", flags.kubeconfig,
                 "File that says how to reach the API server; else KUBECONFIG, else the pod's account");
  app.add_option("--namespace", c.name_space, "Namespace of the installation: lease, secret, service account")
      ->capture_default_str();
  app.add_option("--identity", c.identity, "Name of this process in the lease; default: host name and process id");
  app.add_option("--leader-elect", flags.leader_elect,
                 "Write only while holding the lease; false for a single process in tests")
      ->capture_default_str();
  app.add_option("--webhook-address", c.webhook_address, "Address that the admission webhook listens on")
      ->capture_default_str();
  app.add_option("--webhook-port", c.webhook_port, "Port of the webhook; 0 for any")->capture_default_str();
  app.add_option("--webhook-service", c.webhook_service,
                 "Service in front of the webhook; its names go into the certificate")
      ->capture_default_str();
  app.add_option("--webhook-secret", c.webhook_secret, "Secret that keeps the certificate")->capture_default_str();
  app.add_option("--webhook-configuration", c.webhook_configuration, "Name of both webhook configurations")
      ->capture_default_str();
  app.add_option("--webhook-name", c.webhook_names,
                 "A further DNS name or address for the certificate; may be repeated");
  app.add_option("--metrics-address", c.metrics_address, "Address of /metrics, /healthz, /readyz and /explain")
      ->capture_default_str();
  app.add_option("--metrics-port", c.metrics_port, "Port of these; 0 for any")->capture_default_str();
  app.add_option("--controller-user", c.controller_user,
                 "User that this process is to the API server; default: its service account");
  app.add_option("--catalog", c.catalog_folder, "Folder with an administrator's catalogue: <vendor>/requests.yaml");
  app.add_option("--managed-driver", c.reconciler.managed_drivers,
                 "Another DRA driver whose devices are allocated here as well; may be repeated");
  app.add_option("--provisioning-class", c.reconciler.provisioning_class,
                 "Class of the ProvisioningRequests that are made for pods which need more nodes; empty: none are made")
      ->capture_default_str();
  app.add_option("--qps", flags.qps, "Requests a second to the API server; 0: no limit")->capture_default_str();
  app.add_option("--burst", flags.burst, "Requests that may come at once with --qps")->capture_default_str();
  app.add_option("--max-in-flight", c.limits.in_flight, "Writes under way at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--log-level", flags.log_level, "debug, info, warning or error")->capture_default_str();
  // A test aid, see controller/sender.h.
  app.add_option("--die-at-write", flags.die_at)->envname("HEDDLE_TEST_DIE_AT_WRITE")->group("");
}

int report(const Error& error) {
  heddle::print_to(stderr, "heddle-controller: {}\n", error.text());
  return error.code == Code::kInvalidArgument ? 1 : 3;
}

std::string default_identity() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("{}_{}", host.data(), ::getpid());
}

int run(Flags flags) {
  const SystemClock clock;
  const auto level = parse_log_level(flags.log_level);
  if (!level) return report(level.error());
  const Logger log("heddle-controller", *level, clock);
  const auto die_at = controller::parse_die_at(flags.die_at);
  if (!die_at) return report(die_at.error());
  flags.controller.die_at = *die_at;
  flags.controller.election = flags.leader_elect ? controller::Election::kLease : controller::Election::kNone;
  if (flags.controller.identity.empty()) flags.controller.identity = default_identity();
  // The test double of a cluster reaches the webhook on this machine.
  flags.controller.webhook_names.insert(flags.controller.webhook_names.end(), {"localhost", "127.0.0.1"});
  const auto seed = random_seed();
  if (!seed) return report(seed.error());
  flags.controller.reconciler.seed = *seed;

  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread: they all inherit it
  signal(SIGPIPE, SIG_IGN);

  auto config = kube::default_config(flags.kubeconfig);
  if (!config) return report(config.error());
  kube::Client::Limits limits{flags.qps, flags.burst, flags.controller.limits.in_flight + 32};
  auto client = kube::Client::create(std::move(*config), limits, clock, log);
  if (!client) return report(client.error());
  auto running = controller::Controller::start(std::move(flags.controller), **client, clock, log);
  if (!running) return report(running.error());
  log.info("running", {{"version", HEDDLE_VERSION}, {"metrics_port", (*running)->metrics_port()}});
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  log.info("ending", {{"signal", signal_number}});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    CLI::App app("Decides which pod gets which accelerator, and writes it into ResourceClaims.");
    Flags flags;
    declare(app, flags);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return app.exit(error) == 0 ? 0 : 1;
    }
    return run(std::move(flags));
  } catch (const std::exception& error) {
    heddle::print_to(stderr, "heddle-controller: {}\n", error.what());
    return 3;
  }
}
