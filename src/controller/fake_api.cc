#include <algorithm>

#include "controller/fake_cluster.h"

namespace heddle::controller::testing {
namespace {

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> out;
  size_t start = 1;
  while (start <= path.size()) {
    const size_t end = std::min(path.find('/', start), path.size());
    out.push_back(path.substr(start, end - start));
    start = end + 1;
  }
  return out;
}

tl::unexpected<Error> not_found(const std::string& key) {
  return fail(Code::kNotFound, key + " not found");
}

}  // namespace

void FakeApi::bump(Json& object) {
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
}

std::vector<std::pair<std::string, std::string>> FakeApi::take_changes() {
  return std::exchange(changes_, {});
}

void FakeApi::put_pod(Json pod) {
  const std::string key =
      pod["metadata"]["namespace"].get<std::string>() + "/" + pod["metadata"]["name"].get<std::string>();
  pod["metadata"]["uid"] = "pod-uid-" + std::to_string(++uids_);
  pod["metadata"]["creationTimestamp"] = "2026-11-29T18:00:00Z";
  if (!pod.contains("status")) pod["status"] = {{"phase", "Pending"}};
  bump(pod);
  pods_[key] = std::move(pod);
  changes_.emplace_back("pods", key);
}

void FakeApi::delete_pod(const std::string& key) {
  pods_.erase(key);
  changes_.emplace_back("pods", key);
  collect_garbage();
}

void FakeApi::collect_garbage() {
  std::vector<std::string> gone;
  for (auto& [key, claim] : claims_) {
    const std::string name_space = key.substr(0, key.find('/'));
    const auto alive = [&](const std::string& name, const std::string& uid) {
      const auto it = pods_.find(name_space + "/" + name);
      if (it == pods_.end() || it->second["metadata"]["uid"] != uid) return false;
      const std::string phase = it->second["status"].value("phase", "");
      return phase != "Succeeded" && phase != "Failed";
    };
    Json& status = claim["status"];
    if (status.contains("reservedFor") && !status["reservedFor"].empty()) {
      Json left = Json::array();
      for (const Json& consumer : status["reservedFor"]) {
        if (alive(consumer["name"], consumer["uid"])) left.push_back(consumer);
      }
      if (left.size() != status["reservedFor"].size()) {
        status["reservedFor"] = left;
        if (left.empty()) status = Json::object();
        bump(claim);
        changes_.emplace_back("claims", key);
      }
    }
    if (!claim["metadata"].contains("ownerReferences")) continue;
    const Json& owner = claim["metadata"]["ownerReferences"][0];
    const bool reserved = status.contains("reservedFor") && !status["reservedFor"].empty();
    if (!alive(owner["name"], owner["uid"]) && !reserved) gone.push_back(key);
  }
  std::erase_if(provisioning, [&](const auto& entry) {
    const Json& owner = entry.second["metadata"]["ownerReferences"][0];
    return std::none_of(pods_.begin(), pods_.end(),
                        [&](const auto& pod) { return pod.second["metadata"]["uid"] == owner["uid"]; });
  });
  for (const std::string& key : gone) {
    claims_.erase(key);
    changes_.emplace_back("claims", key);
  }
}

void FakeApi::touch_claim(const std::string& key) {
  const auto it = claims_.find(key);
  if (it == claims_.end()) return;
  it->second["metadata"]["labels"]["touched"] = std::to_string(version_);
  bump(it->second);
  changes_.emplace_back("claims", key);
}

void FakeApi::clear_allocation(const std::string& key) {
  claims_.at(key)["status"] = Json::object();
  bump(claims_.at(key));
  changes_.emplace_back("claims", key);
}

void FakeApi::put_queue(const std::string& name, const Json& spec) {
  Json& queue = queues[name];
  queue["metadata"]["name"] = name;
  queue["metadata"]["uid"] = "queue-uid-" + name;
  queue["metadata"]["generation"] = queue["metadata"].value("generation", 0) + 1;
  queue["spec"] = spec;
  bump(queue);
  changes_.emplace_back("queues", name);
}

void FakeApi::delete_queue(const std::string& name) {
  queues.erase(name);
  changes_.emplace_back("queues", name);
}

Result<std::string> FakeApi::on_provisioning(const kube::Request& request, const std::string& resource,
                                             const std::string& name) {
  if (request.method == kube::Method::kDelete)
    return provisioning.erase(resource + "/" + name) == 0 ? Result<std::string>(not_found(name)) : std::string("{}");
  const Json object = Json::parse(request.body);
  const std::string key = resource + "/" + object["metadata"]["name"].get<std::string>();
  if (!provisioning.emplace(key, object).second) return fail(Code::kAlreadyExists, key + " already exists");
  return object.dump();
}

Result<std::string> FakeApi::on_queues(const std::string& name, const Json& patch) {
  const auto it = queues.find(name);
  if (it == queues.end()) return not_found(name);
  it->second.merge_patch(Json{{"status", patch["status"]}});
  bump(it->second);
  changes_.emplace_back("queues", name);
  return it->second.dump();
}

Result<std::string> FakeApi::evict(const std::string& key, const Json& eviction) {
  Json& pod = pods_.at(key);
  if (eviction["deleteOptions"]["preconditions"]["uid"] != pod["metadata"]["uid"])
    return fail(Code::kConflict, "the UID in the precondition does not match");
  const std::string name = pod["metadata"]["name"];
  if (budgets.contains(name))
    return fail(Code::kUnavailable, "Cannot evict pod as it would violate the pod's disruption budget.");
  evicted.push_back(name);
  pod["metadata"]["deletionTimestamp"] = "2027-01-15T09:00:00Z";
  bump(pod);
  changes_.emplace_back("pods", key);
  return std::string("{}");
}

Result<std::string> FakeApi::execute(const kube::Request& request) {
  const std::vector<std::string> parts = split(request.path.substr(0, request.path.find('?')));
  // /api/v1/namespaces/NS/RESOURCE[/NAME[/SUB]] or /apis/GROUP/VERSION/namespaces/NS/RESOURCE[/NAME[/SUB]]
  const size_t at = parts[0] == "api" ? 2 : 3;
  if (parts[1] == "heddle.dev" && parts.size() > 4 && parts[3] == "acceleratortopologies") {
    if (forbid_topologies) return fail(Code::kPermissionDenied, "forbidden");
    topology_conditions[parts[4]] = Json::parse(request.body)["status"]["conditions"][0];
    return std::string("{}");
  }
  if (parts[1] == "heddle.dev" && parts.size() > 4) return on_queues(parts[4], Json::parse(request.body));
  if (parts.size() < at + 3 || parts[at] != "namespaces") return fail(Code::kNotFound, "no such path " + request.path);
  const std::string& name_space = parts[at + 1];
  const std::string& resource = parts[at + 2];
  const std::string name = parts.size() > at + 3 ? parts[at + 3] : "";
  const std::string subresource = parts.size() > at + 4 ? parts[at + 4] : "";
  if (resource == "events") {
    events.push_back(Json::parse(request.body));
    return std::string("{}");
  }
  if (resource == "podtemplates" || (parts[1] == "autoscaling.x-k8s.io" && provisioning_versions.contains(parts[2])))
    return on_provisioning(request, resource, name);
  if (resource == "resourceclaims") return on_claims(request, name_space, name, subresource);
  if (resource == "pods") return on_pods(request, name_space + "/" + name, subresource);
  return fail(Code::kNotFound, "no such resource " + resource);
}

Result<std::string> FakeApi::put_status(Json& claim, const Json& wanted) {
  if (wanted["metadata"]["resourceVersion"] != claim["metadata"]["resourceVersion"])
    return fail(Code::kConflict, "changed");
  const Json before = claim["status"].value("allocation", Json());
  const Json after = wanted["status"].value("allocation", Json());
  if (!before.is_null() && !after.is_null() && before != after) {
    return fail(Code::kInvalidArgument, "status.allocation: field cannot be modified once set");
  }
  if (!after.is_null() && !after.contains("allocationTimestamp"))
    return fail(Code::kInvalidArgument, "no allocationTimestamp");
  const Json reserved = wanted["status"].value("reservedFor", Json::array());
  if (after.is_null() && !reserved.empty()) return fail(Code::kInvalidArgument, "reservedFor needs an allocation");
  claim["status"] = wanted["status"];
  return std::string();
}

Result<std::string> FakeApi::on_claims(const kube::Request& request, const std::string& name_space,
                                       const std::string& name, const std::string& subresource) {
  if (request.method == kube::Method::kPost) {
    Json claim = Json::parse(request.body);
    const std::string key = name_space + "/" + claim["metadata"]["name"].get<std::string>();
    if (claims_.contains(key)) return fail(Code::kAlreadyExists, key + " already exists");
    claim["metadata"]["uid"] = "claim-uid-" + std::to_string(++uids_);
    claim["metadata"]["namespace"] = name_space;
    claim["status"] = Json::object();
    bump(claim);
    changes_.emplace_back("claims", key);
    return (claims_[key] = claim).dump();
  }
  const std::string key = name_space + "/" + name;
  const auto it = claims_.find(key);
  if (it == claims_.end()) return not_found(key);
  Json& claim = it->second;
  if (request.method == kube::Method::kGet) return claim.dump();
  if (request.method == kube::Method::kDelete) {
    delete_claim(key);
    return std::string("{}");
  }
  if (request.method == kube::Method::kPut && subresource == "status") {
    auto put = put_status(claim, Json::parse(request.body));
    if (!put) return put;
  } else if (request.method == kube::Method::kPatch) {
    if (claim.contains("metadata") && !claim["metadata"].contains("finalizers")) claim["metadata"].erase("finalizers");
    try {
      claim = claim.patch(Json::parse(request.body));
    } catch (const Json::exception& error) {
      return fail(Code::kConflict, error.what());
    }
  } else {
    return fail(Code::kInvalidArgument, "method");
  }
  bump(claim);
  changes_.emplace_back("claims", key);
  const std::string answer = claim.dump();
  const Json& meta = claim["metadata"];
  if (meta.contains("deletionTimestamp") && meta.value("finalizers", Json::array()).empty()) claims_.erase(it);
  return answer;
}

void FakeApi::delete_claim(const std::string& key) {
  const auto it = claims_.find(key);
  if (it == claims_.end()) return;
  changes_.emplace_back("claims", key);
  if (it->second["metadata"].value("finalizers", Json::array()).empty()) {
    claims_.erase(it);
    return;
  }
  it->second["metadata"]["deletionTimestamp"] = "2027-01-15T09:00:00Z";
  bump(it->second);
}

Result<std::string> FakeApi::on_pods(const kube::Request& request, const std::string& key,
                                     const std::string& subresource) {
  const auto it = pods_.find(key);
  if (it == pods_.end()) return not_found(key);
  Json& pod = it->second;
  if (request.method == kube::Method::kGet) return pod.dump();
  const Json patch = Json::parse(request.body);
  if (subresource == "eviction") return evict(key, patch);
  if (patch["metadata"].value("uid", "") != pod["metadata"]["uid"].get<std::string>())
    return fail(Code::kConflict, "another pod of this name");
  if (subresource == "status") {
    const Json condition = patch["status"]["conditions"][0];
    Json& conditions = pod["status"]["conditions"];
    if (conditions.is_null()) conditions = Json::array();
    std::erase_if(conditions.get_ref<Json::array_t&>(),
                  [&](const Json& one) { return one["type"] == condition["type"]; });
    conditions.push_back(condition);
    pod["status"].merge_patch(patch["status"].contains("nominatedNodeName")
                                  ? Json{{"nominatedNodeName", patch["status"]["nominatedNodeName"]}}
                                  : Json::object());
  } else {
    const Json gate = patch["spec"]["schedulingGates"][0];
    if (gate["$patch"] != "delete") return fail(Code::kInvalidArgument, "patch");
    if (pod["spec"].contains("schedulingGates")) {
      std::erase_if(pod["spec"]["schedulingGates"].get_ref<Json::array_t&>(),
                    [&](const Json& one) { return one["name"] == gate["name"]; });
    }
  }
  bump(pod);
  changes_.emplace_back("pods", key);
  return pod.dump();
}

}  // namespace heddle::controller::testing
