// The first use of a device by a process makes its context, which takes memory; the last reset frees all that the
// process has on it.
#include "guard/preload/ascend/driver.h"
#include "guard/preload/device_clock.h"
#include "guard/preload/launch.h"

namespace heddle::guard {
namespace {

template <typename Call>
int set_device(int32_t device, Call call) {
  const int rule = rule_of(device);
  if (!accounted(rule)) return call();
  AscendProcess& own = ascend_process();
  const Lock lock(own.device_lock);
  // From here on the driver shows this process on the device, and the ledger has to name it (agent/witness.h), also
  // where nothing is charged for a context.
  own_slot();
  const uint64_t pages = own.uses[rule] == 0 ? pages_of(config().devices[rule].context_bytes) : 0;
  if (!charge(rule, pages)) return kOutOfMemory;
  const int result = call();
  if (result != ACL_SUCCESS) {
    uncharge(rule, pages);
    return result;
  }
  ++own.uses[rule];
  own.context_pages[rule] += pages;
  return result;
}

enum class Reset { kOnce, kForced };

template <typename Call>
int reset_device(int32_t device, Reset how, Call call) {
  const int rule = rule_of(device);
  if (!accounted(rule)) return call();
  AscendProcess& own = ascend_process();
  const Lock lock(own.device_lock);
  const bool last = how == Reset::kForced || own.uses[rule] == 1;
  const uint64_t context = last ? device_clock::current_context() : 0;
  if (last) before_context_ends(context);
  const int result = call();
  if (last) after_context_ended(context, result == ACL_SUCCESS);
  if (result != ACL_SUCCESS || own.uses[rule] == 0) return result;
  own.uses[rule] = last ? 0 : own.uses[rule] - 1;
  if (!last) return result;
  drop_device(rule);
  uncharge(rule, own.context_pages[rule]);
  own.context_pages[rule] = 0;
  return result;
}

}  // namespace
}  // namespace heddle::guard

using namespace heddle::guard;

#define HEDDLE_SET(table, name)                                       \
  HEDDLE_EXPORT int name(int32_t device) {                            \
    const auto real = table().name;                                   \
    if (real == nullptr) return kNoSuchFunction;                      \
    const Entry entry;                                                \
    if (entry.nested()) return real(device);                          \
    return set_device(device, [&]() -> int { return real(device); }); \
  }
#define HEDDLE_RESET(table, name, how)                                       \
  HEDDLE_EXPORT int name(int32_t device) {                                   \
    const auto real = table().name;                                          \
    if (real == nullptr) return kNoSuchFunction;                             \
    const Entry entry;                                                       \
    if (entry.nested()) return real(device);                                 \
    return reset_device(device, how, [&]() -> int { return real(device); }); \
  }

extern "C" {
HEDDLE_SET(acl, aclrtSetDevice)
HEDDLE_SET(rt, rtSetDevice)
HEDDLE_RESET(acl, aclrtResetDevice, Reset::kOnce)
HEDDLE_RESET(acl, aclrtResetDeviceForce, Reset::kForced)
HEDDLE_RESET(rt, rtDeviceReset, Reset::kOnce)
}
