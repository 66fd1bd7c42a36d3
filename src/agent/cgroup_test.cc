#include "agent/cgroup.h"

#include <gtest/gtest.h>

namespace heddle::agent {
namespace {

const std::string kUid = "0f7a1f3e-4d2c-4b7e-9a51-6c1f1f0f2b3c";
const std::string kUidUnderscores = "0f7a1f3e_4d2c_4b7e_9a51_6c1f1f0f2b3c";
const std::string kContainer(64, 'a');

TEST(ParseCgroup, KnowsEveryFormOfKubelet) {
  struct Case {
    const char* name;
    std::string text;
    std::optional<CgroupOwner> owner;
  };
  const std::vector<Case> cases = {
      {"v2 systemd",
       "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + kUidUnderscores +
           ".slice/cri-containerd-" + kContainer + ".scope\n",
       CgroupOwner{kUid, kContainer}},
      {"v2 systemd guaranteed",
       "0::/kubepods.slice/kubepods-pod" + kUidUnderscores + ".slice/cri-containerd-" + kContainer + ".scope\n",
       CgroupOwner{kUid, kContainer}},
      {"v2 cgroupfs", "0::/kubepods/besteffort/pod" + kUid + "/" + kContainer, CgroupOwner{kUid, kContainer}},
      {"v2 seen from another cgroup namespace", "0::/../../pod" + kUid + "/" + kContainer,
       CgroupOwner{kUid, kContainer}},
      {"v1, in one controller only",
       "12:pids:/user.slice\n11:memory:/kubepods/burstable/pod" + kUid + "/" + kContainer + "\n0::/\n",
       CgroupOwner{kUid, kContainer}},
      {"v1 kubelet under another root", "4:memory:/outer/kubepods/pod" + kUid + "/" + kContainer,
       CgroupOwner{kUid, kContainer}},
      {"a pod from a file has a hash for its uid", "0::/kubepods/pod0123456789abcdef0123456789abcdef/" + kContainer,
       CgroupOwner{"0123456789abcdef0123456789abcdef", kContainer}},
      {"the sandbox's own group", "0::/kubepods/pod" + kUid, CgroupOwner{kUid, ""}},
      {"nested: the outermost pod counts",
       "0::/kubepods/pod" + kUid + "/" + kContainer + "/kubepods/podffffffff-ffff-ffff-ffff-ffffffffffff/x",
       CgroupOwner{kUid, kContainer}},
      {"a name that only looks like one", "0::/podcast/pod-of-whales/user.slice", std::nullopt},
      {"no pod", "0::/system.slice/ssh.service\n", std::nullopt},
      {"empty", "", std::nullopt},
      {"garbage", "::::\n\n:", std::nullopt}};
  for (const Case& c : cases) EXPECT_EQ(parse_cgroup(c.text), c.owner) << c.name;
}

}  // namespace
}  // namespace heddle::agent
