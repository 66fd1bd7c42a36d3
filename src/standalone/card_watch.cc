#include "standalone/card_watch.h"

#include <chrono>
#include <utility>

namespace heddle::standalone {
namespace {

// Two looks make a finding, and a finding must come within 5 s.
constexpr std::chrono::seconds kPeriod(2);

}  // namespace

CardWatch::CardWatch(std::shared_ptr<vendors::CardSources> source, Daemon& daemon)
    : source_(std::move(source)), daemon_(daemon), thread_([this] { loop(); }) {}

CardWatch::~CardWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void CardWatch::loop() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kPeriod, [this] { return stopped_; })) {
    lock.unlock();
    source_->refresh();
    daemon_.observe(source_->snapshot());
    lock.lock();
  }
}

}  // namespace heddle::standalone
