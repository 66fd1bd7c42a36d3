#include "agent/metrics.h"

#include <algorithm>

#include "agent/slices.h"
#include "base/prometheus.h"

namespace heddle::agent {
namespace {

using Labels = PrometheusText::Labels;

Labels card_labels(const vendors::Card& card) {
  return {{"vendor", card.vendor}, {"uuid", card.uuid}, {"minor", std::to_string(card.minor)}, {"model", card.model}};
}

struct KnownCards {
  std::vector<vendors::Card> cards;
  std::vector<vendors::CardStatus> statuses;
};

KnownCards all_cards(const std::vector<vendors::VendorSnapshot>& vendors) {
  KnownCards all;
  for (const vendors::VendorSnapshot& of : vendors) {
    std::ranges::copy(of.snapshot.inventory.cards, std::back_inserter(all.cards));
    std::ranges::copy(of.snapshot.statuses, std::back_inserter(all.statuses));
  }
  return all;
}

void write_cards(PrometheusText& text, const KnownCards& all) {
  text.family("heddle_accelerator_healthy", "gauge", "1 while the card can be used.");
  for (const vendors::Card& card : all.cards) text.sample(card_labels(card), card.healthy ? 1 : 0);
  text.family("heddle_accelerator_memory_total_bytes", "gauge", "Memory of the card as its driver reports it.");
  for (const vendors::Card& card : all.cards) text.sample(card_labels(card), card.memory_bytes);
  const auto family = [&](const char* name, const char* help, auto read) {
    text.family(name, "gauge", help);
    for (const vendors::CardStatus& status : all.statuses) {
      const auto card = std::ranges::find(all.cards, status.uuid, &vendors::Card::uuid);
      const int64_t value = read(status);
      if (card != all.cards.end() && value >= 0) text.sample(card_labels(*card), value);
    }
  };
  family("heddle_accelerator_memory_used_bytes", "Memory in use on the card.",
         [](const vendors::CardStatus& status) { return status.memory_used_bytes; });
  family("heddle_accelerator_utilization_percent", "Share of time in which the card computed.",
         [](const vendors::CardStatus& status) { return status.utilization_percent; });
  family("heddle_accelerator_temperature_celsius", "Temperature of the card.",
         [](const vendors::CardStatus& status) { return status.temperature_celsius; });
  family("heddle_accelerator_power_milliwatts", "Power that the card draws.",
         [](const vendors::CardStatus& status) { return status.power_milliwatts; });
  family("heddle_accelerator_processes", "Processes on the card.",
         [](const vendors::CardStatus& status) { return static_cast<int64_t>(status.processes.size()); });
}

void write_claims(PrometheusText& text, const std::vector<ClaimRecord>& claims) {
  const auto family = [&](const char* name, const char* help, auto read) {
    text.family(name, "gauge", help);
    for (const ClaimRecord& claim : claims) {
      for (const GrantedDevice& device : claim.devices) {
        text.sample({{"namespace", claim.name_space},
                     {"claim", claim.name},
                     {"request", device.request},
                     {"device", device.device},
                     {"uuid", device.card_uuid},
                     {"share", device.share_id}},
                    read(device));
      }
    }
  };
  family("heddle_claim_memory_bytes", "Memory granted to a prepared claim.",
         [](const GrantedDevice& device) { return device.memory_bytes; });
  family("heddle_claim_cores_percent", "Compute granted to a prepared claim.",
         [](const GrantedDevice& device) { return device.cores; });
}

void write_charges(PrometheusText& text, const MetricsInput& input) {
  text.family("heddle_claim_memory_charged_bytes", "gauge", "Memory that the processes of a claim say they use.");
  for (size_t i = 0; i < input.claims.size() && i < input.charged.size(); ++i) {
    for (const ChargedDevice& device : input.charged[i]) {
      text.sample(
          {{"namespace", input.claims[i].name_space}, {"claim", input.claims[i].name}, {"uuid", device.card_uuid}},
          device.bytes);
    }
  }
}

void write_partitions(PrometheusText& text, const std::map<std::string, PartitionCounts>& counts) {
  text.family("heddle_agent_partitions_total", "counter",
              "Hard partitions (vNPUs, MIG instances) made for claims, removed after them, and calls that failed.");
  for (const auto& [vendor, count] : counts) {
    text.sample({{"vendor", vendor}, {"result", "made"}}, count.made);
    text.sample({{"vendor", vendor}, {"result", "removed"}}, count.removed);
    text.sample({{"vendor", vendor}, {"result", "failed"}}, count.failed);
  }
}

}  // namespace

std::string metrics_text(const MetricsInput& input) {
  PrometheusText text;
  text.family("heddle_agent_info", "gauge", "The version of this agent.");
  text.sample({{"version", HEDDLE_VERSION}, {"node", input.node}}, 1);
  text.family("heddle_agent_vendor_up", "gauge", "1 while the vendor's library answers.");
  for (const vendors::VendorSnapshot& of : input.vendors) {
    text.sample({{"vendor", of.vendor}}, of.snapshot.current ? 1 : 0);
  }
  text.family("heddle_agent_vendor_worker_starts_total", "counter",
              "Starts of the process that calls the vendor's library.");
  for (const vendors::VendorSnapshot& of : input.vendors) text.sample({{"vendor", of.vendor}}, of.worker_starts);
  text.family("heddle_agent_cards_not_offered", "gauge", "Cards that the driver counts and this node does not offer.");
  for (const vendors::VendorSnapshot& of : input.vendors) {
    text.sample({{"vendor", of.vendor}}, not_offered(of.snapshot.inventory).size());
  }
  write_cards(text, all_cards(input.vendors));
  write_claims(text, input.claims);
  write_charges(text, input);
  write_partitions(text, input.partitions);
  const auto count = [&](Finding::Kind kind) { return std::ranges::count(input.findings, kind, &Finding::kind); };
  text.family("heddle_agent_ungranted_processes", "gauge",
              "Processes on a card outside what was granted, or outside the guard, now.");
  text.sample({{"reason", "ungranted"}}, count(Finding::Kind::kUngranted));
  text.sample({{"reason", "beyond_grant"}}, count(Finding::Kind::kBeyondGrant));
  text.sample({{"reason", "beyond_share"}}, count(Finding::Kind::kBeyondShare));
  text.sample({{"reason", "unguarded"}}, count(Finding::Kind::kUnguarded));
  text.single("heddle_agent_ungranted_processes_total", "counter", "Such processes found since the start.",
              input.findings_total);
  text.single("heddle_agent_processes_ended_total", "counter", "Processes ended by the policy.", input.ended_total);
  text.single("heddle_agent_slice_writes_total", "counter", "Writes of ResourceSlices.", input.slice_writes);
  text.single("heddle_agent_api_requests_total", "counter", "Requests to the API server.", input.api_requests);
  text.single("heddle_agent_api_failures_total", "counter", "Requests to the API server that failed.",
              input.api_failures);
  return text.take();
}

}  // namespace heddle::agent
