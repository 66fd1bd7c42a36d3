// What `heddle migrate` says: a dump of a cluster that HAMi, Volcano's vGPU or KAI runs, and what Heddle would make of
// it. Pure: manifests in, a report out. Nothing is changed anywhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "catalog/requests.h"

namespace heddle::cli {

struct MigratedDevice {
  std::string id;
  std::string type;
  int64_t memory_mib = 0;
  int64_t tenants = 0;  // pods of the dump that hold a part of it
};

struct MigratedNode {
  std::string name;
  std::string source;  // the annotation that was read
  std::vector<MigratedDevice> devices;
  std::vector<std::string> differences;  // in meaning, one line each
};

struct MigratedPod {
  std::string name_space;
  std::string name;
  std::string outcome;               // "claims", "refused", "nothing"
  std::vector<std::string> granted;  // what the old scheduler gave, one line a container
  std::vector<std::string> claims;   // what Heddle would ask for, one line a request
  std::vector<std::string> reasons;  // of a refusal: what to change before the switch
  std::vector<std::string> differences;
};

struct Migration {
  std::vector<MigratedNode> nodes;
  std::vector<MigratedPod> pods;
  // Of device-config, of single nodes and of quotas: what means something else, or nothing, to Heddle.
  std::vector<std::string> settings;
};

struct MigrationText {
  std::string name;  // for errors: the file
  std::string text;
};

// manifests: YAML or JSON as `kubectl get -o yaml` prints it; Nodes, Pods, workloads with pod templates, HAMi's
// ConfigMaps, quotas, queues and KAI's BindRequests are read, everything else is passed over. Errors: kInvalidArgument
// with the name of the text that is no manifest.
Result<Migration> read_migration(const catalog::Requests& rules, const std::vector<MigrationText>& manifests);

std::string migration_json(const Migration& migration);
std::string migration_table(const Migration& migration);

}  // namespace heddle::cli
