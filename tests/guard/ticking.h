// A broker beside the tenants, as the agent has one. For tests in real time.
#pragma once

#include <time.h>

#include <chrono>
#include <thread>
#include <vector>

#include "guard/share_broker.h"

namespace heddle::guard::test {

class Ticking {
 public:
  explicit Ticking(const std::vector<BrokeredClaim>& claims) {
    broker_.set_claims(claims);
    thread_ = std::thread([this] {
      while (__atomic_load_n(&running_, __ATOMIC_RELAXED)) {
        timespec now{};
        clock_gettime(CLOCK_MONOTONIC, &now);
        broker_.tick(static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec, nullptr);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    });
  }
  ~Ticking() {
    __atomic_store_n(&running_, false, __ATOMIC_RELAXED);
    thread_.join();
  }
  Ticking(const Ticking&) = delete;
  Ticking& operator=(const Ticking&) = delete;

 private:
  ShareBroker broker_;
  bool running_ = true;
  std::thread thread_;
};

}  // namespace heddle::guard::test
