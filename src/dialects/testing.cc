#include "dialects/testing.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "dialects/claim_form.h"

namespace heddle::dialects::testing {
namespace {

std::string selector_words(const Selector& selector) {
  const std::string values = fmt::format("{}", fmt::join(selector.values, ","));
  switch (selector.op) {
    case Selector::Op::kEquals:
      return selector.attribute + "==" + values;
    case Selector::Op::kIn:
      return selector.attribute + " in " + values;
    case Selector::Op::kNotIn:
      return selector.attribute + " not in " + values;
    case Selector::Op::kStartsWithAny:
      return selector.attribute + " starts " + values;
    case Selector::Op::kPairIn:
      return "model|profile in " + values;
    case Selector::Op::kContainsAny:
      return selector.prefix + selector.attribute + " has " + values;
    case Selector::Op::kContainsNone:
      return selector.prefix + selector.attribute + " has no " + values;
  }
  return {};
}

std::string words(const Ask& ask) {
  constexpr const char* kKinds[] = {"whole", "share", "partition", "template"};
  std::string out = fmt::format("{} {} {}", ask.vendor, kKinds[static_cast<int>(ask.kind)], ask.count);
  if (ask.memory_mib > 0) out += fmt::format(" {}Mi", ask.memory_mib);
  if (ask.percent > 0) out += fmt::format(" {}%", ask.percent);
  if (ask.kind == Ask::Kind::kShare) out += fmt::format(" cores={}", ask.cores);
  if (ask.mps) out += " mps";
  for (const Selector& selector : ask.selectors) out += " [" + selector_words(selector) + "]";
  return out;
}

std::string words(const ClaimForm& form) {
  std::string out;
  for (const Ask& ask : form.asks) out += (out.empty() ? "" : " + ") + words(ask);
  return form.one_numa_node ? out + " one-numa" : out;
}

}  // namespace

const catalog::Requests& rules() {
  static const catalog::Requests rules = catalog::Requests::built_in().value();
  return rules;
}

std::string pod_json(const Texts& limits, const Texts& annotations, const Texts& requests) {
  nlohmann::json container = nlohmann::json::object({{"name", "main"}, {"image", "app"}});
  container["resources"]["limits"] = limits;
  if (!requests.empty()) container["resources"]["requests"] = requests;
  nlohmann::json pod = nlohmann::json::object({{"apiVersion", "v1"}, {"kind", "Pod"}});
  pod["metadata"]["name"] = "p";
  pod["metadata"]["annotations"] = annotations;
  pod["spec"]["containers"] = nlohmann::json::array();
  pod["spec"]["containers"].push_back(std::move(container));
  pod["spec"]["containers"].push_back(nlohmann::json::object({{"name", "other"}}));
  return pod.dump();
}

std::string said(const Texts& limits, const Texts& annotations, const Texts& requests) {
  const auto out = translate_pod(rules(), pod_json(limits, annotations, requests), "0123456789");
  if (!out) return "error " + out.error().text();
  std::string text;
  for (const Refusal& refusal : out->refusals) {
    const size_t start = refusal.field.find('[', refusal.field.find("resources"));
    std::string key = refusal.field.starts_with("spec") && start != std::string::npos ? refusal.field.substr(start + 1)
                                                                                      : refusal.field;
    if (key.starts_with("metadata.annotations[")) key = "@" + key.substr(21);
    if (key.ends_with(']')) key.pop_back();
    text += fmt::format("{}refused {}: {}", text.empty() ? "" : " | ", key, refusal.message);
  }
  if (!text.empty()) return text;
  for (const ContainerRequest& request : out->requests) {
    const auto form = read_claim_form(request.spec);
    if (!form) return "no known form";
    text += fmt::format("{}{}{}", text.empty() ? "" : " ; ",
                        request.container == "main" ? "" : request.container + ": ", words(*form));
  }
  return text.empty() ? "nothing" : text;
}

std::string check(const Row& row) {
  const std::string got = said(row.limits, row.annotations, row.requests);
  const std::string expected = row.expected;
  const size_t dots = expected.find("...");
  const bool holds = dots == std::string::npos ? got == expected
                                               : got.starts_with(expected.substr(0, dots)) &&
                                                     got.find(expected.substr(dots + 3)) != std::string::npos;
  return holds ? std::string() : got;
}

}  // namespace heddle::dialects::testing
