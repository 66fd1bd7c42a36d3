// What quota counts. A meter names a kind of amount and the devices that it counts; a fleet has a short list of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::queueing {

struct Meter {
  enum class Kind {
    kDevices,  // devices in thousandths: a share counts its part of the card (the larger of memory and compute)
    kMemory,   // bytes of device memory
    kCores,    // percent of a device's compute
    kBoxes,    // intact groups of `shape` (all cards of one link domain, a slice of a torus), whole ones only
  };
  std::string name;  // unique; what users write and explanations say, such as "h100 cards"
  Kind kind = Kind::kDevices;
  // Which devices; empty: any.
  std::string device_class;
  std::string vendor;
  std::string model;
  std::string shape;  // with kBoxes, required
  friend bool operator==(const Meter&, const Meter&) = default;
};

// Devices of one kind that a workload asks for or holds.
struct Portion {
  std::string device_class;
  std::string vendor;  // empty where it is not known yet; then only meters without a vendor count it
  std::string model;
  int64_t milli_devices = 0;
  int64_t memory_bytes = 0;
  int64_t cores = 0;
  std::string shape;  // of the boxes that it takes whole
  int64_t boxes = 0;
  friend bool operator==(const Portion&, const Portion&) = default;
};

// One number a meter, in the order of the meters.
using Amounts = std::vector<int64_t>;

Amounts measure(const std::vector<Meter>& meters, const std::vector<Portion>& portions);

void add(Amounts& sum, const Amounts& more);
void subtract(Amounts& sum, const Amounts& less);
// "8 h100 cards", "2.5 cards", "40Gi of h100 memory".
std::string amount_text(const Meter& meter, int64_t amount);

}  // namespace heddle::queueing
