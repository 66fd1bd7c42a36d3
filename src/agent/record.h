// What the agent remembers of a claim that it prepared: one small file, from which everything else on disk can be made
// again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "vendors/vendor.h"

namespace heddle::agent {

// A hard partition that is made for the claim when it is prepared, and taken away when it no longer is.
struct MadePartition {
  struct Counter {
    int64_t used = 0;
    int64_t total = 0;  // of the card, beside what others made of it
    friend bool operator==(const Counter&, const Counter&) = default;
  };
  vendors::PartitionOrder order;
  std::map<std::string, Counter> counters;  // what it takes of its card
  friend bool operator==(const MadePartition&, const MadePartition&) = default;
};

struct GrantedDevice {
  std::string request;  // without the part behind "/" that names an alternative
  std::string pool;
  std::string device;
  std::string share_id;
  std::string card_uuid;
  int64_t minor = 0;
  int64_t card_memory_bytes = 0;  // the capacity of the card, whole MiB
  int64_t memory_bytes = 0;       // granted
  int64_t cores = 0;              // granted, percent
  // Of a hard partition: card_uuid is its own, minor the number of the card that it lies on. -1: a card.
  int64_t gpu_instance = -1;
  int64_t compute_instance = -1;
  int64_t priority = 0;       // of the claim's ShareConfig: 1 gives way to those of 0
  int64_t virtual_bytes = 0;  // of the claim's ShareConfig: what may be addressed; 0: what is granted
  bool mps = false;           // of the claim's ShareConfig: its compute is held by MPS
  // Then card_uuid, gpu_instance and compute_instance are known once it is made.
  std::optional<MadePartition> made = {};
  [[nodiscard]] bool is_partition() const { return gpu_instance >= 0 || made.has_value(); }
  // The card that it is, or is made of.
  [[nodiscard]] const std::string& hardware() const { return made ? made->order.parent_uuid : card_uuid; }
  [[nodiscard]] bool whole_card() const {
    return cores >= 100 && memory_bytes >= card_memory_bytes && virtual_bytes == 0;
  }
  // The most that it may address.
  [[nodiscard]] int64_t addressable() const { return virtual_bytes > 0 ? virtual_bytes : memory_bytes; }
  friend bool operator==(const GrantedDevice&, const GrantedDevice&) = default;
};

struct PodReference {
  std::string name;
  std::string uid;
  friend bool operator==(const PodReference&, const PodReference&) = default;
};

struct ClaimRecord {
  std::string uid;
  std::string name_space;
  std::string name;
  std::vector<GrantedDevice> devices;  // in the order of the allocation
  std::vector<PodReference> pods;      // the claim was reserved for these when it was prepared
  std::string guard_version;           // the folder of the guard that its containers load
  std::string boot_id;                 // of the machine when it was prepared

  // Made from the limits of a claim whose own record was damaged: it counts, but nothing can be made from it.
  [[nodiscard]] bool salvaged() const { return name.empty(); }
  [[nodiscard]] std::string key() const { return salvaged() ? "claim " + uid : name_space + "/" + name; }
  friend bool operator==(const ClaimRecord&, const ClaimRecord&) = default;
};

// "node-1/ascend" -> "ascend". Records of before have pools of NVIDIA's alone.
std::string vendor_of(const GrantedDevice& device);

std::string record_json(const ClaimRecord& record);
// Errors: kInvalidArgument.
Result<ClaimRecord> parse_record(std::string_view text);

// Whether `wanted` can be granted beside `granted` (records of the same claim are skipped). The agent's own line of
// defence: it does not trust that the allocation adds up. A card and partitions that are made of it exclude each other.
// Errors: kExhausted naming card, amounts and holders.
Result<void> check_capacity(const std::vector<ClaimRecord>& granted, const ClaimRecord& wanted);

// The folders of a claim: one a request, or a single one "_claim" for a claim of several requests, whose containers may
// use any of them; the limit then holds for the claim as a whole.
struct FolderPlan {
  std::string name;
  std::vector<GrantedDevice> devices;  // one a card: shares of the same card are added up
};
FolderPlan plan_folder(const ClaimRecord& record);

}  // namespace heddle::agent
