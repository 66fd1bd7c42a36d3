// What all NVML functions share: the initialised library, handles, and how an answer is guarded.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>

#include "nvml/api.h"
#include "state/machine.h"

namespace nvsim {

// The initialised library. Null before nvmlInit, after the last nvmlShutdown and in a forked child.
MachineView* nvml_machine();

// Checks that come before any work on a card; the result is the card or the code to answer.
struct CardAnswer {
  Card* card = nullptr;
  nvmlReturn_t code = NVML_ERROR_UNINITIALIZED;
  // Of a handle of a MIG device; -1: of the card. What an instance has not of its own is answered for its card.
  int gpu = -1;
  int compute = -1;
};
CardAnswer nvml_card(nvmlDevice_t device);

nvmlDevice_t nvml_handle(const Card& card);

// An instance of a card behind a handle: compute -1 is a GPU instance. The handle of a MIG device and of its compute
// instance are the same object.
struct InstanceHandle {
  Card* card = nullptr;
  int gpu = -1;
  int compute = -1;
};
// The one handle of that instance.
InstanceHandle* instance_handle(Card& card, int gpu, int compute);
// Null: not a handle that was given out.
const InstanceHandle* find_instance_handle(const void* handle);

nvmlReturn_t mig_device_by_uuid(const char* uuid, nvmlDevice_t* device);

// Runs `body(Card&)` after the checks; with_locked_card(Card&, now) also holds the card.
template <typename Body>
nvmlReturn_t with_card(nvmlDevice_t device, Body body) {
  const CardAnswer answer = nvml_card(device);
  return answer.card == nullptr ? answer.code : body(*answer.card);
}

template <typename Body>
nvmlReturn_t with_locked_card(nvmlDevice_t device, Body body) {
  return with_card(device, [&](Card& card) {
    const Card::Lock lock(card);
    return lock.ok() ? body(card, lock.now()) : NVML_ERROR_GPU_IS_LOST;
  });
}

// Answers one value of the card's description or state.
template <typename Value, typename Read>
nvmlReturn_t answer_value(nvmlDevice_t device, Value* out, Read read) {
  return with_card(device, [&](Card& card) {
    if (out == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    *out = static_cast<Value>(read(card));
    return NVML_SUCCESS;
  });
}

// Copies a string into the caller's buffer with the codes that NVML has for it.
inline nvmlReturn_t answer_text(char* out, unsigned int length, std::string_view text) {
  if (out == nullptr) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  if (length < text.size() + 1) {
    return NVML_ERROR_INSUFFICIENT_SIZE;
  }
  std::copy(text.begin(), text.end(), out);
  out[text.size()] = '\0';
  return NVML_SUCCESS;
}

// The version word of a structure: its size and its number.
template <typename Structure>
constexpr unsigned int struct_version(unsigned int number) {
  return static_cast<unsigned int>(sizeof(Structure)) | (number << 24U);
}

// NVML counts in microseconds since the epoch.
unsigned long long wall_us(std::int64_t monotonic);
std::int64_t monotonic_from_wall_us(unsigned long long microseconds);

}  // namespace nvsim
