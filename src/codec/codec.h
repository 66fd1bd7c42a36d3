// JSON <-> model; the only place that knows wire names. Readers accept what the API server sends and ignore fields that
// Heddle does not read; what they do read must have the right type, else kInvalidArgument with the field path.
//
// Thread rule: free functions, any thread. Cost: one parse of the text (simdjson), no copy of what is not kept.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/claim.h"
#include "model/device.h"
#include "model/pod.h"
#include "model/queue.h"
#include "model/volume.h"

namespace heddle::codec {

Result<model::Pod> parse_pod(std::string_view json);
Result<model::Node> parse_node(std::string_view json);
Result<model::ResourceSlice> parse_slice(std::string_view json);
Result<model::DeviceClass> parse_class(std::string_view json);
Result<model::DeviceTaintRule> parse_taint_rule(std::string_view json);
Result<model::ResourceClaim> parse_claim(std::string_view json);
Result<model::PersistentVolume> parse_volume(std::string_view json);
Result<model::PersistentVolumeClaim> parse_volume_claim(std::string_view json);
// Of heddle.dev/v1alpha1; what is in them is checked as far as one object can tell.
Result<model::AcceleratorQueue> parse_queue(std::string_view json);
Result<model::AcceleratorTopology> parse_topology(std::string_view json);
Result<model::AcceleratorReservation> parse_reservation(std::string_view json);
Result<model::Namespace> parse_namespace(std::string_view json);
Result<model::ClaimSpec> parse_claim_spec(std::string_view json);
Result<model::Allocation> parse_allocation(std::string_view json);

Result<model::Device> parse_device(std::string_view json);

// Opaque parameters of a claim for our driver. Nothing when they are of another kind. Errors: kInvalidArgument for a
// ShareConfig with unknown fields, another version, a percentage outside 1..100, a priority but 0 and 1,
// virtual memory that is no whole number of MiB, or an isolation but soft and mps.
Result<std::optional<model::ShareConfig>> parse_share_config(std::string_view parameters_json);
std::string share_config_json(const model::ShareConfig& config);

// Any object: metadata with kind and apiVersion.
struct AnyObject {
  std::string api_version;
  std::string kind;
  model::ObjectMeta meta;
};
Result<AnyObject> parse_any(std::string_view json);

// Compact JSON, keys in API order; absent and empty fields are left out as Kubernetes does.
// "In", "NotIn", ..., as selectors of Kubernetes write it.
std::string_view operator_name(model::Requirement::Operator op);
std::string claim_spec_json(const model::ClaimSpec& spec);
std::string allocation_json(const model::Allocation& allocation);
// The whole claim object: apiVersion, kind, metadata, spec, and status when it has one. For create, leave uid and
// resource_version empty. parse_claim() gives the same claim back.
std::string claim_json(const model::ResourceClaim& claim);
// status of a claim: {"allocation":...,"reservedFor":[...]}
std::string claim_status_json(const model::ResourceClaim& claim);
// The whole ResourceSlice for create and update (metadata with resourceVersion when set).
std::string slice_json(const model::ResourceSlice& slice);
std::string device_json(const model::Device& device);

}  // namespace heddle::codec
