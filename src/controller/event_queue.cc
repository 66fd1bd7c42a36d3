#include "controller/event_queue.h"

#include <chrono>
#include <utility>

namespace heddle::controller {
namespace {

std::string slot(const ObjectEvent& event) {
  return std::to_string(static_cast<int>(event.kind)) + event.key;
}

}  // namespace

void EventQueue::append(Event event) {
  if (closed_) return;
  events_.push_back(std::move(event));
  changed_.notify_one();
}

void EventQueue::push(ObjectEvent event) {
  const std::lock_guard lock(mutex_);
  const auto [it, fresh] = waiting_.emplace(slot(event), events_.size());
  if (fresh) return append(std::move(event));
  // The one that is replaced may have told of another object with the same name, which the reader then never sees.
  if (auto* removed = std::get_if<Removed>(&event.what)) removed->uid.clear();
  events_[it->second] = std::move(event);
}

void EventQueue::push(AnswerEvent event) {
  const std::lock_guard lock(mutex_);
  append(std::move(event));
}

void EventQueue::push(TaskEvent event) {
  const std::lock_guard lock(mutex_);
  append(std::move(event));
}

void EventQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

std::vector<Event> EventQueue::pop(int64_t wait_nanos) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(wait_nanos), [&] { return closed_ || !events_.empty(); });
  std::vector<Event> out(std::make_move_iterator(events_.begin()), std::make_move_iterator(events_.end()));
  events_.clear();
  waiting_.clear();
  return out;
}

bool EventQueue::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

size_t EventQueue::size() const {
  const std::lock_guard lock(mutex_);
  return events_.size();
}

}  // namespace heddle::controller
