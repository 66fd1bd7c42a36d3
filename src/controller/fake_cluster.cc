#include "controller/fake_cluster.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "codec/codec.h"
#include "dialects/translate.h"

namespace heddle::controller::testing {
namespace {

constexpr const char* kNamespace = "default";
constexpr const char* kDriver = "accelerator.heddle.dev";

std::string key_of(const std::string& name) {
  return std::string(kNamespace) + "/" + name;
}

Json card(int index, int64_t memory_mib, const std::string& model) {
  const std::string memory = std::to_string(memory_mib) + "Mi";
  Json attributes{{"vendor", {{"string", "nvidia"}}}, {"uuid", {{"string", "GPU-" + std::to_string(index)}}}};
  if (!model.empty()) attributes["model"]["string"] = model;
  return {
      {"name", "gpu-" + std::to_string(index)},
      {"attributes", attributes},
      {"capacity",
       {{"memory",
         {{"value", memory},
          {"requestPolicy",
           {{"default", memory}, {"validRange", {{"min", "1Mi"}, {"step", "1Mi"}, {"max", memory}}}}}}},
        {"cores",
         {{"value", "100"},
          {"requestPolicy", {{"default", "100"}, {"validRange", {{"min", "0"}, {"step", "1"}, {"max", "100"}}}}}}}}},
      {"allowMultipleAllocations", true},
      {"taints", Json::array({{{"key", "heddle.dev/managed"}, {"effect", "NoSchedule"}}})}};
}

Json device_class(const char* name, const char* expression) {
  return {{"metadata", {{"name", name}}},
          {"spec", {{"selectors", Json::array({{{"cel", {{"expression", expression}}}}})}}}};
}

std::string claim_name(const Json& entry) {
  return entry.value("resourceClaimName", "");
}

}  // namespace

FakeCluster::FakeCluster()
    : rules_(std::make_shared<const catalog::Requests>(catalog::Requests::built_in().value())),
      log_("test", LogLevel::kError, clock, 2) {}

void FakeCluster::add_node(const std::string& name, int cards, int64_t memory_mib, const std::string& cpu,
                           const std::string& model, const std::string& rack) {
  Json devices = Json::array();
  for (int i = 0; i < cards; ++i) devices.push_back(card(i, memory_mib, model));
  put_node(name, cpu, kDriver, devices, rack);
}

void FakeCluster::add_foreign_node(const std::string& name, const std::string& driver, int devices) {
  Json list = Json::array();
  for (int i = 0; i < devices; ++i) list.push_back({{"name", "device-" + std::to_string(i)}});
  put_node(name, "64", driver, list, "");
}

void FakeCluster::put_node(const std::string& name, const std::string& cpu, const std::string& driver,
                           const Json& devices, const std::string& rack) {
  nodes_[name] = {{"metadata", {{"name", name}, {"labels", {{"kubernetes.io/hostname", name}}}}},
                  {"spec", Json::object()},
                  {"status",
                   {{"allocatable", {{"cpu", cpu}, {"memory", "256Gi"}, {"pods", "110"}}},
                    {"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}}}};
  const Json attributes = devices.empty() ? Json() : devices[0].value("attributes", Json::object());
  if (attributes.contains("model")) {
    nodes_[name]["metadata"]["labels"]["node.kubernetes.io/instance-type"] =
        "with-" + attributes["model"]["string"].get<std::string>();
  }
  if (!rack.empty()) nodes_[name]["metadata"]["labels"]["heddle.dev/rack"] = rack;
  slices_[name] = {{"metadata", {{"name", name + "-heddle-nvidia-0"}}},
                   {"spec",
                    {{"driver", driver},
                     {"nodeName", name},
                     {"pool", {{"name", name + "/nvidia"}, {"generation", 1}, {"resourceSliceCount", 1}}},
                     {"devices", devices}}}};
  if (!controller) return;
  controller->upsert_node(*codec::parse_node(nodes_[name].dump()));
  controller->upsert_slice(*codec::parse_slice(slices_[name].dump()));
}

void FakeCluster::label_node(const std::string& name, const std::string& key, const std::string& value) {
  nodes_.at(name)["metadata"]["labels"][key] = value;
  if (controller) controller->upsert_node(*codec::parse_node(nodes_.at(name).dump()));
}

void FakeCluster::remove_node(const std::string& name) {
  nodes_.erase(name);
  if (controller) controller->remove_node(name);
}

void FakeCluster::remove_slices(const std::string& node) {
  slices_.erase(node);
  if (controller) controller->remove_slice(node + "-heddle-nvidia-0");
}

void FakeCluster::put_taint_rule(const std::string& name, const std::string& node, const std::string& device,
                                 const std::string& effect) {
  taint_rules_[name] =
      *codec::parse_taint_rule(Json{{"metadata", {{"name", name}}},
                                    {"spec",
                                     {{"deviceSelector", {{"pool", node + "/nvidia"}, {"device", device}}},
                                      {"taint", {{"key", "example.com/" + name}, {"effect", effect}}}}}}
                                   .dump());
  if (controller) controller->upsert_taint_rule(taint_rules_[name]);
}

void FakeCluster::delete_taint_rule(const std::string& name) {
  taint_rules_.erase(name);
  if (controller) controller->remove_taint_rule(name);
}

void FakeCluster::create_pod(const std::string& name, const Json& limits, const Json& extra_spec) {
  create_pod(name, std::vector<Json>{limits}, extra_spec);
}

void FakeCluster::create_member(const std::string& name, int size, const Json& marks) {
  Json annotations{{"heddle.dev/gang", "g"}, {"heddle.dev/gang-size", std::to_string(size)}};
  annotations.update(marks);
  create_pod(name, std::vector<Json>{{{"nvidia.com/gpu", "1"}}}, Json::object(), annotations);
}

void FakeCluster::create_pod(const std::string& name, const std::vector<Json>& limits_by_container,
                             const Json& extra_spec, const Json& annotations) {
  Json pod{{"apiVersion", "v1"},
           {"kind", "Pod"},
           {"metadata", {{"name", name}, {"namespace", kNamespace}}},
           {"spec", extra_spec}};
  if (!annotations.empty()) pod["metadata"]["annotations"] = annotations;
  for (size_t i = 0; i < limits_by_container.size(); ++i) {
    pod["spec"]["containers"].push_back(
        {{"name", fmt::format("c{}", i)},
         {"image", "x"},
         {"resources", {{"limits", limits_by_container[i]}, {"requests", limits_by_container[i]}}}});
  }
  const auto translation =
      dialects::translate_pod(*rules_, pod.dump(), fmt::format("{:010x}-uid", api.pods().size() + 1));
  if (translation && translation->changed) pod = pod.patch(Json::parse(translation->json_patch));
  api.put_pod(std::move(pod));
}

void FakeCluster::create_queued_pod(const std::string& name, const std::string& queue, const Json& limits,
                                    const Json& extra_spec) {
  create_pod(name, limits, extra_spec);
  Json& meta = api.pod(key_of(name))["metadata"];
  meta["labels"]["heddle.dev/queue"] = queue;
  meta["creationTimestamp"] = format_rfc3339(clock.now());
}

void FakeCluster::create_queued_member(const std::string& name, const std::string& gang, int size,
                                       const std::string& queue, const Json& marks, const Json& extra_spec) {
  Json annotations{{"heddle.dev/gang", gang}, {"heddle.dev/gang-size", std::to_string(size)}};
  annotations.update(marks);
  create_pod(name, std::vector<Json>{{{"nvidia.com/gpu", "1"}}}, extra_spec, annotations);
  Json& meta = api.pod(key_of(name))["metadata"];
  meta["labels"]["heddle.dev/queue"] = queue;
  meta["creationTimestamp"] = format_rfc3339(clock.now());
}

void FakeCluster::create_claim_pod(const std::string& name, const std::vector<std::string>& claims) {
  Json pod{{"metadata", {{"name", name}, {"namespace", kNamespace}}},
           {"spec", {{"containers", Json::array({{{"name", "c"}}})}}}};
  for (const std::string& claim : claims) {
    pod["spec"]["resourceClaims"].push_back({{"name", claim}, {"resourceClaimName", claim}});
    pod["spec"]["containers"][0]["resources"]["claims"].push_back(Json::object({{"name", claim}}));
  }
  api.put_pod(std::move(pod));
}

void FakeCluster::create_user_claim(const std::string& name, const Json& exactly) {
  kube::Request request;
  request.method = kube::Method::kPost;
  request.path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
  request.body = Json{{"metadata", {{"name", name}}},
                      {"spec", {{"devices", {{"requests", Json::array({{{"name", "r"}, {"exactly", exactly}}})}}}}}}
                     .dump();
  (void)api.execute(request);
}

void FakeCluster::delete_pod(const std::string& name) {
  api.delete_pod(key_of(name));
}

void FakeCluster::finish_pod(const std::string& name) {
  api.pod(key_of(name))["status"]["phase"] = "Succeeded";
  api.bump(api.pod(key_of(name)));
  api.collect_garbage();
  deliver();
  if (controller) controller->upsert_pod(*codec::parse_pod(api.pod(key_of(name)).dump()));
}

void FakeCluster::upsert_quota(const std::string& name, std::map<std::string, int64_t> hard,
                               std::vector<QuotaTerm> terms) {
  quotas_[name] = Quota{kNamespace, name, std::move(hard), std::move(terms)};
  if (controller) controller->upsert_quota(quotas_[name]);
}

void FakeCluster::serve_gang_kinds(std::set<std::string> kinds) {
  gang_kinds_ = std::move(kinds);
  if (controller) controller->see_gang_kinds(gang_kinds_);
}

void FakeCluster::put_gang_object(const Json& object) {
  const GangObject gang = parse_gang_object(object.dump()).value().value();
  gang_objects_[gang.key] = gang;
  if (controller) controller->upsert_gang_object(gang);
}

void FakeCluster::delete_gang_object(const std::string& key) {
  gang_objects_.erase(key);
  if (controller) controller->remove_gang_object(key);
}

void FakeCluster::put_topology(const std::string& name, const std::string& created, const std::string& level,
                               const std::string& label, const Json& more) {
  Json only{{"name", level}, {"nodeLabel", label}};
  only.update(more);
  topologies_[name] =
      Json{{"metadata", {{"name", name}, {"creationTimestamp", created}}}, {"spec", {{"levels", Json::array({only})}}}}
          .dump();
  if (controller) controller->upsert_topology(*engine::read_topology_object(topologies_[name]));
}

void FakeCluster::delete_topology(const std::string& name) {
  topologies_.erase(name);
  if (controller) controller->remove_topology(name);
}

namespace {

template <typename Objects, typename Use>
void each(const Objects& objects, ListOrder order, const Use& use) {
  if (order == ListOrder::kByName) {
    for (auto it = objects.begin(); it != objects.end(); ++it) use(it->second);
  } else {
    for (auto it = objects.rbegin(); it != objects.rend(); ++it) use(it->second);
  }
}

}  // namespace

void FakeCluster::start_controller(ListOrder order) {
  ReconcilerOptions options;
  options.rules = rules_;
  options.seed = ++incarnation_;
  options.managed_drivers = managed_drivers;
  options.provisioning_class = provisioning_class;
  controller = std::make_unique<Reconciler>(options, clock, log_);
  (void)api.take_changes();
  controller->upsert_class(
      *codec::parse_class(device_class("heddle", R"(device.driver == "accelerator.heddle.dev")").dump()));
  controller->upsert_class(*codec::parse_class(
      device_class(
          "heddle-nvidia",
          R"(device.driver == "accelerator.heddle.dev" && device.attributes["accelerator.heddle.dev"].vendor == "nvidia")")
          .dump()));
  for (const auto& [name, selector] : classes) {
    controller->upsert_class(*codec::parse_class(device_class(name.c_str(), selector.c_str()).dump()));
  }
  each(nodes_, order, [&](const Json& node) { controller->upsert_node(*codec::parse_node(node.dump())); });
  each(slices_, order, [&](const Json& slice) { controller->upsert_slice(*codec::parse_slice(slice.dump())); });
  for (const auto& [name, rule] : taint_rules_) controller->upsert_taint_rule(rule);
  for (const auto& [name, quota] : quotas_) controller->upsert_quota(quota);
  for (const auto& [name, queue] : api.queues) controller->upsert_queue(*read_queue_object(queue.dump()));
  for (const auto& [name, json] : topologies_) controller->upsert_topology(*engine::read_topology_object(json));
  controller->see_gang_kinds(gang_kinds_);
  for (const auto& [key, gang] : gang_objects_) controller->upsert_gang_object(gang);
  each(api.pods(), order, [&](const Json& pod) { controller->upsert_pod(*codec::parse_pod(pod.dump())); });
  each(api.claims(), order, [&](const Json& claim) { controller->upsert_claim(*codec::parse_claim(claim.dump())); });
  controller->lead();
}

void FakeCluster::deliver() {
  for (const auto& [resource, key] : api.take_changes()) {
    if (!controller) continue;
    if (resource == "pods") {
      const auto it = api.pods().find(key);
      if (it == api.pods().end()) {
        controller->remove_pod(key, {});
      } else {
        controller->upsert_pod(*codec::parse_pod(it->second.dump()));
      }
    } else if (resource == "queues") {
      const auto it = api.queues.find(key);
      if (it == api.queues.end()) {
        controller->remove_queue(key);
      } else {
        controller->upsert_queue(*read_queue_object(it->second.dump()));
      }
    } else {
      const auto it = api.claims().find(key);
      if (it == api.claims().end()) {
        controller->remove_claim(key, {});
      } else {
        controller->upsert_claim(*codec::parse_claim(it->second.dump()));
      }
    }
  }
}

// Before the gate of a member goes, enough members have all their claims written.
void FakeCluster::check_gang(const Json& pod) {
  const Json marks = pod["metadata"].value("annotations", Json::object());
  if (!marks.contains("heddle.dev/gang")) return;
  const int needed =
      std::stoi(marks.value("heddle.dev/gang-minimum", marks.value("heddle.dev/gang-size", std::string("1"))));
  int whole = 0;
  for (const auto& [key, other] : api.pods()) {
    const Json theirs = other["metadata"].value("annotations", Json::object());
    if (theirs.value("heddle.dev/gang", "") != marks.value("heddle.dev/gang", "")) continue;
    const Json entries = other["spec"].value("resourceClaims", Json::array());
    whole += std::all_of(entries.begin(), entries.end(), [&](const Json& entry) {
      const auto claim = api.claims().find(key_of(claim_name(entry)));
      return claim != api.claims().end() && claim->second["status"].contains("allocation");
    });
  }
  if (whole < needed)
    early_.push_back(fmt::format("{} starts while {} of {} members have devices",
                                 pod["metadata"]["name"].get<std::string>(), whole, needed));
}

void FakeCluster::perform(const Write& write) {
  if (write.kind == WriteKind::kUngatePod) {
    const std::string name = write.request.path.substr(write.request.path.rfind('/') + 1);
    if (api.pods().contains(key_of(name))) check_gang(api.pods().at(key_of(name)));
  }
  const uint64_t number = is_telling(write.kind) || is_read(write.kind) ? 0 : ++writes;
  const Fault what = fault ? fault(write, number) : Fault::kNone;
  switch (what) {
    case Fault::kCrashBefore:
      ++crashes;
      return start_controller();
    case Fault::kCrashAfter:
      ++crashes;
      (void)api.execute(write.request);
      return start_controller();
    case Fault::kConflict:
      return controller->finish(write.id, fail(Code::kConflict, "the object has been modified"));
    case Fault::kForbidden:
      return controller->finish(write.id, fail(Code::kPermissionDenied, "forbidden by policy"));
    case Fault::kQuota:
      return controller->finish(write.id, fail(Code::kPermissionDenied, "exceeded quota: q"));
    case Fault::kUnavailable:
      return controller->finish(write.id, fail(Code::kUnavailable, "no connection"));
    case Fault::kLostRequest:
      return controller->finish(write.id, fail(Code::kDeadlineExceeded, "no answer"));
    case Fault::kLostAnswer:
      (void)api.execute(write.request);
      return controller->finish(write.id, fail(Code::kDeadlineExceeded, "no answer"));
    case Fault::kLateAnswer:
      late_.emplace_back(write.id, api.execute(write.request));
      return;
    case Fault::kNone:
      break;
  }
  controller->finish(write.id, api.execute(write.request));
}

void FakeCluster::deliver_late() {
  for (auto& [id, answer] : std::exchange(late_, {})) controller->finish(id, std::move(answer));
}

void FakeCluster::settle(Duration ahead) {
  const int64_t until = clock.monotonic_nanos() + ahead.nanos;
  for (int round = 0; round < 10000; ++round) {
    deliver();
    if (controller->gang_look_due()) {
      controller->begin_gang_look();
      controller->see_gang_kinds(gang_kinds_);
    }
    const std::vector<Write> writes_now = controller->run();
    const uint64_t crashes_before = crashes;
    for (const Write& write : writes_now) {
      perform(write);
      if (crashes != crashes_before) break;  // the others died with the process
    }
    if (!writes_now.empty()) continue;
    const auto timer = controller->next_timer_nanos();
    if (!timer || *timer > until) return;
    clock.advance({std::max<int64_t>(*timer - clock.monotonic_nanos(), 0)});
  }
  ADD_FAILURE() << "this never ends";
}

bool FakeCluster::schedule() {
  std::vector<std::string> leaving;
  for (const auto& [key, pod] : api.pods()) {
    if (pod["metadata"].contains("deletionTimestamp")) leaving.push_back(key);
  }
  for (const std::string& key : leaving) api.delete_pod(key);
  bool changed = !leaving.empty();
  for (const auto& [key, const_pod] : api.pods()) {
    Json& pod = api.pod(key);
    const Json gates = pod["spec"].value("schedulingGates", Json::array());
    if (!gates.empty() || pod["spec"].contains("nodeName") || pod["status"]["phase"] != "Pending") continue;
    std::string node;
    bool ready = true;
    std::vector<std::string> keys;
    for (const Json& entry : pod["spec"].value("resourceClaims", Json::array())) {
      const std::string claim_key = key_of(claim_name(entry));
      const bool allocated = api.has_claim(claim_key) && api.claim(claim_key)["status"].contains("allocation");
      ready = ready && allocated;
      if (!allocated) break;
      node = api.claim(
          claim_key)["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"][0];
      keys.push_back(claim_key);
    }
    if (!ready || node.empty()) continue;
    changed = true;
    if (full.contains(node)) {
      api.clear_allocation(keys.back());
      continue;
    }
    pod["spec"]["nodeName"] = node;
    api.bump(pod);
    if (controller) controller->upsert_pod(*codec::parse_pod(pod.dump()));
  }
  return changed;
}

void FakeCluster::run(Duration ahead) {
  for (int round = 0; round < 100; ++round) {
    settle(ahead);
    if (!schedule()) return;
  }
  ADD_FAILURE() << "this never ends";
}

std::vector<std::string> FakeCluster::violations() const {
  std::vector<std::string> out = early_;
  std::map<std::string, std::pair<int64_t, int64_t>> used;  // device -> MiB, cores
  std::set<std::string> whole;                              // devices of other drivers
  for (const auto& [key, claim] : api.claims()) {
    const auto parsed = codec::parse_claim(claim.dump());
    if (!parsed) {
      out.push_back("claim " + key + " cannot be read");
      continue;
    }
    if (parsed->allocation) {
      for (const model::DeviceResult& result : parsed->allocation->results) {
        if (result.driver != kDriver) {
          if (!whole.insert(result.pool + "/" + result.device).second)
            out.push_back(result.pool + "/" + result.device + " is held twice");
          continue;
        }
        auto& [memory, cores] = used[result.pool + "/" + result.device];
        memory += result.consumed_capacity.at("memory").value().value_or(0) >> 20;
        cores += result.consumed_capacity.at("cores").value().value_or(0);
      }
    }
    if (parsed->meta.owners.empty()) continue;
    const auto owner = api.pods().find(parsed->meta.name_space + "/" + parsed->meta.owners[0].name);
    if (owner == api.pods().end() || owner->second["metadata"]["uid"] != parsed->meta.owners[0].uid) {
      out.push_back("claim " + key + " is left over");
    }
  }
  for (const auto& [device, sums] : used) {
    const Json& slice = slices_.at(device.substr(0, device.find('/')));
    const auto capacity =
        codec::parse_slice(slice.dump())->devices[0].capacity.at("memory").value.value().value_or(0) >> 20;
    if (sums.first > capacity || sums.second > 100)
      out.push_back(fmt::format("{}: {} MiB, {} %", device, sums.first, sums.second));
  }
  for (const auto& [key, pod] : api.pods()) {
    const Json gates = pod["spec"].value("schedulingGates", Json::array());
    if (!gates.empty() || pod["status"].value("phase", "") != "Pending" || !full.empty()) continue;
    if (!pod["metadata"].value("annotations", Json::object()).contains("heddle.dev/request")) continue;
    for (const Json& entry : pod["spec"].value("resourceClaims", Json::array())) {
      const auto claim = api.claims().find(key_of(claim_name(entry)));
      const bool allocated = claim != api.claims().end() && claim->second["status"].contains("allocation");
      if (!allocated) out.push_back("pod " + key + " has lost its gate before its claim");
    }
  }
  return out;
}

std::string FakeCluster::node_of(const std::string& pod) const {
  return api.pods().at(key_of(pod))["spec"].value("nodeName", "");
}

bool FakeCluster::gated(const std::string& pod) const {
  return !api.pods().at(key_of(pod))["spec"].value("schedulingGates", Json::array()).empty();
}

Json FakeCluster::condition(const std::string& pod) const {
  const Json conditions = api.pods().at(key_of(pod))["status"].value("conditions", Json::array());
  for (const Json& one : conditions) {
    if (one["type"] == "heddle.dev/Allocated") return one;
  }
  return nullptr;
}

std::vector<std::string> FakeCluster::event_reasons() const {
  std::vector<std::string> out;
  out.reserve(api.events.size());
  for (const Json& event : api.events) out.push_back(event["reason"]);
  return out;
}

void live_with_a_fault_at_every_write(Fault fault, const Life& life, uint64_t least_writes) {
  uint64_t total = 0;
  for (uint64_t at = 1; total == 0 || at <= total; ++at) {
    SCOPED_TRACE(fmt::format("fault {} at write {}", static_cast<int>(fault), at));
    FakeCluster cluster;
    life.prepare(cluster);
    const uint64_t before = cluster.writes;
    cluster.fault = [&](const Write&, uint64_t number) { return number == before + at ? fault : Fault::kNone; };
    life.act(cluster);
    life.expect(cluster);
    for (const std::string& violation : cluster.violations()) ADD_FAILURE() << violation;
    if (total == 0) total = cluster.writes - before;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GE(total, least_writes);
}

}  // namespace heddle::controller::testing
