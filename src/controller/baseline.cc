#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "controller/controller.h"

namespace heddle::controller {
namespace {

constexpr int kMajor = 1;
constexpr int kMinor = 36;

// The digits at the start: "37" of "37+".
std::optional<int> leading_number(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

}  // namespace

Result<void> check_version(std::string_view version_json) {
  const nlohmann::json version = parse_json(version_json);
  const auto text = [&](const char* name) {
    const bool there = version.is_object() && version.contains(name) && version[name].is_string();
    return there ? version[name].get<std::string>() : std::string();
  };
  const std::optional<int> major = leading_number(text("major"));
  const std::optional<int> minor = leading_number(text("minor"));
  if (!major || !minor) return fail(Code::kInvalidArgument, "the API server does not say its version");
  if (*major > kMajor || (*major == kMajor && *minor >= kMinor)) return {};
  return fail(
      Code::kUnsupported,
      fmt::format(
          "this cluster runs Kubernetes {}; Heddle needs {}.{} or later, where consumable capacity, partitionable "
          "devices and device taints are on by default",
          text("gitVersion").empty() ? fmt::format("{}.{}", *major, *minor) : text("gitVersion"), kMajor, kMinor));
}

Result<void> check_baseline(kube::Client& client) {
  kube::Request request;
  request.path = "/version";
  HEDDLE_TRY(const kube::Response version, client.call(request));
  HEDDLE_CHECK_OK(check_version(version.body));
  request.path = "/apis/resource.k8s.io/v1";
  const Result<kube::Response> served = client.call(request);
  if (served) return {};
  if (served.error().code != Code::kNotFound) return tl::unexpected<Error>(served.error());
  return fail(Code::kUnsupported,
              "the API server does not serve resource.k8s.io/v1; start it with the default runtime configuration");
}

}  // namespace heddle::controller
