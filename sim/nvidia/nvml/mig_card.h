// Shared by the files about MIG: what must hold before an instance is looked at.
#pragma once

#include "nvml/library.h"
#include "state/mig.h"

namespace nvsim {

// Runs body(Card&) on a card (not an instance of one) that can be partitioned, with the card held.
template <typename Body>
nvmlReturn_t with_mig_card(nvmlDevice_t device, Body body) {
  const CardAnswer answer = nvml_card(device);
  if (answer.card == nullptr) {
    return answer.code;
  }
  if (answer.card->config().mig == 0) {
    return NVML_ERROR_NOT_SUPPORTED;
  }
  if (answer.gpu >= 0) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  const Card::Lock lock(*answer.card);
  return lock.ok() ? body(*answer.card) : NVML_ERROR_GPU_IS_LOST;
}

// The same with the mode on.
template <typename Body>
nvmlReturn_t with_cut_card(nvmlDevice_t device, Body body) {
  return with_mig_card(
      device, [&](Card& card) { return card.state().mig.current == 0 ? NVML_ERROR_NOT_SUPPORTED : body(card); });
}

// Runs body(Card&, gpu, compute) on an instance that exists.
template <typename Body>
nvmlReturn_t with_instance(const void* handle, bool of_compute, Body body) {
  if (nvml_machine() == nullptr) {
    return NVML_ERROR_UNINITIALIZED;
  }
  const InstanceHandle* instance = find_instance_handle(handle);
  if (instance == nullptr || (instance->compute >= 0) != of_compute) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  Card& card = *instance->card;
  if (card.lost()) {
    return NVML_ERROR_GPU_IS_LOST;
  }
  const Card::Lock lock(card);
  const bool there = of_compute ? has_compute_instance(card.state(), instance->gpu, instance->compute)
                                : has_instance(card.state(), instance->gpu);
  if (!lock.ok()) {
    return NVML_ERROR_GPU_IS_LOST;
  }
  return there ? body(card, instance->gpu, instance->compute) : NVML_ERROR_INVALID_ARGUMENT;
}

// Hands out `found` handles by the sizing protocol of NVML's lists of instances: *count is how many there are.
template <typename Handle, typename Handles>
nvmlReturn_t answer_handles(const Handles& found, Handle* out, unsigned int* count) {
  if (out == nullptr || count == nullptr) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  unsigned int filled = 0;
  for (InstanceHandle* handle : found) {
    out[filled++] = reinterpret_cast<Handle>(handle);
  }
  *count = filled;
  return NVML_SUCCESS;
}

}  // namespace nvsim
