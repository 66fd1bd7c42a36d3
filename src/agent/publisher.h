// Keeps the ResourceSlices of this node as they should be: writes when something differs, and only then.
#pragma once

#include <string>

#include "agent/node_view.h"
#include "base/log.h"
#include "kube/client.h"

namespace heddle::agent {

// Thread rule: one thread.
class SlicePublisher {
 public:
  SlicePublisher(kube::Client& client, NodeView& view, const Logger& log) : client_(client), view_(view), log_(log) {}

  // One round. False when something could not be written and has to be tried again. Blocks on the API server.
  bool reconcile(const std::vector<model::ResourceSlice>& desired, const std::vector<model::ResourceSlice>& own);

  [[nodiscard]] int64_t writes() const { return writes_; }

 private:
  bool write(kube::Method method, const model::ResourceSlice& slice);
  bool remove(const std::string& name);

  kube::Client& client_;
  NodeView& view_;
  const Logger& log_;
  int64_t generation_ = 0;
  int64_t writes_ = 0;
};

}  // namespace heddle::agent
