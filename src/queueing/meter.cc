#include "queueing/meter.h"

#include <fmt/format.h>

#include "base/quantity.h"

namespace heddle::queueing {
namespace {

bool counts(const Meter& meter, const Portion& portion) {
  const auto agrees = [](const std::string& wanted, const std::string& actual) {
    return wanted.empty() || wanted == actual;
  };
  return agrees(meter.device_class, portion.device_class) && agrees(meter.vendor, portion.vendor) &&
         agrees(meter.model, portion.model) && (meter.kind != Meter::Kind::kBoxes || meter.shape == portion.shape);
}

int64_t amount_of(const Meter& meter, const Portion& portion) {
  switch (meter.kind) {
    case Meter::Kind::kDevices:
      return portion.milli_devices;
    case Meter::Kind::kMemory:
      return portion.memory_bytes;
    case Meter::Kind::kCores:
      return portion.cores;
    case Meter::Kind::kBoxes:
      return portion.boxes;
  }
  return 0;
}

}  // namespace

Amounts measure(const std::vector<Meter>& meters, const std::vector<Portion>& portions) {
  Amounts amounts(meters.size(), 0);
  for (size_t m = 0; m < meters.size(); ++m) {
    for (const Portion& portion : portions) {
      if (counts(meters[m], portion)) amounts[m] += amount_of(meters[m], portion);
    }
  }
  return amounts;
}

void add(Amounts& sum, const Amounts& more) {
  for (size_t m = 0; m < sum.size(); ++m) sum[m] += more[m];
}

void subtract(Amounts& sum, const Amounts& less) {
  for (size_t m = 0; m < sum.size(); ++m) sum[m] -= less[m];
}

std::string amount_text(const Meter& meter, int64_t amount) {
  switch (meter.kind) {
    case Meter::Kind::kDevices:
      return fmt::format("{} {}",
                         Quantity::from_nano(Int128{amount} * 1'000'000, Quantity::Format::kDecimalSi).to_string(),
                         meter.name);
    case Meter::Kind::kMemory:
      return fmt::format("{} of {}", Quantity::bytes(amount).to_string(), meter.name);
    case Meter::Kind::kCores:
      return fmt::format("{}% of {}", amount, meter.name);
    case Meter::Kind::kBoxes:
      break;
  }
  return fmt::format("{} {}", amount, meter.name);
}

}  // namespace heddle::queueing
