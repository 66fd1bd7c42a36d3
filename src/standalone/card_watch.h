// Asks the vendor again and again, on a thread of its own: a vendor's library may hang, the daemon must not.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "standalone/daemon.h"
#include "vendors/sources.h"

namespace heddle::standalone {

class CardWatch {
 public:
  // Runs until destroyed, which waits for the question that is under way (some seconds at most).
  CardWatch(std::shared_ptr<vendors::CardSources> source, Daemon& daemon);
  ~CardWatch();
  CardWatch(const CardWatch&) = delete;
  CardWatch& operator=(const CardWatch&) = delete;

 private:
  void loop();

  std::shared_ptr<vendors::CardSources> source_;
  Daemon& daemon_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace heddle::standalone
