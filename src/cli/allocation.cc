#include "cli/allocation.h"

#include <fmt/format.h>

#include <deque>
#include <nlohmann/json.hpp>
#include <vector>

#include "allocator/allocator.h"
#include "allocator/node_pools.h"
#include "base/json.h"
#include "cli/yaml_json.h"
#include "codec/codec.h"

namespace heddle::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Objects {
  std::vector<model::Node> nodes;
  std::deque<model::ResourceSlice> slices;
  allocator::ClassMap classes;
  std::deque<model::ResourceClaim> claims;
  std::deque<Json> claim_texts;  // as claims
};

std::string name_of(const Json& object) {
  const auto kind = object.find("kind");
  const auto meta = object.find("metadata");
  std::string name = kind != object.end() && kind->is_string() ? kind->get<std::string>() : std::string("object");
  if (meta == object.end() || !meta->is_object()) return name;
  for (const char* part : {"namespace", "name"}) {
    const auto found = meta->find(part);
    if (found != meta->end() && found->is_string()) name += (part[4] == 's' ? " " : "/") + found->get<std::string>();
  }
  return name;
}

// Reads one object with `parse`; what is wrong names the object.
template <typename Parse>
auto read(const Json& object, Parse parse) {
  auto parsed = parse(dump_json(object));
  if (!parsed) {
    parsed = fail(parsed.error().code, parsed.error().message, name_of(object) + ": " + parsed.error().field);
  }
  return parsed;
}

// Versions before v1beta2 write devices and requests in another form: read as v1 they would seem to have none.
Result<void> check_version(const Json& object) {
  const auto version = object.find("apiVersion");
  if (version == object.end() || !version->is_string()) return {};
  const auto text = version->get<std::string>();
  if (!text.starts_with("resource.k8s.io/v1alpha") && text != "resource.k8s.io/v1beta1") return {};
  return fail(Code::kInvalidArgument, text + " is not read; write resource.k8s.io/v1",
              name_of(object) + ": apiVersion");
}

Result<void> add(Objects& objects, Json object, int depth) {
  if (!object.is_object() || !object.contains("kind") || !object["kind"].is_string()) {
    return fail(Code::kInvalidArgument, "an item of the input is not a Kubernetes object: it has no kind");
  }
  HEDDLE_CHECK_OK(check_version(object));
  const auto kind = object["kind"].get<std::string>();
  if (kind == "Node") {
    HEDDLE_TRY(auto node, read(object, codec::parse_node));
    objects.nodes.push_back(std::move(node));
  } else if (kind == "ResourceSlice") {
    HEDDLE_TRY(auto slice, read(object, codec::parse_slice));
    objects.slices.push_back(std::move(slice));
  } else if (kind == "DeviceClass") {
    HEDDLE_TRY(auto device_class, read(object, codec::parse_class));
    std::string name = device_class.meta.name;
    objects.classes.insert_or_assign(std::move(name), std::move(device_class));
  } else if (kind == "ResourceClaim") {
    HEDDLE_TRY(auto claim, read(object, codec::parse_claim));
    objects.claims.push_back(std::move(claim));
    objects.claim_texts.push_back(std::move(object));
  } else if (kind.ends_with("List") && depth == 0) {
    if (!object.contains("items") || object["items"].is_null()) return {};
    if (!object["items"].is_array()) return fail(Code::kInvalidArgument, "must be a list", kind + ": items");
    for (Json& item : object["items"]) HEDDLE_CHECK_OK(add(objects, std::move(item), depth + 1));
  } else {
    return fail(Code::kInvalidArgument,
                name_of(object) + ": expected Node, ResourceSlice, DeviceClass, ResourceClaim or a List of them");
  }
  return {};
}

Result<Objects> read_objects(const std::string& text) {
  Objects objects;
  Json whole = parse_ordered_json(text);
  if (!whole.is_discarded()) {
    HEDDLE_CHECK_OK(add(objects, std::move(whole), 0));
    return objects;
  }
  HEDDLE_TRY(const auto documents, yaml_to_json(text));
  for (const std::string& document : documents) {
    HEDDLE_CHECK_OK(add(objects, parse_ordered_json(document), 0));
  }
  return objects;
}

Result<const model::Node*> find_node(const Objects& objects, const std::string& name) {
  for (const model::Node& node : objects.nodes) {
    if (node.meta.name == name) return &node;
  }
  return fail(Code::kNotFound, "there is no Node " + name + " in the input", "--node");
}

Result<std::string> list_of(const Objects& objects, const std::vector<size_t>& wanted,
                            const std::vector<model::Allocation>& allocations) {
  Json items = Json::array();
  for (size_t i = 0; i < wanted.size(); ++i) {
    Json claim = objects.claim_texts[wanted[i]];
    Json& status = claim["status"];
    if (!status.is_object()) status = Json::object();
    status["allocation"] = parse_ordered_json(codec::allocation_json(allocations[i]));
    items.push_back(std::move(claim));
  }
  const Json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", std::move(items)}};
  return dump_json(list);
}

// The claims of a "no", one by one: what stands in the way of each.
class Refusal {
 public:
  Refusal(const AllocationInput& input, const allocator::NodeInput& node, const allocator::ClassMap& classes,
          const allocator::Options& options)
      : input_(input), node_(node), classes_(classes), options_(options) {}

  [[nodiscard]] Result<std::string> text(const std::vector<allocator::ClaimInput>& claims) const {
    allocator::NodeInput empty = node_;
    empty.allocated.clear();
    std::string each;
    for (const allocator::ClaimInput& claim : claims) {
      HEDDLE_TRY(const bool alone, fits(node_, claim));
      if (alone) continue;
      HEDDLE_TRY(const bool ever, fits(empty, claim));
      each +=
          fmt::format("; {} {}", claim.key,
                      ever ? "would fit if nothing were allocated there: the devices that match it are taken"
                           : "does not fit even with nothing allocated there: too few devices of the node match it");
    }
    if (each.empty()) each = claims.size() > 1 ? "; each of them fits alone" : "";
    return fmt::format("the claims cannot be allocated together on node {}{}", input_.node, each);
  }

 private:
  [[nodiscard]] Result<bool> fits(const allocator::NodeInput& node, const allocator::ClaimInput& claim) const {
    HEDDLE_TRY(const auto pools, allocator::NodePools::make(node));
    allocator::QueryCache cache;  // not kept: it knows the devices of these pools
    HEDDLE_TRY(auto prepared, allocator::prepare({claim}, classes_, cache, options_));
    HEDDLE_TRY(const auto solution,
               allocator::solve(pools->view(), prepared, allocator::FirstFit(), {}, {.steps = input_.steps}, options_));
    return solution.has_value();
  }

  const AllocationInput& input_;
  const allocator::NodeInput& node_;
  const allocator::ClassMap& classes_;
  const allocator::Options& options_;
};

}  // namespace

Result<AllocationOutput> allocate_objects(const AllocationInput& input) {
  auto read = read_objects(input.objects);
  if (!read && !input.source.empty()) return fail(read.error().code, read.error().text(), input.source);
  HEDDLE_TRY(const Objects objects, std::move(read));
  HEDDLE_TRY(const model::Node* node, find_node(objects, input.node));
  allocator::NodeInput node_input{.node = node, .slices = {}, .allocated = {}, .features = input.features};
  for (const model::ResourceSlice& slice : objects.slices) node_input.slices.push_back(&slice);
  std::vector<allocator::ClaimInput> claims;
  std::vector<size_t> wanted;
  for (size_t i = 0; i < objects.claims.size(); ++i) {
    const model::ResourceClaim& claim = objects.claims[i];
    if (claim.allocation) {
      node_input.allocated.push_back(&*claim.allocation);
      continue;
    }
    claims.push_back({.key = claim.meta.key(), .spec = &claim.spec, .memory_percent = {}});
    wanted.push_back(i);
  }
  const allocator::Options options{.features = input.features,
                                   .selector_errors = allocator::SelectorErrors::kAbort,
                                   .defaults = input.defaults,
                                   .own_tolerations = {},
                                   .forbidden_taints = {}};
  allocator::QueryCache cache;
  HEDDLE_TRY(const auto pools, allocator::NodePools::make(node_input));
  HEDDLE_TRY(auto prepared, allocator::prepare(claims, objects.classes, cache, options));
  HEDDLE_TRY(const auto solution,
             allocator::solve(pools->view(), prepared, allocator::FirstFit(), {}, {.steps = input.steps}, options));
  AllocationOutput output;
  if (!solution) {
    output.refusal = "invalid resource pools were encountered on node " + input.node;
    if (pools->any_invalid()) return output;
    // The "no" stands; where looking closer fails, it stands without more.
    output.refusal = Refusal(input, node_input, objects.classes, options)
                         .text(claims)
                         .value_or("the claims cannot be allocated together on node " + input.node);
    return output;
  }
  SeededRandom random(input.seed);
  std::vector<model::Allocation> allocations;
  for (size_t i = 0; i < prepared.size(); ++i) {
    HEDDLE_TRY(auto allocation, allocator::make_allocation(prepared[i], *solution, i, input.node, random, options));
    allocations.push_back(std::move(allocation));
  }
  HEDDLE_TRY(output.list_json, list_of(objects, wanted, allocations));
  return output;
}

}  // namespace heddle::cli
