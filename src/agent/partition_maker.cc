#include "agent/partition_maker.h"

#include <algorithm>

namespace heddle::agent {
namespace {

// Drivers bring vNPUs back after a start of the machine, unless they are told not to; nobody brings MIG instances back.
bool outlives_boot(const std::string& vendor) {
  return vendor == "ascend";
}

// Places of the same card that the records of others name.
std::vector<int64_t> taken_places(const std::vector<ClaimRecord>& granted, const ClaimRecord& grant,
                                  const GrantedDevice& device) {
  std::vector<int64_t> taken;
  const auto add = [&](const GrantedDevice& other) {
    if (&other == &device || !other.made || other.hardware() != device.hardware()) return;
    if (other.made->order.place >= 0) taken.push_back(other.made->order.place);
  };
  for (const ClaimRecord& record : granted) {
    if (record.uid == grant.uid) continue;
    std::ranges::for_each(record.devices, add);
  }
  std::ranges::for_each(grant.devices, add);
  return taken;
}

}  // namespace

bool has_made(const ClaimRecord& record) {
  return std::ranges::any_of(record.devices, [](const GrantedDevice& device) { return device.made.has_value(); });
}

Result<ClaimRecord> PartitionMaker::with_places(ClaimRecord grant, const std::vector<ClaimRecord>& granted,
                                                const std::string& boot_id) {
  const auto known = std::ranges::find(granted, grant.uid, &ClaimRecord::uid);
  for (GrantedDevice& device : grant.devices) {
    if (!device.made) continue;
    const std::string vendor = vendor_of(device);
    if (known != granted.end()) {
      const auto before = std::ranges::find_if(known->devices, [&](const GrantedDevice& other) {
        return other.made && other.device == device.device && other.hardware() == device.hardware();
      });
      if (before != known->devices.end()) {
        if (known->boot_id == boot_id) {
          device.made->order.place = before->made->order.place;
          device.card_uuid = before->card_uuid;
          device.gpu_instance = before->gpu_instance;
          device.compute_instance = before->compute_instance;
          continue;
        }
        if (outlives_boot(vendor)) device.made->order.place = before->made->order.place;
      }
    }
    Result<int64_t> place = ports_.place(vendor, device.made->order, taken_places(granted, grant, device));
    if (!place) {
      count_failure(vendor);
      return tl::unexpected(place.error());
    }
    device.made->order.place = *place;
  }
  return grant;
}

Result<GrantedDevice> PartitionMaker::make(GrantedDevice device) {
  const std::string vendor = vendor_of(device);
  const Result<vendors::Card> card = ports_.make(vendor, device.made->order);
  if (!card) {
    count_failure(vendor);
    return tl::unexpected(card.error());
  }
  const bool fresh = device.card_uuid != card->uuid;
  device.card_uuid = card->uuid;
  device.minor = card->minor;
  device.gpu_instance = card->partition.gpu_instance;
  device.compute_instance = card->partition.compute_instance;
  const std::lock_guard lock(mutex_);
  counts_[vendor].made += fresh ? 1 : 0;
  return device;
}

Result<void> PartitionMaker::drop(const GrantedDevice& device, Boot boot) {
  const std::string vendor = vendor_of(device);
  if (device.made->order.place < 0) return {};
  if (boot == Boot::kEarlier && !outlives_boot(vendor)) return {};
  Result<void> dropped = ports_.drop(vendor, device.made->order);
  if (!dropped && dropped.error().code == Code::kNotFound) return {};  // it went with its card or the driver
  if (!dropped) {
    count_failure(vendor);
    return dropped;
  }
  const std::lock_guard lock(mutex_);
  ++counts_[vendor].removed;
  return {};
}

std::map<std::string, PartitionCounts> PartitionMaker::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void PartitionMaker::count_failure(const std::string& vendor) {
  const std::lock_guard lock(mutex_);
  ++counts_[vendor].failed;
}

}  // namespace heddle::agent
