#include "model/queue.h"

#include <algorithm>

namespace heddle::model {
namespace {

bool holds(const Requirement& requirement, const std::map<std::string, std::string>& labels) {
  const auto label = labels.find(requirement.key);
  const bool there = label != labels.end();
  const bool listed = there && std::find(requirement.values.begin(), requirement.values.end(), label->second) !=
                                   requirement.values.end();
  switch (requirement.op) {
    case Requirement::Operator::kIn:
      return listed;
    case Requirement::Operator::kNotIn:
      return !listed;
    case Requirement::Operator::kExists:
      return there;
    case Requirement::Operator::kDoesNotExist:
      return !there;
    case Requirement::Operator::kGt:
    case Requirement::Operator::kLt:
      break;
  }
  return false;
}

}  // namespace

bool matches(const LabelSelector& selector, const std::map<std::string, std::string>& labels) {
  const bool equal = std::all_of(selector.match_labels.begin(), selector.match_labels.end(), [&](const auto& wanted) {
    const auto label = labels.find(wanted.first);
    return label != labels.end() && label->second == wanted.second;
  });
  return equal && std::all_of(selector.match_expressions.begin(), selector.match_expressions.end(),
                              [&](const Requirement& requirement) { return holds(requirement, labels); });
}

std::string_view counts_name(QuotaMeter::Counts counts) {
  switch (counts) {
    case QuotaMeter::Counts::kDevices:
      return "Devices";
    case QuotaMeter::Counts::kMemory:
      return "Memory";
    case QuotaMeter::Counts::kCores:
      return "Cores";
    case QuotaMeter::Counts::kBoxes:
      break;
  }
  return "Boxes";
}

std::string box_name(const QuotaMeter& meter) {
  if (!meter.box_shape.empty()) return meter.box_shape;
  const std::string devices = std::to_string(meter.box_devices);
  return meter.box_level.empty() ? devices : devices + " in one " + meter.box_level;
}

bool wider_than_a_node(const QuotaMeter& meter) {
  return meter.counts == QuotaMeter::Counts::kBoxes && !(meter.box_level.empty() && meter.box_shape.empty());
}

std::string meter_name(const QuotaMeter& meter) {
  std::string which;
  for (const std::string* part : {&meter.vendor, &meter.model}) {
    if (!part->empty()) which += *part + " ";
  }
  std::string what;
  switch (meter.counts) {
    case QuotaMeter::Counts::kDevices:
      what = which + "devices";
      break;
    case QuotaMeter::Counts::kMemory:
      what = which + "device memory";
      break;
    case QuotaMeter::Counts::kCores:
      what = which + "device compute";
      break;
    case QuotaMeter::Counts::kBoxes:
      what = meter.box_shape.empty() ? "boxes of " + std::to_string(meter.box_devices) + " " + which + "devices"
                                     : "slices of " + meter.box_shape + " " + which + "devices";
      if (!meter.box_level.empty()) what += " of one " + meter.box_level;
      break;
  }
  return meter.device_class.empty() ? what : what + " of class " + meter.device_class;
}

}  // namespace heddle::model
