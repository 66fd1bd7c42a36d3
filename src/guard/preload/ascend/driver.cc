// The libraries that the program loaded, our functions by name, and the rules of devices.
#include "guard/preload/ascend/driver.h"

#include <string.h>

#include "guard/preload/ascend/coverage.h"
#include "guard/preload/driver_table.h"
#include "guard/preload/vendor.h"

namespace heddle::guard {
namespace {

struct Hook {
  const char* exported;
  void* ours;
};
#define HEDDLE_HOOK(name) {#name, reinterpret_cast<void*>(&::name)},
const Hook kAclHooks[] = {HEDDLE_ACL_HOOKS(HEDDLE_HOOK)};
const Hook kRtHooks[] = {HEDDLE_RT_HOOKS(HEDDLE_HOOK)};
#undef HEDDLE_HOOK

AscendProcess spare;
const AclFunctions kNoAcl{};
const RtFunctions kNoRt{};
const AclFunctions* acl_functions = nullptr;
const RtFunctions* rt_functions = nullptr;

// Says once a process what the library has and this guard was not built to know.
void report_unknown(const LoadedObject& library, bool (*is_unknown)(const char*), int which) {
  if (config().mode == Config::Mode::kInert) return;
  char names[256];
  AscendProcess& own = ascend_process();
  own.unknown_names[which] = count_unknown(library, is_unknown, names, sizeof(names));
  if (config().usage != nullptr) {
    __atomic_store_n(&config().usage->header.unknown_symbols, own.unknown_names[0] + own.unknown_names[1],
                     __ATOMIC_RELAXED);
  }
  if (own.unknown_names[which] != 0) log_line("the runtime has entry points that this guard does not know: ", names);
}

const AclFunctions* load_acl() {
  LoadedObject library;
  if (!find_object("libascendcl.so", nullptr, &library)) return nullptr;
  auto* table = new_table<AclFunctions>();
  if (table == nullptr) return nullptr;
  keep_loaded(library);
#define HEDDLE_RESOLVE(name) resolve(library, #name, table->name);
  HEDDLE_ACL_HOOKS(HEDDLE_RESOLVE)
  HEDDLE_ACL_CALLS(HEDDLE_RESOLVE)
  report_unknown(library, &is_unknown_acl, 0);
  return publish(acl_functions, table);
}

const RtFunctions* load_rt() {
  LoadedObject library;
  if (!find_object("libruntime.so", nullptr, &library)) return nullptr;
  auto* table = new_table<RtFunctions>();
  if (table == nullptr) return nullptr;
  keep_loaded(library);
  HEDDLE_RT_HOOKS(HEDDLE_RESOLVE)
  HEDDLE_RT_CALLS(HEDDLE_RESOLVE)
#undef HEDDLE_RESOLVE
  report_unknown(library, &is_unknown_rt, 1);
  return publish(rt_functions, table);
}

const AclFunctions* acl_or_null() {
  const AclFunctions* table = __atomic_load_n(&acl_functions, __ATOMIC_ACQUIRE);
  return table != nullptr ? table : load_acl();
}
const RtFunctions* rt_or_null() {
  const RtFunctions* table = __atomic_load_n(&rt_functions, __ATOMIC_ACQUIRE);
  return table != nullptr ? table : load_rt();
}

bool acl_loaded() {
  return acl_or_null() != nullptr;
}
bool rt_loaded() {
  return rt_or_null() != nullptr;
}

constexpr vendor::Library kAclLibrary{"libascendcl.so", &acl_loaded};
constexpr vendor::Library kRtLibrary{"libruntime.so", &rt_loaded};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// The physical id of a device as the program numbers it. False: the runtime does not say.
bool physical_id(int32_t device, uint32_t* physical) {
  int32_t logic = device;
  int32_t found = -1;
  const auto to_logic = acl().aclrtGetLogicDevIdByUserDevId;
  if (to_logic == nullptr || to_logic(device, &logic) != ACL_SUCCESS) logic = device;
  const auto by_acl = acl().aclrtGetPhyDevIdByLogicDevId;
  if (by_acl != nullptr && by_acl(logic, &found) == ACL_SUCCESS && found >= 0) {
    *physical = static_cast<uint32_t>(found);
    return true;
  }
  const auto by_rt = rt().rtGetDevicePhyIdByIndex;
  return by_rt != nullptr && by_rt(static_cast<uint32_t>(logic), physical) == ACL_SUCCESS;
}

}  // namespace

const AclFunctions& acl() {
  const AclFunctions* table = acl_or_null();
  return table != nullptr ? *table : kNoAcl;
}
const RtFunctions& rt() {
  const RtFunctions* table = rt_or_null();
  return table != nullptr ? *table : kNoRt;
}

int rule_of(int32_t device) {
  int rule = kUnlisted;
  if (device < 0) return kNoDevice;
  if (known_rule(device, &rule)) return rule;
  uint32_t physical = 0;
  if (physical_id(device, &physical)) {
    rule = rule_of_number(physical);
  } else if (config().device_count == 1) {
    rule = 0;  // a container that has one NPU
  } else {
    return kUnlisted;  // one of several, and nobody says which
  }
  keep_rule(device, rule);
  return rule;
}

int current_rule() {
  int32_t device = -1;
  const auto by_acl = acl().aclrtGetDevice;
  if (by_acl != nullptr && by_acl(&device) == ACL_SUCCESS) return rule_of(device);
  const auto by_rt = rt().rtGetDevice;
  return by_rt != nullptr && by_rt(&device) == ACL_SUCCESS ? rule_of(device) : kNoDevice;
}

size_t vendor::process_bytes() {
  return sizeof(AscendProcess);
}
Process& vendor::spare_process() {
  return spare;
}
bool vendor::reclaim() {
  return false;
}

// The id of a die: 40 digits with dashes between, of which the first 32 are taken. Devices are found by their number.
bool vendor::parse_identity(const char* text, unsigned char (&identity)[16]) {
  for (unsigned char& byte : identity) {
    while (*text == '-') ++text;
    const int high = hex_digit(*text);
    const int low = high < 0 ? -1 : hex_digit(text[1]);
    if (low < 0) return false;
    byte = static_cast<unsigned char>(high * 16 + low);
    text += 2;
  }
  return true;
}

void* vendor::hook_of_name(const char* name, const Library** library) {
  if (begins_with(name, "acl")) {
    *library = &kAclLibrary;
    for (const Hook& hook : kAclHooks) {
      if (same_text(hook.exported, name)) return hook.ours;
    }
  } else if (name[0] == 'r' && name[1] == 't') {
    *library = &kRtLibrary;
    for (const Hook& hook : kRtHooks) {
      if (same_text(hook.exported, name)) return hook.ours;
    }
  }
  return nullptr;
}

// ACL calls the runtime through further libraries of its folder.
bool vendor::is_of_driver(const LoadedObject& object) {
  const char* name = name_of(object);
  if (begins_with(name, "libascend") || begins_with(name, "libacl") || begins_with(name, "libruntime")) return true;
  LoadedObject library;
  if (!find_object("libascendcl.so", "libruntime.so", &library)) return false;
  if (object.path == nullptr || library.path == nullptr) return false;
  const char* slash = strrchr(library.path, '/');
  if (slash == nullptr) return false;
  const auto folder = static_cast<size_t>(slash - library.path) + 1;
  return strncmp(object.path, library.path, folder) == 0 && strchr(object.path + folder, '/') == nullptr;
}

const vendor::Library* vendor::refused_name(const char* name) {
  if (!config().deny_unknown) return nullptr;
  if (is_unknown_acl(name)) return &kAclLibrary;
  return is_unknown_rt(name) ? &kRtLibrary : nullptr;
}

}  // namespace heddle::guard
