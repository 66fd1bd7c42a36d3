#include "controller/uninstall.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "codec/codec.h"
#include "controller/objects.h"
#include "dialects/wire_names.h"
#include "kube/paths.h"

namespace heddle::controller {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kConfiguration = "heddle";

bool ours(const model::ResourceClaim& claim) {
  if (claim.meta.labels.contains(std::string(dialects::kManagedLabel))) return true;
  return claim.allocation &&
         std::any_of(claim.allocation->results.begin(), claim.allocation->results.end(),
                     [](const model::DeviceResult& result) { return result.driver == dialects::kDriver; });
}

bool has_finalizer(const model::ResourceClaim& claim) {
  const auto& all = claim.meta.finalizers;
  return std::find(all.begin(), all.end(), kProtectionFinalizer) != all.end();
}

kube::Request remove_object(std::string path) {
  kube::Request request;
  request.method = kube::Method::kDelete;
  request.path = std::move(path);
  return request;
}

// Drops the finalizer whatever the version is by then: the status was written just before.
kube::Request drop_finalizer(const model::ResourceClaim& claim) {
  Json left = Json::array();
  for (const std::string& name : claim.meta.finalizers) {
    if (name != kProtectionFinalizer) left.push_back(name);
  }
  kube::Request request;
  request.method = kube::Method::kPatch;
  request.path = kube::resource_claim_path(claim.meta.name_space, claim.meta.name);
  request.content_type = kube::kMergePatch;
  request.body = dump_json(Json{{"metadata", {{"uid", claim.meta.uid}, {"finalizers", left}}}});
  return request;
}

void plan_claim(const model::ResourceClaim& claim, const std::set<std::string>& running, UninstallPlan& plan) {
  const std::string object = "claim " + claim.meta.key();
  const auto user =
      std::find_if(claim.reserved_for.begin(), claim.reserved_for.end(),
                   [&](const model::ConsumerReference& consumer) { return running.contains(consumer.uid); });
  if (user != claim.reserved_for.end()) {
    plan.remarks.push_back(object + " is in use by pod " + user->name + "; it is freed when the pod ends");
    return;
  }
  if (claim.allocation) {
    model::ResourceClaim without = claim;
    without.allocation.reset();
    without.reserved_for.clear();
    plan.steps.push_back({object, "clear the allocation", put_claim_status(without)});
  }
  if (has_finalizer(claim)) plan.steps.push_back({object, "remove the finalizer", drop_finalizer(claim)});
}

// Every object of a collection, through `use`.
Result<void> read_all(kube::Client& client, kube::ResourceType type,
                      const std::function<Result<void>(const std::string&)>& use) {
  std::string token;
  do {
    kube::Request request;
    request.path =
        kube::collection_path(type) + "?limit=500" + (token.empty() ? "" : "&continue=" + kube::url_escape(token));
    HEDDLE_TRY(const kube::Response page, client.call(request));
    const Json list = parse_json(page.body);
    if (!list.is_object() || !list.contains("items") || !list["items"].is_array())
      return fail(Code::kInternal, "no list came back");
    for (const Json& item : list["items"]) HEDDLE_CHECK_OK(use(dump_json(item)));
    token = list.value("metadata", Json::object()).value("continue", "");
  } while (!token.empty());
  return {};
}

}  // namespace

UninstallPlan plan_uninstall(const ClusterObjects& objects) {
  UninstallPlan plan;
  for (const std::string& path : objects.webhook_configurations) {
    plan.steps.push_back({"webhook configuration " + std::string(kConfiguration), "delete", remove_object(path)});
  }
  std::set<std::string> running;
  for (const model::Pod& pod : objects.pods) {
    if (!pod.node_name.empty() && !pod.finished()) running.insert(pod.meta.uid);
    const auto& gates = pod.scheduling_gates;
    if (std::find(gates.begin(), gates.end(), dialects::kGate) == gates.end()) continue;
    plan.steps.push_back({"pod " + pod.meta.key(), "remove the scheduling gate", ungate_pod(pod)});
    plan.remarks.push_back("pod " + pod.meta.key() +
                           " names claims that nobody will make any more; create it again without Heddle");
  }
  for (const model::ResourceClaim& claim : objects.claims) {
    if (ours(claim)) plan_claim(claim, running, plan);
  }
  for (const model::ResourceSlice& slice : objects.slices) {
    if (slice.driver != dialects::kDriver) continue;
    plan.steps.push_back({"resource slice " + slice.meta.name, "delete, and with it the taints of its devices",
                          remove_object(kube::resource_slice_path(slice.meta.name))});
  }
  return plan;
}

Result<ClusterObjects> read_cluster(kube::Client& client) {
  ClusterObjects out;
  HEDDLE_CHECK_OK(read_all(client, kube::kPods, [&](const std::string& text) -> Result<void> {
    HEDDLE_TRY(model::Pod pod, codec::parse_pod(text));
    out.pods.push_back(std::move(pod));
    return {};
  }));
  HEDDLE_CHECK_OK(read_all(client, kube::kResourceClaims, [&](const std::string& text) -> Result<void> {
    HEDDLE_TRY(model::ResourceClaim claim, codec::parse_claim(text));
    out.claims.push_back(std::move(claim));
    return {};
  }));
  HEDDLE_CHECK_OK(read_all(client, kube::kResourceSlices, [&](const std::string& text) -> Result<void> {
    HEDDLE_TRY(model::ResourceSlice slice, codec::parse_slice(text));
    out.slices.push_back(std::move(slice));
    return {};
  }));
  for (const kube::ResourceType type : {kube::kMutatingWebhooks, kube::kValidatingWebhooks}) {
    kube::Request request;
    request.path = kube::object_path(type, {}, kConfiguration);
    const auto there = client.call(request);
    if (there) out.webhook_configurations.push_back(request.path);
    if (!there && there.error().code != Code::kNotFound) return tl::unexpected<Error>(there.error());
  }
  return out;
}

std::vector<std::string> carry_out(kube::Client& client, const UninstallPlan& plan) {
  std::vector<std::string> troubles;
  for (const UninstallStep& step : plan.steps) {
    const auto done = client.call(step.request);
    if (done || done.error().code == Code::kNotFound) continue;
    troubles.push_back(step.object + ": " + step.action + ": " + done.error().text());
  }
  return troubles;
}

}  // namespace heddle::controller
