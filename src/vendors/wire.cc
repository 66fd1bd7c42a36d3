#include "vendors/wire.h"

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace heddle::vendors {
namespace {

using nlohmann::json;

json to_json(const PartitionPlace& place) {
  return {{"parentUUID", place.parent_uuid},
          {"profile", place.profile},
          {"start", place.start},
          {"gpuInstance", place.gpu_instance},
          {"computeInstance", place.compute_instance}};
}

json to_json(const Card& card) {
  json out = {{"vendor", card.vendor},
              {"kind", card.kind},
              {"uuid", card.uuid},
              {"model", card.model},
              {"architecture", card.architecture},
              {"index", card.index},
              {"minor", card.minor},
              {"memoryBytes", card.memory_bytes},
              {"pciBusID", card.pci_bus_id},
              {"pcieRoot", card.pcie_root},
              {"numaNode", card.numa_node},
              {"driverVersion", card.driver_version},
              {"runtimeVersion", card.runtime_version},
              {"linkDomain", card.link_domain},
              {"superNode", card.super_node},
              {"module", card.module},
              {"partitioned", card.partitioned},
              {"healthy", card.healthy},
              {"healthMessage", card.health_message}};
  if (card.is_partition()) out["partition"] = to_json(card.partition);
  if (card.cuts) out["cuts"] = true;
  return out;
}

Card card_of(const json& in) {
  Card card;
  in.at("vendor").get_to(card.vendor);
  in.at("kind").get_to(card.kind);
  in.at("uuid").get_to(card.uuid);
  in.at("model").get_to(card.model);
  in.at("architecture").get_to(card.architecture);
  in.at("index").get_to(card.index);
  in.at("minor").get_to(card.minor);
  in.at("memoryBytes").get_to(card.memory_bytes);
  in.at("pciBusID").get_to(card.pci_bus_id);
  in.at("pcieRoot").get_to(card.pcie_root);
  in.at("numaNode").get_to(card.numa_node);
  in.at("driverVersion").get_to(card.driver_version);
  in.at("runtimeVersion").get_to(card.runtime_version);
  in.at("linkDomain").get_to(card.link_domain);
  card.super_node = in.value("superNode", "");  // files of before do not have it
  card.module = in.value("module", "");         // nor this
  card.cuts = in.value("cuts", false);
  in.at("partitioned").get_to(card.partitioned);
  in.at("healthy").get_to(card.healthy);
  in.at("healthMessage").get_to(card.health_message);
  if (const auto place = in.find("partition"); place != in.end()) {
    place->at("parentUUID").get_to(card.partition.parent_uuid);
    place->at("profile").get_to(card.partition.profile);
    place->at("start").get_to(card.partition.start);
    place->at("gpuInstance").get_to(card.partition.gpu_instance);
    place->at("computeInstance").get_to(card.partition.compute_instance);
  }
  return card;
}

json to_json(const CardStatus& status) {
  json processes = json::array();
  for (const CardProcess& process : status.processes) {
    processes.push_back({{"pid", process.pid}, {"memoryBytes", process.memory_bytes}});
  }
  return {{"uuid", status.uuid},
          {"healthy", status.healthy},
          {"healthMessage", status.health_message},
          {"memoryUsedBytes", status.memory_used_bytes},
          {"utilizationPercent", status.utilization_percent},
          {"temperatureCelsius", status.temperature_celsius},
          {"powerMilliwatts", status.power_milliwatts},
          {"processes", std::move(processes)}};
}

CardStatus status_of(const json& in) {
  CardStatus status;
  in.at("uuid").get_to(status.uuid);
  in.at("healthy").get_to(status.healthy);
  in.at("healthMessage").get_to(status.health_message);
  in.at("memoryUsedBytes").get_to(status.memory_used_bytes);
  in.at("utilizationPercent").get_to(status.utilization_percent);
  in.at("temperatureCelsius").get_to(status.temperature_celsius);
  in.at("powerMilliwatts").get_to(status.power_milliwatts);
  for (const json& process : in.at("processes")) {
    status.processes.push_back({process.at("pid").get<int64_t>(), process.at("memoryBytes").get<int64_t>()});
  }
  return status;
}

LibraryState state_of(const json& in) {
  const int value = in.at("state").get<int>();
  if (value < 0 || value > static_cast<int>(LibraryState::kIncomplete)) return LibraryState::kInitFailed;
  return static_cast<LibraryState>(value);
}

}  // namespace

std::string inventory_json(const Inventory& inventory) {
  json cards = json::array();
  for (const Card& card : inventory.cards) cards.push_back(to_json(card));
  return dump_json(json{{"state", static_cast<int>(inventory.state)},
                        {"detail", inventory.detail},
                        {"libraryPath", inventory.library_path},
                        {"cards", std::move(cards)},
                        {"skipped", inventory.skipped}});
}

std::string status_json(const StatusReport& report) {
  json cards = json::array();
  for (const CardStatus& status : report.cards) cards.push_back(to_json(status));
  json events = json::array();
  for (const HealthEvent& event : report.events) {
    events.push_back({{"uuid", event.uuid}, {"message", event.message}, {"needsReset", event.needs_reset}});
  }
  return dump_json(json{{"state", static_cast<int>(report.state)},
                        {"detail", report.detail},
                        {"cards", std::move(cards)},
                        {"events", std::move(events)}});
}

std::string times_json(const TimesReport& report) {
  json cards = json::array();
  for (const CardTimes& card : report) {
    json processes = json::array();
    for (const ProcessTime& process : card.processes) {
      processes.push_back({{"pid", process.pid}, {"busyNanos", process.busy_ns}});
    }
    cards.push_back({{"uuid", card.uuid}, {"processes", std::move(processes)}});
  }
  return dump_json(json{{"cards", std::move(cards)}});
}

Result<Inventory> parse_inventory(std::string_view text) {
  try {
    const json in = parse_json(text);
    Inventory inventory;
    inventory.state = state_of(in);
    in.at("detail").get_to(inventory.detail);
    in.at("libraryPath").get_to(inventory.library_path);
    for (const json& card : in.at("cards")) inventory.cards.push_back(card_of(card));
    // Not in what an agent of 0.1 kept.
    if (const auto skipped = in.find("skipped"); skipped != in.end()) skipped->get_to(inventory.skipped);
    return inventory;
  } catch (const json::exception& error) {
    return fail(Code::kInvalidArgument, std::string("not an inventory: ") + error.what());
  }
}

Result<StatusReport> parse_status(std::string_view text) {
  try {
    const json in = parse_json(text);
    StatusReport report;
    report.state = state_of(in);
    in.at("detail").get_to(report.detail);
    for (const json& status : in.at("cards")) report.cards.push_back(status_of(status));
    for (const json& event : in.at("events")) {
      report.events.push_back({event.at("uuid").get<std::string>(), event.at("message").get<std::string>(),
                               event.at("needsReset").get<bool>()});
    }
    return report;
  } catch (const json::exception& error) {
    return fail(Code::kInvalidArgument, std::string("not a status report: ") + error.what());
  }
}

Result<TimesReport> parse_times(std::string_view text) {
  try {
    const json in = parse_json(text);
    TimesReport report;
    for (const json& card : in.at("cards")) {
      CardTimes& times = report.emplace_back(CardTimes{card.at("uuid").get<std::string>(), {}});
      for (const json& process : card.at("processes")) {
        times.processes.push_back({process.at("pid").get<int64_t>(), process.at("busyNanos").get<int64_t>()});
      }
    }
    return report;
  } catch (const json::exception& error) {
    return fail(Code::kInvalidArgument, std::string("not a report of times: ") + error.what());
  }
}

}  // namespace heddle::vendors
