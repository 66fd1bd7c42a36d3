#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/print.h"
#include "cli/simulation_text.h"
#include "cli/verbs.h"
#include "cli/yaml_json.h"
#include "placement/replay.h"
#include "simulation/simulation.h"

namespace heddle::cli {
namespace {

using nlohmann::json;

struct Outcome {
  placement::ReplayResult result;
  double seconds = 0;  // in decisions
  double asked_percent = 0;
};

Result<Outcome> replay(const SimulateArgs& args) {
  HEDDLE_TRY(const std::string nodes, read_file(args.nodes_file));
  HEDDLE_TRY(const std::string pods, read_file(args.pods_file));
  HEDDLE_TRY(const auto trace, placement::parse_trace({args.nodes_file, nodes}, {args.pods_file, pods}));
  HEDDLE_TRY(const auto arrivals, placement::arrival_stream(trace, args.load_percent, args.seed));
  placement::PlacerOptions options{args.policy, std::nullopt, args.seed};
  if (args.mix_is_known) options.known_mix = placement::mix_of(trace);
  HEDDLE_TRY(auto replay, placement::Replay::start(trace, std::move(options)));
  const SystemClock clock;
  const int64_t start = clock.monotonic_nanos();
  HEDDLE_CHECK_OK(replay.run(arrivals, 0, arrivals.size()));
  Outcome outcome{replay.result(), static_cast<double>(clock.monotonic_nanos() - start) / 1e9, 0};
  int64_t asked = 0;
  for (const uint32_t pod : arrivals) asked += trace.pods[pod].request.card_milli();
  outcome.asked_percent = 100.0 * static_cast<double>(asked) / static_cast<double>(trace.card_milli());
  return outcome;
}

const char* policy_name(placement::PolicyName policy) {
  switch (policy) {
    case placement::PolicyName::kHeddle:
      return "heddle";
    case placement::PolicyName::kFgd:
      return "fgd";
    case placement::PolicyName::kBestFit:
      return "bestfit";
    case placement::PolicyName::kRandom:
      return "random";
  }
  return "";
}

// A scenario's file, JSON or YAML, as one JSON text.
Result<simulation::NamedJson> read_scenario(const std::string& file) {
  HEDDLE_TRY(std::string text, read_input(file));
  auto documents = yaml_to_json(text);
  if (!documents) return fail(documents.error().code, documents.error().text(), file);
  if (documents->size() != 1) return fail(Code::kInvalidArgument, "is not one document: write a single one", file);
  return simulation::NamedJson{file, std::move(documents->front())};
}

Result<simulation::SimulationResult> run_scenario(const SimulateArgs& args) {
  HEDDLE_TRY(const auto fleet_text, read_scenario(args.fleet_file));
  HEDDLE_TRY(const auto fleet, simulation::read_fleet(fleet_text));
  HEDDLE_TRY(const auto workloads_text, read_scenario(args.workloads_file));
  HEDDLE_TRY(const auto workloads, simulation::read_workloads(workloads_text, args.seed));
  return simulation::simulate(fleet, workloads, args.seed, SystemClock());
}

int simulate_fleet(const SimulateArgs& args) {
  const auto result = run_scenario(args);
  if (!result) return report_one_line(result.error());
  print_out("{}", args.output == Output::kJson ? simulation_json(*result, args.seed)
                                               : simulation_table(*result, args.seed, 0));
  return 0;
}

}  // namespace

int simulate(const SimulateArgs& args) {
  if (!args.fleet_file.empty()) return simulate_fleet(args);
  const auto outcome = replay(args);
  if (!outcome) return report_one_line(outcome.error());
  const placement::ReplayResult& result = outcome->result;
  const char* mix = args.mix_is_known ? "known" : "online";
  const double rate = outcome->seconds > 0 ? static_cast<double>(result.decisions) / outcome->seconds : 0;
  if (args.output == Output::kTable) {
    print_out("policy {}, mix {}, seed {}, load {}%\n", policy_name(args.policy), mix, args.seed, args.load_percent);
    print_out("allocated {:.2f}% of all cards; {} of {} pods placed, {} refused\n", result.allocated_percent(),
              result.placed, result.decisions, result.decisions - result.placed);
    print_out("{:.3f} s in decisions, {:.0f} decisions/s\n", outcome->seconds, rate);
    return 0;
  }
  json out = json::object();
  out["policy"] = policy_name(args.policy);
  out["mix"] = mix;
  out["seed"] = args.seed;
  out["loadPercent"] = args.load_percent;
  out["requestedGpuPercent"] = outcome->asked_percent;
  out["allocatedGpuPercent"] = result.allocated_percent();
  out["decisions"] = result.decisions;
  out["placed"] = result.placed;
  out["refused"] = result.decisions - result.placed;
  out["seconds"] = outcome->seconds;
  out["decisionsPerSecond"] = rate;
  print_out("{}\n", dump_json(out, 2));
  return 0;
}

}  // namespace heddle::cli
