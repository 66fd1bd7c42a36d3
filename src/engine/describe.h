// Words for requests, devices and shortages, as explanations use them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "allocator/device.h"
#include "allocator/prepare.h"
#include "engine/ledger.h"
#include "engine/state_impl.h"

namespace heddle::engine {

DeviceKey key_of_device(const allocator::DeviceInfo& device);

// "whole card", "card with 5000Mi and 50%", "device of class x".
std::string describe_ask(const allocator::Alternative& alternative);
std::string describe_asks(const allocator::Alternative& alternative);  // plural
// What is free of a device now: "2000Mi and 20%", "nothing: default/a holds it whole".
std::string describe_free(const allocator::DeviceInfo& device, const Ledger& ledger);
std::string describe_size(const allocator::DeviceInfo& device);
std::string describe_taint(const allocator::DeviceInfo& device, const std::string& node,
                           const allocator::Alternative& alternative);
// "cpu: 500m more than the 1500m that are free".
std::string describe_shortage(const Shortage& shortage);
std::string describe_never(const Shortage& shortage, const std::string& node);

// How much of a device is free, to find the most free one; a device that nothing can join is 0.
int64_t free_rank(const allocator::DeviceInfo& device);
// By its capacities in name order.
bool larger(const allocator::DeviceInfo& a, const allocator::DeviceInfo& b);

// "a is marked unschedulable", "a and b have a taint that the pod does not tolerate": why nodes are closed to a pod.
std::string describe_bar(Bar bar, const std::vector<std::string>& names);
// The same of nodes with different bars, one after the other.
std::string describe_bars(const std::map<Bar, std::vector<std::string>>& names);

// "a", "a and b", "a, b and 3 more".
std::string list_names(const std::vector<std::string>& names);
std::string list_holders(const std::vector<const Grant*>& grants);
std::string list_requests(const std::vector<allocator::PreparedClaim>& claims);

}  // namespace heddle::engine
