// The canonical form of heddle.dev/request.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "base/json_text.h"
#include "codec/codec.h"
#include "dialects/claim_form.h"
#include "dialects/names.h"
#include "dialects/translate.h"
#include "dialects/wire_names.h"

namespace heddle::dialects {
namespace {

using Json = nlohmann::json;

Result<std::string> read_text(const Json& object, const char* name, const std::string& path) {
  const auto it = object.find(name);
  if (it == object.end() || !it->is_string())
    return fail(Code::kInvalidArgument, "must be a string", path + "." + name);
  return it->get<std::string>();
}

// Text for people; short, because it is copied into claims and events.
Result<std::vector<std::string>> read_roundings(const Json& object, const std::string& path) {
  constexpr size_t kMost = 64;  // two a request, and a claim has at most 32
  constexpr size_t kLongest = 512;
  std::vector<std::string> out;
  const auto it = object.find("roundings");
  if (it == object.end()) return out;
  const bool list = it->is_array() && it->size() <= kMost;
  for (size_t i = 0; list && i < it->size(); ++i) {
    const Json& text = (*it)[i];
    if (!text.is_string() || text.get_ref<const std::string&>().size() > kLongest) break;
    out.push_back(text.get<std::string>());
  }
  if (!list || out.size() != it->size())
    return fail(Code::kInvalidArgument, "must be a few short texts", path + ".roundings");
  return out;
}

Result<ContainerRequest> parse_one(const Json& object, const std::string& path) {
  if (!object.is_object()) return fail(Code::kInvalidArgument, "must be an object", path);
  ContainerRequest request;
  HEDDLE_TRY(request.container, read_text(object, "container", path));
  HEDDLE_TRY(request.claim_ref, read_text(object, "claimRef", path));
  HEDDLE_TRY(request.claim_name, read_text(object, "claimName", path));
  if (const auto it = object.find("init"); it != object.end()) {
    if (!it->is_boolean()) return fail(Code::kInvalidArgument, "must be true or false", path + ".init");
    request.init = it->get<bool>();
  }
  for (const std::string* name : {&request.container, &request.claim_ref, &request.claim_name}) {
    if (!is_dns_label(*name)) return fail(Code::kInvalidArgument, "\"" + *name + "\" is no DNS label", path);
  }
  const auto spec = object.find("spec");
  if (spec == object.end() || !spec->is_object())
    return fail(Code::kInvalidArgument, "must be an object", path + ".spec");
  HEDDLE_TRY(request.spec, codec::parse_claim_spec(spec->dump()));
  // What the annotation says must never be worth more than the resources that a user may write in a container.
  if (!read_claim_form(request.spec))
    return fail(Code::kInvalidArgument, "is not the claim of a translated request", path + ".spec");
  HEDDLE_TRY(request.roundings, read_roundings(object, path));
  return request;
}

// One claim may serve several containers (init steps that ask for the same), then all its entries are the same claim.
Result<void> check_together(const std::vector<ContainerRequest>& requests) {
  std::set<std::string> containers;
  std::map<std::string, const ContainerRequest*> refs;
  std::map<std::string, const ContainerRequest*> names;
  for (const ContainerRequest& request : requests) {
    if (!containers.insert(request.container).second) {
      return fail(Code::kInvalidArgument, "container " + request.container + " appears twice");
    }
    const ContainerRequest* by_ref = refs.emplace(request.claim_ref, &request).first->second;
    const ContainerRequest* by_name = names.emplace(request.claim_name, &request).first->second;
    const bool same = by_ref->claim_name == request.claim_name && by_name->claim_ref == request.claim_ref &&
                      by_ref->spec == request.spec;
    if (!same) return fail(Code::kInvalidArgument, "claim " + request.claim_name + " is described in two ways");
  }
  return {};
}

}  // namespace

// Written by hand: the webhook waits for it.
std::string requests_json(const std::vector<ContainerRequest>& requests) {
  std::string out = "[";
  const auto text = [&](const char* key, const std::string& value) {
    out += key;
    append_json_string(out, value);
  };
  for (const ContainerRequest& request : requests) {
    text(out.size() == 1 ? "{\"claimName\":" : ",{\"claimName\":", request.claim_name);
    text(",\"claimRef\":", request.claim_ref);
    text(",\"container\":", request.container);
    if (request.init) out += ",\"init\":true";
    for (size_t i = 0; i < request.roundings.size(); ++i) text(i == 0 ? ",\"roundings\":[" : ",", request.roundings[i]);
    if (!request.roundings.empty()) out += ']';
    out += ",\"spec\":" + codec::claim_spec_json(request.spec) + '}';
  }
  return out + ']';
}

Result<std::vector<ContainerRequest>> parse_requests(std::string_view json) {
  const Json document = parse_json(json);
  if (!document.is_array())
    return fail(Code::kInvalidArgument, fmt::format("must be a JSON array, nested no deeper than {}", kMaxJsonDepth),
                std::string(kRequestAnnotation));
  if (document.empty()) return fail(Code::kInvalidArgument, "is empty", std::string(kRequestAnnotation));
  std::vector<ContainerRequest> requests;
  for (size_t i = 0; i < document.size(); ++i) {
    HEDDLE_TRY(ContainerRequest request, parse_one(document[i], fmt::format("{}[{}]", kRequestAnnotation, i)));
    requests.push_back(std::move(request));
  }
  HEDDLE_CHECK_OK(check_together(requests));
  return requests;
}

}  // namespace heddle::dialects
