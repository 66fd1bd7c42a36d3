#include "agent/publisher.h"

#include "codec/codec.h"

namespace heddle::agent {
namespace {

constexpr const char* kSlices = "/apis/resource.k8s.io/v1/resourceslices";

}  // namespace

bool SlicePublisher::reconcile(const std::vector<model::ResourceSlice>& desired,
                               const std::vector<model::ResourceSlice>& own) {
  const SlicePlan plan = plan_slices(desired, own, generation_);
  generation_ = plan.generation;
  bool done = true;
  for (const model::ResourceSlice& slice : plan.update) done = write(kube::Method::kPut, slice) && done;
  for (const model::ResourceSlice& slice : plan.create) done = write(kube::Method::kPost, slice) && done;
  for (const std::string& name : plan.remove) done = remove(name) && done;
  return done;
}

bool SlicePublisher::write(kube::Method method, const model::ResourceSlice& slice) {
  kube::Request request;
  request.method = method;
  request.path = method == kube::Method::kPost ? kSlices : std::string(kSlices) + "/" + slice.meta.name;
  request.body = codec::slice_json(slice);
  const uint64_t losses = view_.slice_losses();
  const Result<kube::Response> response = client_.call(std::move(request));
  if (!response) {
    log_.warning("slice not written", {{"slice", slice.meta.name}, {"why", response.error().text()}});
    return false;  // also a conflict: the watch brings what is there, and the next round looks again
  }
  ++writes_;
  // A slice may be gone again before the answer to its write is here; then the next round looks what there is.
  const auto written = codec::parse_slice(response->body);
  const bool noted = !written || view_.note_slice(*written, losses);
  log_.info("slice written", {{"slice", slice.meta.name},
                              {"devices", slice.devices.size()},
                              {"generation", slice.generation},
                              {"created", method == kube::Method::kPost}});
  return noted;
}

bool SlicePublisher::remove(const std::string& name) {
  kube::Request request;
  request.method = kube::Method::kDelete;
  request.path = std::string(kSlices) + "/" + name;
  const Result<kube::Response> response = client_.call(std::move(request));
  if (!response && response.error().code != Code::kNotFound) {
    log_.warning("slice not removed", {{"slice", name}, {"why", response.error().text()}});
    return false;
  }
  ++writes_;
  view_.note_slice_removed(name);
  log_.info("slice removed", {{"slice", name}});
  return true;
}

}  // namespace heddle::agent
