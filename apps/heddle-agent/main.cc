// heddle-agent: the node's side of Heddle on Kubernetes.
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "agent/agent.h"
#include "flags.h"
#include "vendors/ascend/probe.h"
#include "vendors/nvidia/probe.h"
#include "vendors/worker.h"

namespace {

constexpr int kUsage = 1;
constexpr int kError = 3;

int run(const heddle::agent::Flags& flags) {
  using namespace heddle;
  const SystemClock clock;
  const auto level = parse_log_level(flags.log_level);
  if (!level) {
    std::fprintf(stderr, "--log-level: %s\n", level.error().text().c_str());
    return kUsage;
  }
  const Logger log("heddle-agent", *level, clock);
  const auto give_up = [&](const char* what, const Error& error) {
    log.error(what, {{"why", error.text()}});
    return kError;
  };
  // Blocked in every thread; one sigwait takes them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);

  auto config = kube::default_config(flags.kubeconfig);
  if (!config) return give_up("no way to the API server", config.error());
  auto client = kube::Client::create(*std::move(config), {}, clock, log);
  if (!client) return give_up("the API client cannot be made", client.error());
  const Result<void> ended = agent::run_agent(flags.agent, **client, clock, log, [&] {
    int signal_number = 0;
    sigwait(&signals, &signal_number);
  });
  return ended ? 0 : give_up("the agent cannot start", ended.error());
}

}  // namespace

int main(int argc, char** argv) {
  // Arenas for each thread would double the memory of a process that mostly waits.
  mallopt(M_ARENA_MAX, 2);
  const heddle::agent::ParsedFlags parsed = heddle::agent::parse_flags(argc, argv);
  if (!parsed.run) return parsed.exit_status;
  if (parsed.flags.vendor_worker) {
    using namespace heddle::vendors;
    const std::string& root = parsed.flags.agent.preparer.injection.driver_root;
    if (parsed.flags.vendor == "ascend") return ascend::serve_probe(kWorkerFd, {parsed.flags.dcmi, root, "/sys"});
    return nvidia::serve_probe(kWorkerFd, {parsed.flags.nvml, root, "/sys"});
  }
  return run(parsed.flags);
}
