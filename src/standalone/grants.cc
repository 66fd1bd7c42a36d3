#include "standalone/grants.h"

namespace heddle::standalone {
namespace {

bool is_whole(const JobRequest& request) {
  return !request.memory_bytes && !request.memory_percent;
}

}  // namespace

int64_t consumed(const model::DeviceResult& result, const std::string& capacity) {
  const auto found = result.consumed_capacity.find(capacity);
  return found == result.consumed_capacity.end() ? 0 : found->second.value().value_or(0);
}

const vendors::Card* find_card(const Machine& machine, const model::DeviceResult& result) {
  for (const auto& slice : machine.slices) {
    for (const auto& device : slice.devices) {
      if (slice.pool != result.pool || device.name != result.device) continue;
      const auto* uuid = model::find_attribute(device, slice.driver, "uuid");
      if (uuid == nullptr || !std::holds_alternative<std::string>(*uuid)) return nullptr;
      for (const auto& card : machine.cards) {
        if (card.uuid == std::get<std::string>(*uuid)) return &card;
      }
    }
  }
  return nullptr;
}

std::vector<CardShare> card_shares(const Machine& machine, const Job& job) {
  std::vector<CardShare> shares;
  if (!job.allocation) return shares;
  for (const auto& result : job.allocation->results) {
    const auto* card = find_card(machine, result);
    if (card == nullptr) continue;
    const bool whole = is_whole(job.request);
    const int64_t memory = whole ? card->memory_bytes : consumed(result, "memory");
    // Of a percentage it shows only now whether it is less than what is to be addressed.
    const int64_t addressed = job.request.virtual_bytes.value_or(0);
    shares.push_back({card->uuid, memory, whole ? 100 : consumed(result, "cores"), whole,
                      addressed > memory ? addressed : 0, card->vendor, card->index, card->minor});
  }
  return shares;
}

}  // namespace heddle::standalone
