// Memory, its errors, and the sensors.
#include "nvml/library.h"
#include "state/schedule.h"

namespace nvsim {
namespace {

constexpr std::int64_t kWindowNs = 1'000'000'000;

unsigned load_percent(Card& card, std::int64_t now) {
  return busy_percent(card.state().schedule.buckets, now, kWindowNs);
}

nvmlReturn_t locked_value(nvmlDevice_t device, unsigned int* out, unsigned int (*read)(Card&, unsigned load)) {
  return with_locked_card(device, [&](Card& card, std::int64_t now) {
    if (out == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    *out = read(card, load_percent(card, now));
    return NVML_SUCCESS;
  });
}

unsigned int temperature(Card& card, unsigned load) {
  const CardConfig& config = card.config();
  return config.temperature_idle + (config.temperature_busy - config.temperature_idle) * load / 100;
}

unsigned int power(Card& card, unsigned load) {
  const CardConfig& config = card.config();
  return config.power_idle_mw +
         static_cast<unsigned int>(static_cast<std::uint64_t>(config.power_limit_mw - config.power_idle_mw) * load /
                                   100);
}

nvmlReturn_t ecc_count(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
                       unsigned long long* count) {
  return with_card(device, [&](Card& card) {
    if (card.config().ecc == 0) {
      return NVML_ERROR_NOT_SUPPORTED;
    }
    if (count == nullptr || type >= NVML_MEMORY_ERROR_TYPE_COUNT || counter >= NVML_ECC_COUNTER_TYPE_COUNT) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    const Faults& faults = card.state().faults;
    const bool since_boot = counter == NVML_VOLATILE_ECC;
    if (type == NVML_MEMORY_ERROR_TYPE_CORRECTED) {
      *count = since_boot ? faults.ecc_corrected_volatile : faults.ecc_corrected_aggregate;
    } else {
      *count = since_boot ? faults.ecc_uncorrected_volatile : faults.ecc_uncorrected_aggregate;
    }
    return NVML_SUCCESS;
  });
}

nvmlReturn_t clock_value(nvmlDevice_t device, nvmlClockType_t type, unsigned int* clock) {
  return with_card(device, [&](Card& card) {
    if (clock == nullptr || type >= NVML_CLOCK_COUNT) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    *clock = type == NVML_CLOCK_MEM ? card.config().memory_clock_mhz : card.config().sm_clock_mhz;
    return NVML_SUCCESS;
  });
}

}  // namespace
}  // namespace nvsim

using nvsim::answer_value;
using nvsim::Card;
using nvsim::with_card;
using nvsim::with_locked_card;

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  const int gpu = nvsim::nvml_card(device).gpu;
  return with_locked_card(device, [&](Card& card, std::int64_t) {
    if (memory == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    // An instance has its memory to the last byte; what driver and firmware keep is the card's.
    memory->total = gpu >= 0 ? card.usable_bytes(gpu) : card.config().memory_bytes;
    memory->used = gpu >= 0 ? card.used_bytes(gpu) : card.used_bytes() + card.config().memory_reserved_bytes;
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  const int gpu = nvsim::nvml_card(device).gpu;
  return with_locked_card(device, [&](Card& card, std::int64_t) {
    if (memory == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (memory->version != nvsim::struct_version<nvmlMemory_v2_t>(2)) {
      return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    memory->total = gpu >= 0 ? card.usable_bytes(gpu) : card.config().memory_bytes;
    memory->reserved = gpu >= 0 ? 0 : card.config().memory_reserved_bytes;
    memory->used = gpu >= 0 ? card.used_bytes(gpu) : card.used_bytes();
    memory->free = memory->total - memory->reserved - memory->used;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t* memory) {
  return with_card(device, [&](Card& card) {
    if (memory == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    unsigned long long size = 1ULL << 28U;
    while (size < card.config().memory_bytes) {
      size <<= 1U;
    }
    *memory = {size, size - (2ULL << 20U), 2ULL << 20U};
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* utilization) {
  return with_locked_card(device, [&](Card& card, std::int64_t now) {
    if (card.state().mig.current != 0) {
      return NVML_ERROR_NOT_SUPPORTED;
    }
    if (utilization == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    utilization->gpu = nvsim::load_percent(card, now);
    utilization->memory = utilization->gpu / 2;  // the model has no memory bus; busy kernels are taken to use half
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int* value) {
  return sensor == NVML_TEMPERATURE_GPU ? nvsim::locked_value(device, value, nvsim::temperature)
                                        : NVML_ERROR_INVALID_ARGUMENT;
}
nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t* value) {
  if (value == nullptr) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  if (value->version != nvsim::struct_version<nvmlTemperature_v1_t>(1)) {
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  }
  unsigned int degrees = 0;
  const nvmlReturn_t code = nvmlDeviceGetTemperature(device, value->sensorType, &degrees);
  value->temperature = code == NVML_SUCCESS ? static_cast<int>(degrees) : value->temperature;
  return code;
}
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t type,
                                               unsigned int* value) {
  return with_card(device, [&](Card& card) {
    if (value == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    const unsigned int busy = card.config().temperature_busy;
    switch (type) {
      case NVML_TEMPERATURE_THRESHOLD_SHUTDOWN:
        *value = busy + 20;
        return NVML_SUCCESS;
      case NVML_TEMPERATURE_THRESHOLD_SLOWDOWN:
        *value = busy + 17;
        return NVML_SUCCESS;
      case NVML_TEMPERATURE_THRESHOLD_GPU_MAX:
        *value = busy + 15;
        return NVML_SUCCESS;
      default:
        return NVML_ERROR_NOT_SUPPORTED;
    }
  });
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int* value) {
  return nvsim::locked_value(device, value, nvsim::power);
}
nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int* limit) {
  return answer_value(device, limit, [](Card& card) { return card.config().power_limit_mw; });
}
nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned int* limit) {
  return answer_value(device, limit, [](Card& card) { return card.config().power_limit_mw; });
}
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int* limit) {
  return answer_value(device, limit, [](Card& card) { return card.config().power_limit_mw; });
}
nvmlReturn_t nvmlDeviceGetPowerManagementMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return answer_value(device, mode, [](Card&) { return NVML_FEATURE_ENABLED; });
}
nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int* low, unsigned int* high) {
  return with_card(device, [&](Card& card) {
    if (low == nullptr || high == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    *low = card.config().power_limit_mw / 2;
    *high = card.config().power_limit_mw;
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long* energy) {
  return with_locked_card(device, [&](Card& card, std::int64_t now) {
    if (energy == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    // Idle power all the time, and the difference to the limit while kernels ran; in millijoule.
    const auto& config = card.config();
    const auto idle_ms = static_cast<std::uint64_t>(now / 1'000'000);
    const auto busy_ms = static_cast<std::uint64_t>(card.state().schedule.busy_ns / 1'000'000);
    *energy = (config.power_idle_mw * idle_ms + (config.power_limit_mw - config.power_idle_mw) * busy_ms) / 1000;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int* clock) {
  return nvsim::clock_value(device, type, clock);
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int* clock) {
  return nvsim::clock_value(device, type, clock);
}
nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, nvmlClockType_t type, unsigned int* clock) {
  return nvsim::clock_value(device, type, clock);
}
nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, nvmlClockType_t type, unsigned int* clock) {
  return nvsim::clock_value(device, type, clock);
}
nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, nvmlPstates_t* state) {
  return answer_value(device, state, [](Card&) { return NVML_PSTATE_0; });
}
nvmlReturn_t nvmlDeviceGetPowerState(nvmlDevice_t device, nvmlPstates_t* state) {
  return answer_value(device, state, [](Card&) { return NVML_PSTATE_0; });
}
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long* reasons) {
  return answer_value(device, reasons, [](Card&) { return nvmlClocksEventReasonNone; });
}
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long* reasons) {
  return nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t* current, nvmlEnableState_t* pending) {
  return with_card(device, [&](Card& card) {
    if (card.config().ecc == 0) {
      return NVML_ERROR_NOT_SUPPORTED;
    }
    if (current == nullptr || pending == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    *current = *pending = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
                                         unsigned long long* count) {
  return nvsim::ecc_count(device, type, counter, count);
}
nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                             nvmlEccCounterType_t counter, nvmlMemoryLocation_t location,
                                             unsigned long long* count) {
  const nvmlReturn_t code = nvsim::ecc_count(device, type, counter, count);
  if (code == NVML_SUCCESS && location != NVML_MEMORY_LOCATION_DEVICE_MEMORY) {
    *count = 0;
  }
  return code;
}
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int* corrected, unsigned int* uncorrected,
                                       unsigned int* pending, unsigned int* failed) {
  return with_card(device, [&](Card& card) {
    if (card.config().ecc == 0 || card.config().cc_major < 8) {
      return NVML_ERROR_NOT_SUPPORTED;
    }
    if (corrected == nullptr || uncorrected == nullptr || pending == nullptr || failed == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    const auto& faults = card.state().faults;
    *corrected = 0;
    *uncorrected = static_cast<unsigned int>(faults.ecc_uncorrected_aggregate);
    *pending = faults.ecc_uncorrected_volatile > 0 ? 1 : 0;
    *failed = 0;
    return NVML_SUCCESS;
  });
}
