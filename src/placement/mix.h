// The mix: which requests there are and how often each was seen. Policies judge a node by what it can still take of it.
// Not thread-safe. add(): O(1).
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "placement/types.h"

namespace heddle::placement {

// Numbers from 0 in the order in which requests were first seen.
using RequestId = uint32_t;

struct RequestHash {
  size_t operator()(const Request& request) const;
};

class RequestTable {
 public:
  // The number of this request; a new one when it was never seen.
  RequestId intern(const Request& request);
  [[nodiscard]] const Request& operator[](RequestId id) const { return requests_[id]; }
  [[nodiscard]] size_t size() const { return requests_.size(); }

 private:
  std::vector<Request> requests_;
  std::unordered_map<Request, RequestId, RequestHash> ids_;
};

// One class of the mix. weight: how many of `Mix::total` pods.
struct MixClass {
  Request request;
  int64_t weight = 0;
};

// A mix at one moment. Classes in the order in which they were first seen; weights are positive.
struct Mix {
  std::vector<MixClass> classes;
  int64_t total = 0;  // of all weights, pods without cards included
};

// The most frequent classes that together make at least `percent` of all pods; ties go to the class seen first.
Mix most_frequent(const Mix& mix, int percent);

// Learns the mix from what arrives. It forgets: beyond kMemory arrivals all weights are halved, so a class that no
// longer comes fades out.
class MixLearner {
 public:
  static constexpr int64_t kMemory = 65536;
  static constexpr int64_t kFirst = 4;

  // Counts one arrival. True when enough came for a new estimate to be worth its cost: after 4 arrivals, then each
  // time when they have grown by half, and by 4 at least.
  bool add(RequestId id);
  [[nodiscard]] Mix mix(const RequestTable& requests) const;

 private:
  std::vector<int64_t> counts_;
  int64_t total_ = 0;
  int64_t next_ = kFirst;
};

}  // namespace heddle::placement
