// Dies that are built into one module, such as the two NPUs of an Ascend 910C: whole devices of the driver's own on one
// node with equal values of the attribute "module".
//
// A pod that asks for whole devices alone, by every request for as many as fill modules, gets modules that are whole,
// as the vendor's scheduler gives them: for it the dies of a module of which one is in use, or cannot be had, are none.
// Everything else may have any die, and takes those of broken modules first (close_together). Inside the engine only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "allocator/allocator.h"
#include "allocator/device.h"
#include "allocator/prepare.h"

namespace heddle::engine {

inline constexpr const char* kModuleAttribute = "module";

// The modules of a node. Borrowed from its pools.
struct Modules {
  int64_t dies = 0;                                              // of a whole one, at least 2; 0: the node has none
  std::vector<std::vector<const allocator::DeviceInfo*>> parts;  // by module, in the order of its first die
};

Modules modules_of(const std::vector<allocator::PoolView>& pools, const std::string& managed_driver);

// The requests of the claims, if all of them fill modules of so many dies; else nothing.
std::vector<const allocator::Alternative*> filling(const std::vector<allocator::PreparedClaim>& claims, int64_t dies);
// Dies of modules that these requests cannot have whole count as held, too.
allocator::Assumption whole_modules_only(const Modules& modules,
                                         const std::vector<const allocator::Alternative*>& asked,
                                         allocator::Assumption assumption);

}  // namespace heddle::engine
