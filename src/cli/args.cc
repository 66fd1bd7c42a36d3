#include "cli/args.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <limits>
#include <sstream>
#include <utility>

#include "cli/args_raw.h"
#include "cli/complaint.h"

namespace heddle::cli {
namespace {

CLI::Validator one_of(const std::vector<std::string>& allowed) {
  const auto check = [allowed](const std::string& value) {
    const bool known = std::find(allowed.begin(), allowed.end(), value) != allowed.end();
    return known ? std::string() : fmt::format("'{}' is not known: write {}", value, fmt::join(allowed, " or "));
  };
  return {check, ""};
}

void add_cluster(CLI::App& verb, ClusterFlags& target) {
  verb.add_option("--kubeconfig", target.kubeconfig,
                  "How to reach the cluster (default: $KUBECONFIG, else ~/.kube/config)");
  verb.add_option("--context", target.context, "A context of the kubeconfig (default: its current one)");
}

void add_state_dir(CLI::App& verb, std::string& target) {
  verb.add_option("--state-dir", target,
                  "Where this Heddle keeps its state (default: $HEDDLE_STATE_DIR, else /var/lib/heddle for root and "
                  "~/.local/state/heddle for others)");
}

CLI::App* add_up(CLI::App& app, Raw& raw) {
  auto* verb = app.add_subcommand("up", "Start Heddle on this machine, without Kubernetes");
  auto& options = raw.up.options;
  verb->add_option(
      "--simulate", options.machine.simulate,
      "Serve simulated cards instead of real ones: MODELxCOUNT such as h100x2 or ascend910B4x2, or a YAML file of the "
      "simulator; several with commas between");
  verb->add_option("--driver-root", options.machine.driver_root,
                   "Folder that holds the driver's lib*/ and dev/ (default: /)");
  verb->add_option("--nvml", options.machine.nvml, "Path of libnvidia-ml.so.1, when it is not in the usual places");
  verb->add_option(
      "--mps-pipe", options.machine.mps_pipe,
      "CUDA_MPS_PIPE_DIRECTORY of an MPS control daemon that serves the cards: jobs may have --isolation mps");
  verb->add_option("--dcmi", options.machine.dcmi, "Path of libdcmi.so (Ascend), when it is not in the usual places");
  add_state_dir(*verb, options.machine.state_dir);
  verb->add_flag("--foreground", raw.up.foreground, "Stay in the foreground and log to standard error");
  verb->add_option("--dashboard-port", raw.dashboard_port,
                   "Port of the status page on localhost; 0: any free one; off: none (default: 7433)");
  verb->add_option(
      "--group", options.group,
      "Let the members of this group use this Heddle, which root must have started (default: its user alone)");
  verb->add_option("--starve-after", raw.starvation,
                   "A job that has waited this long goes before all others, and nothing passes it (default: 10m)");
  verb->add_option(
      "--queues", raw.up.queues_file,
      "Queues and reservations from now on: a file of AcceleratorQueue and AcceleratorReservation objects; or "
      "none (default: those of before)");
  verb->add_option("--evict-grace", raw.eviction_grace,
                   "What a job whose share a queue takes back has between SIGTERM and SIGKILL (default: 30s)");
  verb->add_flag("--strict-shares", options.strict_shares, "Lend nothing of a card's time, even if others are idle");
  verb->add_flag(
      "--enforce", options.enforce,
      "End processes that come to a card without a share, go beyond theirs, or leave the guard (default: they "
      "are reported). What was on the cards before is left alone; programs that draw a screen on a card of "
      "Heddle are not, when they start again");
  verb->add_option("--crash-at-write", options.crash_at_write)->group("");
  verb->footer(
      "Example:\n  heddle up --simulate h100x2 && heddle run --memory 8Gi --cores 30 -- env\n\n"
      "Commands go on when Heddle is stopped or killed; the next `heddle up` takes them up again.");
  return verb;
}

CLI::App* add_run(CLI::App& app, Raw& raw) {
  auto* verb = app.add_subcommand("run", "Wait for a share of a card, then run a command inside it");
  auto& request = raw.run.request;
  verb->add_option("--memory", raw.memory, "Memory of the card, with a unit: 8Gi, 3000Mi (default: a whole card)");
  verb->add_option("--memory-percent", raw.memory_percent, "Memory in percent of the card's, 1 to 100");
  verb->add_option("--virtual-memory", raw.virtual_memory,
                   "What may be addressed in all, with a unit: beyond --memory it is managed memory, on the card while "
                   "there is room and on the host else (default: --memory)");
  verb->add_option(
      "--cores", raw.cores,
      "Compute of the card in percent: 0 is no cap and no guarantee, 100 is alone on the card (default: 0)");
  verb->add_option("--isolation", request.isolation,
                   "How --cores is held: soft (launches are paced) or mps (a part of the SMs; needs `heddle up "
                   "--mps-pipe`) (default: soft)");
  verb->add_option("--count", raw.count, "How many cards, each with the share above (default: 1)");
  verb->add_option("--model", request.model, "Only cards whose model contains this text: H100");
  verb->add_option("--vendor", request.vendor,
                   "Only cards of this vendor: nvidia, ascend (needed where a machine has cards of both)");
  verb->add_option("--name", request.name, "A name to find the job by: 1 to 64 characters, not a number");
  verb->add_option("--priority", raw.priority, "Higher goes first, -1000 to 1000 (default: 0)");
  verb->add_option("--queue", request.queue, "The queue to wait in (default: the one that names you or your group)");
  verb->add_option("--reservation", request.reservation,
                   "Run inside this reservation of the queues' file, and only while it lasts");
  verb->add_option("--deadline", raw.deadline,
                   "End it so long after it got its share: 90s, 10m, 2h. What says so may start before a reservation "
                   "that it does not reach");
  verb->add_option("--placement-policy", raw.placement_policy,
                   "How its cards are chosen: packing, best-fit, spread or least-loaded (default: as its queue says, "
                   "else packing)");
  verb->add_flag(
      "--requeue", raw.requeue,
      "When its share is taken back for another job: wait again, and run the command again from its beginning");
  verb->add_flag("--no-requeue", raw.no_requeue, "End then; the command is never run twice (default)");
  verb->add_flag("--no-wait", raw.no_wait, "Exit with 2 when there is no room now");
  verb->add_option("--timeout", raw.timeout, "Exit with 2 when there was no room for so long: 90s, 10m, 2h");
  verb->add_flag(
      "--detach", raw.detach,
      "Queue it, print its number, and go on without this terminal; `heddle explain` names the file of its output");
  add_state_dir(*verb, raw.run.state_dir);
  verb->prefix_command();
  verb->footer(
      "Examples:\n  heddle run --memory 8Gi --cores 30 -- python3 train.py --lr 3\n"
      "  heddle run --count 2 -- ./bench        (two whole cards)\n\n"
      "The exit code is the command's. Without a start: 1 usage, 2 it cannot start (never, or not in time), 3 an "
      "error. When the command ends, what it left running is ended too; when `heddle run` is killed, so is the "
      "command.");
  return verb;
}

CLI::App* add_ps(CLI::App& app, Raw& raw) {
  auto* verb = app.add_subcommand("ps", "Show who has what, and who waits for what");
  verb->add_option("-o,--output", raw.output, "table or json")->check(one_of({"table", "json"}));
  verb->add_flag("-a,--all", raw.ps.all, "Jobs that have ended, too");
  verb->add_flag("-w,--watch", raw.ps.watch, "Show again each second until Ctrl-C");
  add_state_dir(*verb, raw.ps.state_dir);
  verb->footer("Example:\n  heddle ps -o json | jq '.cards[].grantedBytes'");
  return verb;
}

CLI::App* add_explain(CLI::App& app, Raw& raw) {
  auto* verb = app.add_subcommand("explain", "Say why a job (here) or a pod (on a cluster) waits or what it was given");
  verb->add_option("job-or-pod", raw.explain.what, "Number or name of a job of this machine, or name of a pod")
      ->required();
  verb->add_option("-n,--namespace", raw.explain.name_space,
                   "Namespace of the pod; makes it a question to the cluster");
  add_cluster(*verb, raw.explain.access);
  verb->add_flag("--cluster", raw.explain.cluster, "Ask the cluster, in the namespace of the kubeconfig's context");
  verb->add_option("-o,--output", raw.output, "table or json")->check(one_of({"table", "json"}));
  add_state_dir(*verb, raw.explain.state_dir);
  verb->footer("Examples:\n  heddle explain 7\n  heddle explain -n research trainer-0");
  return verb;
}

CLI::App* add_queue(CLI::App& app, Raw& raw) {
  auto* verb =
      app.add_subcommand("queue", "Show a cluster's queues: what they have, use and are guaranteed, and what waits");
  verb->add_option("queue", raw.queue.name, "One queue, with what waits in it and below it (default: the whole tree)");
  add_cluster(*verb, raw.queue.access);
  verb->add_option("-o,--output", raw.output, "table or json")->check(one_of({"table", "json"}));
  verb->footer("Examples:\n  heddle queue\n  heddle queue research");
  return verb;
}

CLI::App* add_cancel(CLI::App& app, Raw& raw) {
  auto* verb = app.add_subcommand("cancel", "Take a job out of the queue, or end its command");
  verb->add_option("job", raw.cancel.job, "Number or name of the job")->required();
  add_state_dir(*verb, raw.cancel.state_dir);
  verb->footer("Example:\n  heddle cancel 7");
  return verb;
}

CLI::App* add_down(CLI::App& app, Raw& raw) {
  auto* verb = app.add_subcommand("down", "Stop Heddle on this machine");
  verb->add_flag("--kill", raw.down.kill, "End jobs that wait or run; without it, `down` refuses while there are any");
  add_state_dir(*verb, raw.down.state_dir);
  verb->footer("Example:\n  heddle down --kill");
  return verb;
}

CLI::App* add_uninstall(CLI::App& app, Raw& raw) {
  auto* verb = app.add_subcommand("uninstall", "Free a cluster of everything that only Heddle would clear");
  verb->add_flag("--plan", raw.uninstall.plan, "Only list what would be cleared: webhooks, gates, claims, slices");
  verb->add_flag("--yes", raw.uninstall.yes, "Clear it");
  add_cluster(*verb, raw.uninstall.access);
  verb->footer(
      "Example:\n  heddle uninstall --plan\n  heddle uninstall --yes && helm uninstall heddle --namespace "
      "heddle-system");
  return verb;
}

CLI::App* add_translate(CLI::App& app, Raw& raw) {
  auto* verb = app.add_subcommand("translate", "Show what Heddle's webhook makes of a workload, without a cluster");
  verb->add_option("-f,--file", raw.translate.file, "Pod, Deployment, Job, ... in YAML or JSON; - is standard input")
      ->required();
  verb->add_option("-o,--output", raw.output, "json")->check(one_of({"json"}));
  verb->add_option("--catalog", raw.translate.catalog, "Folder with an administrator's catalogue");
  verb->add_flag("--ignored", raw.translate.ignored, "Translate pods with the label hami.io/webhook: ignore too");
  verb->footer(
      "Example:\n  heddle translate -f pod.yaml -o json\n\n"
      "On standard output: a v1 List of the workload and its claims; explanations on standard error. Exit 2 with the "
      "reason when the request would be refused.");
  return verb;
}

CLI::App* add_simulate(CLI::App& app, Raw& raw) {
  auto* verb = app.add_subcommand(
      "simulate", "Try a fleet: replay a trace of pods on it, or let workloads come, wait in queues, run and leave");
  verb->add_option("--fleet", raw.simulate.fleet_file, "JSON or YAML: nodes and queues (docs/simulate.md)");
  verb->add_option("--workloads", raw.simulate.workloads_file, "JSON or YAML: what arrives on that fleet");
  verb->add_option("--nodes", raw.simulate.nodes_file, "CSV with the columns sn,cpu_milli,memory_mib,gpu,model");
  verb->add_option("--pods", raw.simulate.pods_file,
                   "CSV with the columns name,cpu_milli,memory_mib,num_gpu,gpu_milli and maybe gpu_spec");
  verb->add_option("--policy", raw.policy, "heddle, fgd, bestfit or random (default: heddle)")
      ->check(one_of({"heddle", "fgd", "bestfit", "random"}));
  verb->add_option(
          "--mix", raw.mix,
          "online: the policy learns from what arrives; known: it is told the mix of the whole trace (default: "
          "online)")
      ->check(one_of({"online", "known"}));
  verb->add_option("--seed", raw.seed, "Of what is drawn at random, such as the order of arrivals (default: 42)");
  verb->add_option("--load", raw.load,
                   "Pods arrive until they ask for this part of all cards, in percent (default: 100)");
  verb->add_option("-o,--output", raw.output, "table or json")->check(one_of({"table", "json"}));
  verb->footer(
      "Examples:\n  heddle simulate --fleet examples/simulate/fleet.json --workloads examples/simulate/workloads.json\n"
      "  heddle simulate --nodes nodes.csv --pods pods.csv --seed 42 --load 130 -o json\n\n"
      "With --fleet and --workloads: gangs, topology, queues, priorities, preemption and departures, decided as in a "
      "cluster, in virtual time.\n"
      "With --nodes and --pods: the pods are shuffled, then drawn at random until the load is reached. Each is placed "
      "once or refused; nobody leaves. --policy, --mix and --load are for this one.");
  return verb;
}

CLI::App* add_migrate(CLI::App& app, Raw& raw) {
  auto* verb =
      app.add_subcommand("migrate", "Show what Heddle would make of a cluster that runs HAMi, Volcano vGPU or KAI");
  verb->add_option("-f,--file", raw.migrate.files,
                   "What `kubectl get nodes,pods,configmaps -A -o yaml` prints; repeatable")
      ->required();
  verb->add_option("-o,--output", raw.output, "table or json")->check(one_of({"table", "json"}));
  verb->add_option("--catalog", raw.migrate.catalog, "Folder with an administrator's catalogue");
  verb->footer(
      "Example:\n  heddle migrate -f cluster.yaml\n\n"
      "A line for every difference in meaning; nothing is changed. Exit 2 when some pod would be refused as it is.");
  return verb;
}

constexpr const char* kGatesHelp =
    "Feature gates of Kubernetes, Name=true,Other=false; unnamed ones have the defaults of 1.37";

CLI::App* add_allocate(CLI::App& app, Raw& raw) {
  auto* verb = app.add_subcommand("allocate", "Find devices for claims on one node, as Kubernetes' scheduler would");
  verb->add_option("-f,--file", raw.allocate.file,
                   "A List of Node, DeviceClass, ResourceSlice and ResourceClaim objects, YAML or JSON; - is standard "
                   "input. Claims with an allocation are what is taken, the others are allocated together")
      ->required();
  verb->add_option("--node", raw.allocate.node, "The node to allocate on")->required();
  verb->add_option("--feature-gates", raw.allocate.feature_gates, kGatesHelp);
  // For the comparison with the upstream allocator, which fills in nothing itself.
  verb->add_flag("--without-defaults", raw.without_defaults)->group("");
  verb->add_option("-o,--output", raw.output, "json")->check(CLI::IsMember({"json"}));
  verb->footer(
      "Example:\n  kubectl get nodes,resourceslices,deviceclasses,resourceclaims -A -o json > all.json\n"
      "  heddle allocate -f all.json --node node-1 -o json\n\n"
      "Exit 0 with a List of the claims allocated, 2 when they cannot be, 3 for bad input and errors of selectors.");
  return verb;
}

CLI::App* add_plan(CLI::App& app, Raw& raw) {
  auto* verb = app.add_subcommand("plan", "Show where the pending pods of a fleet would run, and why the others wait");
  verb->add_option("-f,--file", raw.plan.files,
                   "Nodes, ResourceSlices, DeviceTaintRules, DeviceClasses, ResourceClaims and their templates, Pods, "
                   "ResourceQuotas, PersistentVolumes and their claims, as kubectl prints them, YAML or JSON; - is "
                   "standard input; may "
                   "be given more than once")
      ->required();
  verb->add_option("-o,--output", raw.output, "table or json")->check(one_of({"table", "json"}));
  verb->footer(
      "Example:\n  kubectl get nodes,resourceslices,deviceclasses,resourceclaims,pods,resourcequotas -A -o yaml > "
      "fleet.yaml\n  heddle plan -f fleet.yaml -f new-pods.yaml\n\n"
      "Exit 0 when every pod has a place, 2 when one has to wait, 3 for bad input.");
  return verb;
}

CLI::App* add_cel(CLI::App& app, Raw& raw) {
  auto* verb = app.add_subcommand("cel", "Evaluate a CEL device selector against a device");
  verb->add_option("--expression", raw.cel.expression, "The selector")->required();
  verb->add_option("--device", raw.cel.device_file,
                   "File with one Device object of resource.k8s.io/v1; - is standard input")
      ->required();
  verb->add_option("--driver", raw.cel.driver, "Name of the driver that publishes the device");
  verb->add_option("--expression-env", raw.cel_environment,
                   "stored: as the scheduler evaluates; new: as the API server admits (default: stored)")
      ->check(CLI::IsMember({"stored", "new"}));
  verb->add_option("--feature-gates", raw.cel.feature_gates, kGatesHelp);
  verb->add_option("-o,--output", raw.output, "json")->check(CLI::IsMember({"json"}));
  verb->footer(
      "Example:\n  heddle cel --expression 'device.driver == \"d\"' --device device.json --driver d -o json\n\n"
      "Prints {\"result\":true} or {\"result\":false}; exit 3 when the selector does not compile or fails.");
  return verb;
}

CLI::App* add_catalog(CLI::App& app, Raw& raw) {
  auto* verb = app.add_subcommand("catalog", "Show what Heddle knows of vendors, models and their partitions");
  verb->add_option("action", raw.catalog_words, "list, show VENDOR[/MODEL], or validate FILE...")
      ->required()
      ->expected(1, 1000);
  verb->add_option(
      "--catalog", raw.catalog.folder,
      "Folder with VENDOR/hardware.yaml and VENDOR/requests.yaml files that extend the built-in catalogue");
  verb->add_option("-o,--output", raw.output, "table or json")->check(one_of({"table", "json"}));
  verb->footer(
      "Examples:\n  heddle catalog list\n  heddle catalog show nvidia/A100-40GB\n"
      "  heddle catalog validate ./catalog/mine/hardware.yaml ./catalog/mine/requests.yaml\n\n"
      "Exit 2 for a vendor or model that the catalogue does not have, and for a file that is not valid. "
      "docs/vendors.md shows the same data as a page.");
  return verb;
}

CLI::App* add_guard(CLI::App& app, Raw& raw) {
  auto* verb = app.add_subcommand("guard", "Look into the guard: limits and accounts, what a claim does, a self-test");
  verb->add_option("action", raw.guard.action, "status, trace or selftest (exit 2: it does not hold)")->required();
  verb->add_option("claim", raw.guard.claim,
                   "trace: number or name of a job of this machine, or the uid of a claim, or its beginning (default: "
                   "the only one)");
  add_state_dir(*verb, raw.guard.state_dir);
  verb->add_option("--seconds", raw.guard.seconds, "trace: for how long (default: 10)")->check(CLI::Range(1, 86400));
  verb->add_option("--libraries", raw.guard.libraries, "selftest: folder of libcuda.so.1 (default: the loader's)");
  verb->add_option("-o,--output", raw.output, "status: table or json")->check(one_of({"table", "json"}));
  verb->footer(
      "Examples:\n  heddle guard status\n  heddle guard trace 7 --seconds 30\n"
      "  heddle run --memory 8Gi -- heddle guard selftest\n\n"
      "status and trace look at what runs; selftest needs a card of its own: inside a job that is the job's, in a "
      "container the claim's.");
  return verb;
}

// What is for another action of the guard would be passed over in silence.
std::optional<Message> refuse_beside_action(const CLI::App& verb, const GuardArgs& args) {
  struct Own {
    const char* option;
    const char* action;
  };
  constexpr std::array<Own, 4> kOwn = {
      {{"claim", "trace"}, {"--seconds", "trace"}, {"--libraries", "selftest"}, {"--output", "status"}}};
  for (const Own& own : kOwn) {
    if (verb.count(own.option) == 0 || args.action == own.action) continue;
    const std::string word = *own.option == '-' ? own.option : "'" + args.claim + "'";
    return usage_error(
        fmt::format("guard {}: {} is for `heddle guard {}`: leave it out", args.action, word, own.action));
  }
  return std::nullopt;
}

CLI::App* add_vendor_worker(CLI::App& app, Raw& raw) {
  auto* verb = app.add_subcommand("vendor-worker", "Talks to a vendor's library for `heddle up`")->group("");
  verb->add_option("--vendor", raw.worker.vendor)->check(one_of({"nvidia", "ascend"}));
  verb->add_option("--nvml", raw.worker.nvml);
  verb->add_option("--dcmi", raw.worker.dcmi);
  verb->add_option("--driver-root", raw.worker.driver_root);
  return verb;
}

bool is_verb(const CLI::App& app, const std::string& word) {
  const auto verbs = app.get_subcommands([&word](const CLI::App* verb) { return verb->get_name() == word; });
  return !verbs.empty();
}

// Fills what the options of `app` are bound to. Something to print: help, or what is wrong.
std::optional<Message> parse_words(CLI::App& app, std::vector<std::string> own) {
  if (own.empty()) return usage_error("say what to do, as in `heddle ps`; `heddle help` lists all verbs");
  const std::string verb = own.front();
  if (!verb.starts_with('-') && !is_verb(app, verb)) {
    return usage_error(fmt::format("unknown verb '{}'; `heddle help` lists all", verb));
  }
  try {
    std::reverse(own.begin(), own.end());
    app.parse(own);
  } catch (const CLI::Success& help) {
    std::ostringstream out;
    app.exit(help, out, out);
    return Message{out.str(), 0};
  } catch (const CLI::ParseError& error) {
    if (verb.starts_with('-')) {
      return usage_error(fmt::format("unknown option '{}'; `heddle help` lists all verbs", verb));
    }
    return usage_error(complaint(app, error, verb));
  }
  if (const auto flag = empty_value(*app.get_subcommands().front()); flag) {
    return usage_error(fmt::format("{}: the value is empty", *flag));
  }
  return std::nullopt;
}

}  // namespace

std::variant<Args, Message> parse_args(const std::vector<std::string>& words) {
  // Behind "--" everything is the command's, whatever it looks like.
  const auto mark = std::find(words.begin(), words.end(), "--");
  std::vector<std::string> own(words.begin(), mark);
  std::vector<std::string> command(mark == words.end() ? mark : mark + 1, words.end());

  // `heddle help VERB` is `heddle VERB --help`.
  if (!own.empty() && own.front() == "help") {
    own.erase(own.begin());
    own.emplace_back("--help");
  }
  if (!own.empty() && own.front() == "--version") own.front() = "version";

  Raw raw;
  CLI::App app("Heddle shares accelerators: who gets which piece of which card, and nobody takes more.", "heddle");
  app.require_subcommand(1);
  app.footer(
      "Start here, on one machine:\n  heddle up --simulate h100x2\n  heddle run --memory 8Gi --cores 30 -- ./train\n"
      "  heddle ps\n\n`heddle help VERB` shows its options and an example.\n\nExit codes: 0 done, 1 usage, 2 a correct "
      "\"no\", 3 an error.");
  const auto* up = add_up(app, raw);
  const auto* run = add_run(app, raw);
  const auto* ps = add_ps(app, raw);
  const auto* explain = add_explain(app, raw);
  const auto* queue = add_queue(app, raw);
  const auto* cancel = add_cancel(app, raw);
  const auto* down = add_down(app, raw);
  const auto* uninstall = add_uninstall(app, raw);
  const auto* translate = add_translate(app, raw);
  const auto* migrate = add_migrate(app, raw);
  const auto* allocate = add_allocate(app, raw);
  const auto* plan = add_plan(app, raw);
  const auto* evaluate = add_cel(app, raw);
  const auto* catalog = add_catalog(app, raw);
  const auto* simulate = add_simulate(app, raw);
  const auto* guard = add_guard(app, raw);
  auto* probe = app.add_subcommand("guard-probe", "The program of `heddle guard selftest`")->group("");
  probe->add_option("--limit", raw.guard_probe.limit);
  auto* version = app.add_subcommand("version", "Print the version");
  version->footer("Example:\n  heddle version");
  const auto* worker = add_vendor_worker(app, raw);
  if (auto message = parse_words(app, std::move(own)); message) return std::move(*message);
  if (*run) {
    // Without "--", the command begins at the first word that is no option of ours.
    auto rest = run->remaining();
    if (!rest.empty() && rest.front().starts_with('-')) {
      return usage_error(fmt::format(
          "run: unknown option '{}'; `heddle run --help` lists them. A command goes behind --", rest.front()));
    }
    rest.insert(rest.end(), command.begin(), command.end());
    return finish_run(raw, std::move(rest));
  }
  if (mark != words.end()) return usage_error("only `heddle run` takes a command behind --");
  const Output output = raw.output == "json" ? Output::kJson : Output::kTable;
  raw.ps.output = output;
  raw.explain.output = raw.queue.output = output;
  raw.guard.output = output;
  if (*up) return finish_up(raw);
  if (*guard) {
    if (auto wrong = refuse_beside_action(*guard, raw.guard)) return std::move(*wrong);
    return Args(raw.guard);
  }
  if (*probe) return Args(raw.guard_probe);
  if (*ps) return Args(raw.ps);
  if (*explain) return Args(raw.explain);
  if (*queue) return Args(raw.queue);
  if (*cancel) return Args(raw.cancel);
  if (*down) return Args(raw.down);
  if (*uninstall) return finish_uninstall(raw);
  if (*translate) return Args(raw.translate);
  raw.migrate.json = output == Output::kJson;
  if (*migrate) return Args(raw.migrate);
  if (raw.without_defaults) raw.allocate.defaults = allocator::Defaults::kNone;
  if (*allocate) return Args(raw.allocate);
  if (*catalog) return finish_catalog(raw);
  raw.plan.output = output;
  if (*plan) return Args(raw.plan);
  if (*simulate) return finish_simulate(raw);
  raw.cel.environment = raw.cel_environment == "new" ? cel::Mode::kNew : cel::Mode::kStored;
  if (*evaluate) return Args(raw.cel);
  if (*worker) return Args(raw.worker);
  static_cast<void>(version);
  return Args(VersionArgs());
}

}  // namespace heddle::cli
