#include "standalone/machine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "agent/mps.h"
#include "agent/slices.h"
#include "vendors/paths.h"

namespace heddle::standalone {
namespace {

struct VendorWords {
  const char* vendor;
  const char* title;
  const char* library;
  const char* library_flag;  // of the worker
};
constexpr std::array<VendorWords, 2> kVendors = {
    {{"nvidia", "NVIDIA", "libnvidia-ml.so.1", "--nvml="}, {"ascend", "Ascend", "libdcmi.so", "--dcmi="}}};

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

bool is_offered(const vendors::Card& card) {
  return !card.partitioned && !card.is_partition();
}

const std::string& named_library(const MachineOptions& options, std::string_view vendor) {
  return vendor == "ascend" ? options.dcmi : options.nvml;
}

// Where a driver was looked for and not found.
std::string missing_driver(const VendorWords& words, const MachineOptions& options) {
  const std::string& library = named_library(options, words.vendor);
  const std::string_view flag(words.library_flag, std::string_view(words.library_flag).size() - 1);
  if (!library.empty()) return fmt::format("{} {} cannot be loaded as {}'s library", flag, library, words.title);
  const std::string where = options.driver_root.empty() || options.driver_root == "/"
                                ? std::string()
                                : fmt::format(" below --driver-root {}", options.driver_root);
  return fmt::format("there is no {} driver{} (no {})", words.title, where, words.library);
}

// Why a vendor has no card here.
std::string why_none(const vendors::Snapshot& found, const VendorWords& words, const MachineOptions& options) {
  const auto& inventory = found.inventory;
  if (!found.current) return fmt::format("{}'s library does not answer: {}", words.title, found.trouble);
  if (!inventory.cards.empty())
    return fmt::format("all {} cards are partitioned, which is not offered here", words.title);
  if (inventory.state == vendors::LibraryState::kOk) return fmt::format("there are no {} cards", words.title);
  if (inventory.state == vendors::LibraryState::kMissing) return missing_driver(words, options);
  return fmt::format("{}'s driver cannot be used: {}", words.title, inventory.detail);
}

Result<void> check_found(const std::vector<vendors::VendorSnapshot>& found, const MachineOptions& options) {
  std::string why;
  bool answered = true;
  for (const auto& one : found) {
    if (std::ranges::any_of(one.snapshot.inventory.cards, is_offered)) return {};
    answered = answered && one.snapshot.current;
    why += why.empty() ? "" : ", and ";
    why += why_none(one.snapshot, *std::ranges::find(kVendors, one.vendor, &VendorWords::vendor), options);
  }
  if (!answered) return fail(Code::kUnavailable, why);
  if (!options.simulate.empty()) return fail(Code::kInternal, why);
  return fail(Code::kNotFound, why + " on this machine; to try Heddle without one: heddle up --simulate h100x2");
}

// How the vendors' libraries are asked, and what a command needs to reach them.
struct Reach {
  std::vector<vendors::VendorWorker> workers;
  std::map<std::string, std::string> environment;
};

std::vector<std::string> worker_command(const MachineOptions& options, const VendorWords& words,
                                        const std::string& library) {
  const std::string driver_root = options.driver_root.empty() ? "/" : options.driver_root;
  std::vector<std::string> command = {options.program, "vendor-worker", std::string("--vendor=") + words.vendor,
                                      "--driver-root=" + driver_root};
  if (!library.empty()) command.push_back(words.library_flag + library);
  return command;
}

Reach reach_drivers(const MachineOptions& options) {
  Reach reach;
  for (const VendorWords& words : kVendors) {
    reach.workers.push_back({words.vendor, worker_command(options, words, named_library(options, words.vendor))});
  }
  if (options.driver_root.empty() || options.driver_root == "/") return reach;
  std::vector<std::string> folders = vendors::library_folders(options.driver_root);
  for (const char* folder : {"", "/driver", "/common"}) {
    folders.push_back(vendors::under(options.driver_root, std::string("/usr/local/Ascend/driver/lib64") + folder));
  }
  reach.environment["LD_LIBRARY_PATH"] = fmt::format("{}", fmt::join(folders, ":"));
  return reach;
}

Result<Reach> reach_simulation(const MachineOptions& options, Remake remake) {
  HEDDLE_TRY(const auto simulations, prepare_simulation(options.state_dir, options.program, options.simulate, remake));
  Reach reach;
  for (const Simulation& simulation : simulations) {
    vendors::VendorWorker worker{simulation.vendor, {"/usr/bin/env"}};
    for (const auto& [name, value] : simulation.environment) {
      worker.command.push_back(fmt::format("{}={}", name, value));
      reach.environment[name] = value;
    }
    const auto command = worker_command(options, *std::ranges::find(kVendors, simulation.vendor, &VendorWords::vendor),
                                        simulation.library);
    worker.command.insert(worker.command.end(), command.begin(), command.end());
    reach.workers.push_back(std::move(worker));
    std::string& path = reach.environment["LD_LIBRARY_PATH"];
    path += (path.empty() ? "" : ":") + simulation.library_dir;
  }
  return reach;
}

}  // namespace

std::string machine_name(const MachineOptions& options) {
  return options.simulate.empty() ? std::string("real") : options.simulate;
}

std::vector<model::ResourceSlice> machine_slices(const std::string& node, const std::vector<vendors::Card>& cards,
                                                 const std::string& mps_pipe) {
  // MIG instances are not offered here: a command runs with the variables of a card, under the guard.
  std::vector<vendors::Card> whole = cards;
  std::erase_if(whole, [](const vendors::Card& card) { return card.is_partition(); });
  return agent::desired_slices({node, ""}, agent::with_mps(std::move(whole), mps_pipe), {});
}

Result<Machine> find_machine(const MachineOptions& options, Remake remake, const Clock& clock) {
  Machine machine;
  machine.what = machine_name(options);
  machine.node = host_name();
  Reach reach;
  if (options.simulate.empty()) {
    reach = reach_drivers(options);
  } else {
    machine.origin = Origin::kSimulated;
    HEDDLE_TRY(reach, reach_simulation(options, remake));
  }
  machine.environment = std::move(reach.environment);
  machine.source = std::make_shared<vendors::CardSources>(reach.workers, "", clock);
  machine.source->refresh();
  HEDDLE_CHECK_OK(check_found(machine.source->by_vendor(), options));
  machine.cards = machine.source->cards();
  machine.mps_pipe = options.mps_pipe;
  machine.slices = machine_slices(machine.node, machine.cards, machine.mps_pipe);
  return machine;
}

}  // namespace heddle::standalone
