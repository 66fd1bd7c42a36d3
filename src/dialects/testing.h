// What the tables of the dialects' tests share: the built-in rules, and a claim in one line.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "catalog/requests.h"
#include "dialects/translate.h"

namespace heddle::dialects::testing {

// Read once a program.
const catalog::Requests& rules();

using Texts = std::map<std::string, std::string>;

// A pod with the containers "main" (limits) and "other" (nothing).
std::string pod_json(const Texts& limits, const Texts& annotations = {}, const Texts& requests = {});

// "nvidia whole 1", "nvidia share 2 3000Mi cores=0 distinct", "nvidia partition 1 profile==1g.5gb", several with " + ";
// "nothing" without a claim; of a pod that is refused "refused <key or annotation>: <message>", several with " | ".
std::string said(const Texts& limits, const Texts& annotations = {}, const Texts& requests = {});

struct Row {
  const char* name;
  Texts limits;
  const char* expected;  // the whole of what is said; of a refusal its start up to "...", then a part of the message
  Texts annotations = {};
  Texts requests = {};
};
// Empty when the row holds, else what was said.
std::string check(const Row& row);

}  // namespace heddle::dialects::testing
