// For tests: what translation leaves on a pod.
#pragma once

#include <string>

#include "catalog/requests.h"
#include "dialects/translate.h"

namespace heddle::controller::testing {

// The annotation heddle.dev/request of a pod with one container that asks for so many whole Ascend NPUs.
inline std::string npu_request(int count) {
  const std::string pod =
      R"({"metadata":{"name":"p","namespace":"ns"},"spec":{"containers":[{"name":"main","resources":{"limits":)"
      R"({"huawei.com/Ascend910":)" +
      std::to_string(count) + "}}}]}}";
  const auto rules = catalog::Requests::built_in();
  return dialects::requests_json(dialects::translate_pod(rules.value(), pod, "u")->requests);
}

}  // namespace heddle::controller::testing
