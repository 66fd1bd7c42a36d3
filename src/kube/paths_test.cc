#include "kube/paths.h"

#include <gtest/gtest.h>

namespace heddle::kube {
namespace {

TEST(Paths, Resources) {
  EXPECT_EQ(collection_path(kPods), "/api/v1/pods");
  EXPECT_EQ(collection_path(kPods, "ns"), "/api/v1/namespaces/ns/pods");
  EXPECT_EQ(pod_path("ns", "p", "binding"), "/api/v1/namespaces/ns/pods/p/binding");
  EXPECT_EQ(resource_claim_path("ns", "c", "status"), "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c/status");
  EXPECT_EQ(resource_slice_path("s"), "/apis/resource.k8s.io/v1/resourceslices/s");
  EXPECT_EQ(lease_path("ns", "l"), "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l");
  EXPECT_EQ(object_path({"heddle.dev/v1alpha1", "queues"}, "", "q"), "/apis/heddle.dev/v1alpha1/queues/q");
}

TEST(Paths, NamesCannotLeaveTheirSegment) {
  EXPECT_EQ(pod_path("ns", "../../secrets/x"), "/api/v1/namespaces/ns/pods/..%2F..%2Fsecrets%2Fx");
  EXPECT_EQ(pod_path("ns", ".."), "/api/v1/namespaces/ns/pods/%2E%2E");
  EXPECT_EQ(url_escape("a b&c=d?e#f%g\xc3\xa9"), "a%20b%26c%3Dd%3Fe%23f%25g%C3%A9");
  EXPECT_EQ(url_escape("Az09-._~"), "Az09-._~");
}

}  // namespace
}  // namespace heddle::kube
