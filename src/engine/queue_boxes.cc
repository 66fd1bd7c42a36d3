// What of a unit of work counts as boxes.
#include <algorithm>
#include <utility>

#include "engine/queue_table.h"
#include "engine/slice.h"
#include "placement/cuboid.h"

namespace heddle::engine {
namespace {

using model::QuotaMeter;

constexpr int64_t kMilliInDevice = 1000;
constexpr int64_t kAllCores = 100;

// Devices that are taken whole; 0: some are not.
int64_t whole_devices(const queueing::Portion& portion) {
  if (portion.milli_devices <= 0 || portion.milli_devices % kMilliInDevice != 0) return 0;
  const int64_t devices = portion.milli_devices / kMilliInDevice;
  return portion.cores < devices * kAllCores ? 0 : devices;  // shares that happen to sum up to whole ones
}

bool counts(const QuotaMeter& meter, const queueing::Portion& portion) {
  return meter.counts == QuotaMeter::Counts::kBoxes &&
         (meter.device_class.empty() || meter.device_class == portion.device_class) &&
         (meter.vendor.empty() || meter.vendor == portion.vendor) &&
         (meter.model.empty() || meter.model == portion.model);
}

// How many cuboids of one size another one is cut into; 0: in none.
int64_t pieces(placement::Extent whole, const placement::Extent& piece) {
  std::sort(whole.begin(), whole.end());
  do {
    int64_t count = 1;
    for (size_t axis = 0; axis < whole.size(); ++axis)
      count *= whole[axis] % piece[axis] == 0 ? whole[axis] / piece[axis] : 0;
    if (count > 0) return count;
  } while (std::next_permutation(whole.begin(), whole.end()));
  return 0;
}

// What a gang has of the devices that a meter counts.
struct Whole {
  int64_t devices = 0;
  int64_t each = 0;  // of one portion, where all have as many
};

// Nothing: some devices are not taken whole.
std::optional<Whole> whole_of(const QuotaMeter& meter, const std::vector<queueing::Portion>& portions) {
  Whole out;
  bool alike = true;
  for (const queueing::Portion& portion : portions) {
    if (!counts(meter, portion)) continue;
    const int64_t devices = whole_devices(portion);
    if (devices == 0) return std::nullopt;
    alike = alike && (out.devices == 0 || out.each == devices);
    out.each = devices;
    out.devices += devices;
  }
  if (!alike) out.each = 0;
  return out;
}

// Boxes of the meter that the gang takes.
int64_t boxes_of(const QuotaMeter& meter, const Whole& whole, const GangLevels& gang,
                 const std::vector<TopologyLevel>& levels) {
  if (!meter.box_shape.empty()) {
    if (!is_slice(gang.required)) return 0;
    const auto asked = slice_shape(gang.required);
    const auto shape = placement::parse_extent(meter.box_shape);
    return asked && shape && placement::volume_of(*asked) == whole.devices ? pieces(*asked, *shape) : 0;
  }
  if (whole.devices % meter.box_devices != 0) return 0;
  const auto in_one = [&](const std::string& level) {
    return !level.empty() && level_name(levels, level) == level_name(levels, meter.box_level);
  };
  // A member that asks in several portions has more than `each`, and a segment a multiple of what is looked at.
  const bool by_segment =
      in_one(gang.segment) && whole.each > 0 && whole.each * gang.segment_size % meter.box_devices == 0;
  return in_one(gang.required) || by_segment ? whole.devices / meter.box_devices : 0;
}

}  // namespace

void QueueTable::fill_boxes(queueing::Portion& portion) const {
  const int64_t devices = whole_devices(portion);
  if (devices == 0) return;
  int64_t largest = 0;
  for (const QuotaMeter& meter : meters_) {
    if (counts(meter, portion) && !model::wider_than_a_node(meter) && devices % meter.box_devices == 0)
      largest = std::max(largest, meter.box_devices);
  }
  if (largest == 0) return;
  portion.shape = std::to_string(largest);
  portion.boxes = devices / largest;
}

void QueueTable::fill_wide_boxes(std::vector<queueing::Portion>& portions, const GangLevels& gang,
                                 const std::vector<TopologyLevel>& levels) const {
  const QuotaMeter* best = nullptr;
  int64_t boxes = 0;
  for (const QuotaMeter& meter : meters_) {
    if (!model::wider_than_a_node(meter) || (best != nullptr && best->box_devices >= meter.box_devices)) continue;
    const auto whole = whole_of(meter, portions);
    const int64_t made = whole && whole->devices > 0 ? boxes_of(meter, *whole, gang, levels) : 0;
    if (made == 0) continue;
    best = &meter;
    boxes = made;
  }
  if (best == nullptr) return;
  for (queueing::Portion& portion : portions) {
    if (!counts(*best, portion)) continue;
    portion.shape = model::box_name(*best);
    portion.boxes = std::exchange(boxes, 0);
  }
}

}  // namespace heddle::engine
