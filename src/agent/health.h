// The health of the node's devices as the kubelet's health stream shows it: written by one thread, waited for by
// streams.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace heddle::agent {

struct DeviceHealth {
  std::string pool;
  std::string device;
  bool healthy = true;
  std::string message;
  int64_t checked_unix_seconds = 0;
};

// Thread rule: any thread.
class HealthBoard {
 public:
  void set(std::vector<DeviceHealth> devices) {
    const std::lock_guard lock(mutex_);
    bool changed = devices.size() != devices_.size();
    for (size_t i = 0; !changed && i < devices.size(); ++i) {
      changed = devices[i].healthy != devices_[i].healthy || devices[i].device != devices_[i].device ||
                devices[i].message != devices_[i].message;
    }
    devices_ = std::move(devices);
    if (changed) ++version_;
    if (changed) changed_.notify_all();
  }

  struct View {
    uint64_t version = 0;
    std::vector<DeviceHealth> devices;
    bool closed = false;
  };
  // Returns when the version differs from `seen`, when closed, or after the time.
  View wait(uint64_t seen, std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, at_most, [&] { return closed_ || version_ != seen; });
    return {version_, devices_, closed_};
  }

  // Ends all waits, for ever.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<DeviceHealth> devices_;
  uint64_t version_ = 1;
  bool closed_ = false;
};

}  // namespace heddle::agent
