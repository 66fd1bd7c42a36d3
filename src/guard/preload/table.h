// A hash table from a non-zero 64-bit key to a small record, in memory that a forked child does not have. The caller
// locks. Zero is its initial state; memory comes from the kernel, so the program's allocator is never entered.
#pragma once

#include "guard/preload/sys.h"

namespace heddle::guard {

struct Record {
  uint64_t key;    // 0: free
  uint64_t bytes;  // the length, or what the kind says
  uint64_t context;
  uint64_t pages;
  int32_t device;
  uint32_t kind;
  uint32_t count;
  uint32_t more;
  uint64_t stream;
};

class Table {
 public:
  // The record of a key; null: there is none. Valid until the next change.
  Record* find(uint64_t key) const {
    if (records_ == nullptr || key == 0) return nullptr;
    for (uint64_t i = slot_of(key);; i = (i + 1) & (capacity_ - 1)) {
      if (records_[i].key == key) return &records_[i];
      if (records_[i].key == 0) return nullptr;
    }
  }

  // Makes room for one more. False: no memory.
  bool prepare() {
    if (records_ != nullptr && (used_ + 1) * 2 <= capacity_) return true;
    const uint64_t capacity = records_ == nullptr ? 512 : capacity_ * 2;
    auto* records = static_cast<Record*>(map_private(capacity * sizeof(Record), OnFork::kDrop));
    if (records == nullptr) return false;
    Table bigger;
    bigger.records_ = records;
    bigger.capacity_ = capacity;
    for (uint64_t i = 0; i < capacity_; ++i) {
      if (records_[i].key != 0) bigger.put(records_[i]);
    }
    unmap(records_, capacity_ * sizeof(Record));
    *this = bigger;
    return true;
  }

  // Inserts or replaces, after prepare().
  Record* put(const Record& record) {
    uint64_t i = slot_of(record.key);
    while (records_[i].key != 0 && records_[i].key != record.key) i = (i + 1) & (capacity_ - 1);
    if (records_[i].key == 0) ++used_;
    records_[i] = record;
    return &records_[i];
  }

  // Takes a record out and closes the gap, so that no search meets tombstones.
  void erase(Record* record) {
    uint64_t hole = static_cast<uint64_t>(record - records_);
    records_[hole].key = 0;
    --used_;
    for (uint64_t i = (hole + 1) & (capacity_ - 1); records_[i].key != 0; i = (i + 1) & (capacity_ - 1)) {
      const uint64_t home = slot_of(records_[i].key);
      if (((i - home) & (capacity_ - 1)) < ((i - hole) & (capacity_ - 1))) continue;
      records_[hole] = records_[i];
      records_[i].key = 0;
      hole = i;
    }
  }

  [[nodiscard]] uint64_t capacity() const { return capacity_; }
  Record& at(uint64_t i) const { return records_[i]; }

 private:
  [[nodiscard]] uint64_t slot_of(uint64_t key) const { return (key * 0x9e3779b97f4a7c15u >> 20) & (capacity_ - 1); }

  Record* records_ = nullptr;
  uint64_t capacity_ = 0;
  uint64_t used_ = 0;
};

}  // namespace heddle::guard
