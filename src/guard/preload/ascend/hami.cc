// The variables by which HAMi's device plugin tells its own preload library of a container's share (hami-vnpu-core).
// Who runs in the container can set them, so beside limits of ours they only make these smaller.
#include <stdlib.h>
#include <string.h>

#include "guard/preload/names.h"
#include "guard/preload/sys.h"
#include "guard/preload/vendor.h"

namespace heddle::guard {
namespace {

constexpr uint32_t kPagesOfMib = 1U << (20 - HEDDLE_GUARD_PAGE_SHIFT);

// Zero: nothing is asked.
struct Wish {
  uint64_t pages;    // of each NPU
  uint32_t percent;  // of its time
};

// A whole number; 0: not set, or none.
uint64_t number_of(const char* name) {
  const char* text = getenv(name);
  if (text == nullptr || *text == '\0') return 0;
  uint64_t value = 0;
  for (const char* p = text; *p != '\0'; ++p) {
    if (*p < '0' || *p > '9' || value > kMaxPages) {
      log_line("this variable is not a whole number and is passed over: ", name);
      return 0;
    }
    value = value * 10 + static_cast<uint64_t>(*p - '0');
  }
  return value;
}

bool is_true(const char* name) {
  const char* text = getenv(name);
  return text != nullptr && (strcmp(text, "1") == 0 || strcmp(text, "true") == 0);
}

Wish read_wish() {
  Wish wish{};
  const uint64_t mib = number_of("NPU_MEM_QUOTA");
  wish.pages = mib > kMaxPages / kPagesOfMib ? kMaxPages : mib * kPagesOfMib;
  // Otherwise a weight against the other containers of the NPU, which says nothing of this one alone.
  if (!is_true("NPU_FIXED_SHARE_RATIO")) return wish;
  const uint64_t percent = number_of("NPU_PRIORITY");
  if (percent < 100) wish.percent = static_cast<uint32_t>(percent);
  return wish;
}

void lower_memory(DeviceRule& rule, uint64_t pages) {
  if (pages == 0 || pages >= rule.limit_pages) return;
  rule.limit_pages = pages;
  rule.limit_bytes = pages << HEDDLE_GUARD_PAGE_SHIFT;
  rule.virtual_pages = 0;
  rule.whole_card = false;
}

}  // namespace

void vendor::lower_by_environment(Config& config) {
  const Wish wish = read_wish();
  bool gives_way = false;
  for (uint32_t i = 0; i < config.device_count; ++i) {
    lower_memory(config.devices[i], wish.pages);
    gives_way = gives_way || config.devices[i].gives_way;
  }
  // A share of its own, even a small one, is more than what gives way to others.
  if (wish.percent == 0 || gives_way) return;
  for (uint32_t i = 0; i < config.device_count; ++i) {
    uint32_t& cores = config.devices[i].cores_percent;
    if (cores == 0 || wish.percent < cores) cores = wish.percent;
  }
  config.any_compute_limit = true;
  config.keeps_to_share = true;
}

bool vendor::limits_of_environment(Config& config, char (&usage)[kPathBytes]) {
  const Wish wish = read_wish();
  if (wish.pages == 0 && wish.percent == 0) return false;
  // The container's own place; a container that starts again finds another file, as the processes of before are
  // gone unseen.
  const char* folder = getenv("NPU_LOCAL_SHM_PATH");
  if (folder == nullptr || *folder == '\0') folder = "/tmp/vnpu_local_shmem";
  const size_t length = strlen(folder);
  constexpr size_t kRest = 32;
  if (length + kRest > kPathBytes) return false;
  memcpy(usage, folder, length);
  char* end = usage + length;
  memcpy(end, ".heddle-", 8);
  end += 8;
  for (uint32_t rest = own_pid_namespace(); rest != 0; rest /= 10) *end++ = static_cast<char>('0' + rest % 10);
  *end = '\0';
  // Which NPUs there are is not told: each that has one of the first numbers.
  config.device_count = HEDDLE_GUARD_MAX_DEVICES;
  for (uint32_t i = 0; i < config.device_count; ++i) {
    DeviceRule& rule = config.devices[i];
    memset(rule.uuid, static_cast<int>(i), sizeof(rule.uuid));
    rule.number_plus_one = i + 1;
    rule.limit_pages = kMaxPages;
    rule.whole_card = true;
    lower_memory(rule, wish.pages);
    rule.cores_percent = wish.percent;
  }
  config.any_compute_limit = wish.percent != 0;
  return true;
}

}  // namespace heddle::guard
