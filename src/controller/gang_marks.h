// What a pod carries of a gang and that cannot be meant: said at admission, where the user sees it. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "dialects/translate.h"
#include "model/pod.h"

namespace heddle::controller {

// One line a trouble, with the field and what to write instead; empty: fine.
//   - marks of heddle.dev that say something of a gang, on a pod that is in none;
//   - a slice of a torus that its vendor does not sell, for devices of that vendor.
// requests: of the pod, translated. hardware: null: what is sold is not looked at.
std::vector<std::string> check_gang_marks(const model::Pod& pod,
                                          const std::vector<dialects::ContainerRequest>& requests,
                                          const catalog::Catalog* hardware);

}  // namespace heddle::controller
