#include "cli/fleet.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/json.h"
#include "cli/json_at.h"
#include "cli/yaml_json.h"
#include "codec/codec.h"
#include "engine/written_fields.h"

namespace heddle::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxValues = 20'000'000;  // of a fleet in one file

// "Pod default/a", "Node n1".
std::string label_of(const Json& object) {
  const std::string name = text_at(object, "/metadata/name");
  const std::string name_space = text_at(object, "/metadata/namespace");
  return fmt::format("{} {}{}{}", text_at(object, "/kind"), name_space, name_space.empty() ? "" : "/",
                     name.empty() ? "(unnamed)" : name);
}

tl::unexpected<Error> wrong(const Json& object, const std::string& field, const std::string& message) {
  return fail(Code::kInvalidArgument, message, fmt::format("{}: {}", label_of(object), field));
}

class Reader {
 public:
  Result<Fleet> read(const std::vector<FleetText>& texts) {
    for (const FleetText& text : texts) {
      if (auto done = read_text(text.text); !done) {
        const Error& error = done.error();
        return fail(error.code, error.text(), text.name);
      }
    }
    if (documents_ == 0 && !texts.empty())
      return fail(Code::kInvalidArgument, "there is no object in it: write what `kubectl get -o yaml` prints",
                  texts.front().name);
    resolve_priorities();
    return std::move(fleet_);
  }

 private:
  Result<void> read_text(const std::string& text) {
    Json whole = parse_ordered_json(text);
    if (!whole.is_discarded()) {
      ++documents_;
      return add(std::move(whole), "the document");
    }
    HEDDLE_TRY(const auto documents, yaml_to_json(text, kMaxValues));
    documents_ += documents.size();
    for (size_t i = 0; i < documents.size(); ++i) {
      HEDDLE_CHECK_OK(add(parse_ordered_json(documents[i]), fmt::format("document {}", i + 1)));
    }
    return {};
  }

  Result<void> add(Json object, const std::string& place) {
    if (!object.is_object()) return fail(Code::kInvalidArgument, "is not a Kubernetes object", place);
    const std::string kind = text_at(object, "/kind");
    if (kind.empty()) return fail(Code::kInvalidArgument, "has no kind", place);
    if (kind.ends_with("List")) return add_list(std::move(object), place + (place.empty() ? "" : ": ") + kind);
    for (const char* field : {"metadata", "spec", "status"}) {
      if (object.contains(field) && !object[field].is_object() && !object[field].is_null()) {
        return wrong(object, field, "must be an object");
      }
    }
    return add_object(kind, std::move(object));
  }

  Result<void> add_list(Json list, const std::string& place) {
    if (!list.contains("items") || list["items"].is_null()) return {};
    if (!list["items"].is_array()) return fail(Code::kInvalidArgument, "must be a list", place + ": items");
    // Lists of one kind leave the kind of their items out.
    const std::string kind = text_at(list, "/kind");
    const std::string item_kind = kind.substr(0, kind.size() - 4);
    size_t i = 0;
    for (Json& item : list["items"]) {
      if (item.is_object() && !item_kind.empty() && !item.contains("kind")) item["kind"] = item_kind;
      HEDDLE_CHECK_OK(add(std::move(item), fmt::format("{}: items[{}]", place, i++)));
    }
    return {};
  }

  Result<void> add_object(const std::string& kind, Json object) {
    if (kind == "Node") return keep(object, codec::parse_node, fleet_.nodes);
    if (kind == "ResourceSlice") return add_slice(object);
    if (kind == "DeviceTaintRule") return keep(object, codec::parse_taint_rule, fleet_.taint_rules);
    if (kind == "DeviceClass") return keep(object, codec::parse_class, fleet_.classes);
    if (kind == "PersistentVolume") return keep(object, codec::parse_volume, fleet_.volumes);
    if (kind == "PriorityClass") return add_priority_class(object);
    if (kind == "AcceleratorTopology") return add_topology(object);
    if (kind == "AcceleratorQueue") {
      HEDDLE_CHECK_OK(parsed(object, object, "", engine::check_queue_fields));
      HEDDLE_TRY(auto queue, parsed(object, object, "", engine::read_queue_object));
      if (!queue.queue) return wrong(object, queue.queue.error().field, queue.queue.error().message);
      fleet_.queues.upsert(std::move(queue));
      return {};
    }
    if (kind == "AcceleratorReservation") {
      HEDDLE_CHECK_OK(parsed(object, object, "", engine::check_reservation_fields));
      HEDDLE_TRY(auto reservation, parsed(object, object, "", engine::read_reservation_object));
      if (!reservation.reservation)
        return wrong(object, reservation.reservation.error().field, reservation.reservation.error().message);
      fleet_.queues.upsert(std::move(reservation));
      return {};
    }
    if (kind == "Namespace") {
      HEDDLE_TRY(const auto name_space, parsed(object, object, "", codec::parse_namespace));
      fleet_.queues.upsert(name_space);
      return {};
    }
    Json& name_space = object["metadata"]["namespace"];
    if (name_space.is_null()) name_space = "default";
    if (kind == "ResourceClaim") {
      HEDDLE_CHECK_OK(check_version(object));
      return keep(object, codec::parse_claim, fleet_.claims);
    }
    if (kind == "ResourceClaimTemplate") return add_template(object);
    if (kind == "Pod") return add_pod(object);
    if (kind == "ResourceQuota") return add_quota(object);
    if (kind == "PersistentVolumeClaim") return keep(object, codec::parse_volume_claim, fleet_.volume_claims);
    HEDDLE_TRY(auto gang, parsed(object, object, "", controller::parse_gang_object));
    if (!gang) ++fleet_.ignored[kind];
    if (gang) fleet_.gang_objects.push_back(*std::move(gang));
    return {};
  }

  // Versions before v1beta2 write devices and requests in another form.
  static Result<void> check_version(const Json& object) {
    const std::string version = text_at(object, "/apiVersion");
    if (version.empty() || version == "resource.k8s.io/v1" || version == "resource.k8s.io/v1beta2") return {};
    return wrong(object, "apiVersion", fmt::format("{} is not read; write resource.k8s.io/v1", version));
  }

  static Result<std::string> key_of(const Json& object) {
    const std::string name = text_at(object, "/metadata/name");
    if (name.empty()) return wrong(object, "metadata.name", "must be set");
    const std::string name_space = text_at(object, "/metadata/namespace");
    return name_space.empty() ? name : name_space + "/" + name;
  }

  template <typename Parse>
  static auto parsed(const Json& object, const Json& part, const std::string& prefix, Parse parse)
      -> decltype(parse(std::string_view())) {
    auto value = parse(dump_json(part));
    if (!value) {
      const Error error = value.error();
      const std::string field = prefix + error.field;
      value =
          fail(error.code, error.message, fmt::format("{}{}{}", label_of(object), field.empty() ? "" : ": ", field));
    }
    return value;
  }

  template <typename Parse, typename Value>
  static Result<void> keep(const Json& object, Parse parse, std::map<std::string, Value>& into) {
    HEDDLE_TRY(const std::string key, key_of(object));
    HEDDLE_TRY(Value value, parsed(object, object, "", parse));
    into.insert_or_assign(key, std::move(value));
    return {};
  }

  Result<void> add_slice(const Json& object) {
    HEDDLE_CHECK_OK(check_version(object));
    for (const char* field : {"/spec/driver", "/spec/pool/name"}) {
      if (!text_at(object, field).empty()) continue;
      std::string path(field + 1);
      for (char& c : path) c = c == '/' ? '.' : c;
      return wrong(object, path, "must be set");
    }
    return keep(object, codec::parse_slice, fleet_.slices);
  }

  Result<void> add_template(const Json& object) {
    HEDDLE_CHECK_OK(check_version(object));
    HEDDLE_TRY(const std::string key, key_of(object));
    const Json::json_pointer path("/spec/spec");
    if (!object.contains(path)) return wrong(object, "spec.spec", "must be set");
    HEDDLE_TRY(auto spec, parsed(object, object.at(path), "spec.spec.", codec::parse_claim_spec));
    fleet_.templates.insert_or_assign(key, std::move(spec));
    return {};
  }

  Result<void> add_pod(const Json& object) {
    HEDDLE_TRY(const std::string key, key_of(object));
    HEDDLE_TRY(model::Pod pod, parsed(object, object, "", codec::parse_pod));
    if (pod.meta.uid.empty()) pod.meta.uid = key;
    const bool waits = pod.node_name.empty() && !pod.finished();
    const Json::json_pointer priority("/spec/priority");
    if (waits && !pod.priority_class.empty() && !object.contains(priority)) without_priority_.insert(key);
    fleet_.pods.insert_or_assign(key, FleetPod{std::move(pod), waits ? dump_json(object) : std::string()});
    return {};
  }

  Result<void> add_topology(const Json& object) {
    HEDDLE_TRY(const std::string key, key_of(object));
    HEDDLE_CHECK_OK(parsed(object, object, "", engine::check_topology_fields));
    HEDDLE_TRY(auto topology, parsed(object, object, "", codec::parse_topology));
    fleet_.topologies.insert_or_assign(key, engine::TopologyObject{topology.meta, 0, std::move(topology)});
    return {};
  }

  Result<void> add_quota(const Json& object) {
    HEDDLE_TRY(const std::string key, key_of(object));
    HEDDLE_TRY(auto quota, parsed(object, object, "", controller::parse_quota));
    fleet_.quotas.insert_or_assign(key, std::move(quota));
    return {};
  }

  Result<void> add_priority_class(const Json& object) {
    HEDDLE_TRY(const std::string key, key_of(object));
    const auto value = object.find("value");
    if (value == object.end() || !value->is_number_integer() || value->get<int64_t>() > 2'000'001'000 ||
        value->get<int64_t>() < INT32_MIN) {
      return wrong(object, "value", "must be a whole number of 32 bits");
    }
    priorities_[key] = value->get<int32_t>();
    return {};
  }

  // Pods that have not been through the API server name a class only.
  void resolve_priorities() {
    for (const std::string& key : without_priority_) {
      model::Pod& pod = fleet_.pods.at(key).pod;
      const auto known = priorities_.find(pod.priority_class);
      if (known != priorities_.end()) pod.priority = known->second;
    }
  }

  size_t documents_ = 0;
  Fleet fleet_;
  std::map<std::string, int32_t> priorities_ = {{"system-cluster-critical", 2'000'000'000},
                                                {"system-node-critical", 2'000'001'000}};
  std::set<std::string> without_priority_;
};

}  // namespace

Result<Fleet> read_fleet(const std::vector<FleetText>& texts) {
  return Reader().read(texts);
}

}  // namespace heddle::cli
