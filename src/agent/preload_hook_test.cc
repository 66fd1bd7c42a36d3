#include "agent/preload_hook.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

namespace heddle::agent {
namespace {

const std::string kGuard = "/run/heddle/lib/libheddle_guard.so\n";

TEST(MergePreload, KeepsTheImagesEntriesBehindTheGuard) {
  EXPECT_EQ(merge_preload(kGuard, ""), kGuard);
  EXPECT_EQ(merge_preload(kGuard, "/lib/a.so /lib/b.so:/lib/c.so\n# none\n"),
            kGuard + "/lib/a.so\n/lib/b.so\n/lib/c.so\n");
  EXPECT_EQ(merge_preload(kGuard, kGuard + "/lib/a.so"), kGuard + "/lib/a.so\n") << "not twice";
  EXPECT_EQ(merge_preload(kGuard, "#/lib/a.so"), kGuard);
}

TEST(ParseState, RefusesIdsThatLeadElsewhere) {
  EXPECT_TRUE(parse_state(R"({"id":"abc","bundle":"/b"})"));
  for (const char* text :
       {R"({"id":"../x","bundle":"/b"})", R"({"id":"","bundle":"/b"})", R"({"bundle":"/b"})", "", "[]"}) {
    EXPECT_FALSE(parse_state(text)) << text;
  }
}

// In a mount namespace of its own, as a container runtime leaves it: the root is a mount, the guard's file is mounted
// in it.
class HookTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "heddle-hook-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    ASSERT_TRUE(make_directories(dir_ + "/bundle/rootfs/etc", 0755));
    ASSERT_TRUE(make_directories(dir_ + "/work", 0755));
    ASSERT_TRUE(write_file_atomic(dir_ + "/guard-preload", kGuard, 0444));
    ASSERT_TRUE(write_file_atomic(dir_ + "/bundle/config.json", R"({"root":{"path":"rootfs"}})", 0644));
  }
  void TearDown() override { ASSERT_TRUE(remove_tree(dir_)); }

  // Runs the hook in a child and gives what the container would read; nothing where this machine does not allow mounts.
  std::optional<std::string> preload_in_container() {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(run_as_container());
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2) return std::nullopt;
    EXPECT_EQ(WEXITSTATUS(status), 0);
    const auto text = read_file(dir_ + "/seen");
    return text ? *text : std::string("the hook failed");
  }
  int run_as_container() const {
    const std::string root = dir_ + "/bundle/rootfs";
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 2;
    if (::mount(root.c_str(), root.c_str(), nullptr, MS_BIND, nullptr) != 0) return 2;
    const std::string target = root + "/etc/ld.so.preload";
    if (!file_exists(target) && !write_file_atomic(target, "", 0644)) return 3;  // the runtime makes mount points
    if (::mount((dir_ + "/guard-preload").c_str(), target.c_str(), nullptr, MS_BIND, nullptr) != 0) return 3;
    const auto done =
        run_preload_hook(R"({"id":"c1","bundle":")" + dir_ + R"(/bundle"})", dir_ + "/guard-preload", dir_ + "/work");
    if (!done) return 4;
    const auto text = read_file(target);
    if (!text || ::access(target.c_str(), W_OK) == 0) return 5;
    return write_file_atomic(dir_ + "/seen", *text, 0644) ? 0 : 6;
  }
  std::string dir_;
};

TEST_F(HookTest, AnImageWithItsOwnPreloadKeepsIt) {
  ASSERT_TRUE(write_file_atomic(dir_ + "/bundle/rootfs/etc/ld.so.preload", "/lib/own.so\n", 0644));
  const auto seen = preload_in_container();
  if (!seen) GTEST_SKIP() << "no mount namespaces here";
  EXPECT_EQ(*seen, kGuard + "/lib/own.so\n");
}

TEST_F(HookTest, APreloadBehindALinkIsReadInsideTheImage) {
  ASSERT_TRUE(make_directories(dir_ + "/bundle/rootfs/opt", 0755));
  ASSERT_TRUE(write_file_atomic(dir_ + "/bundle/rootfs/opt/preload", "/lib/linked.so\n", 0644));
  ASSERT_EQ(::symlink("/opt/preload", (dir_ + "/bundle/rootfs/etc/ld.so.preload").c_str()), 0);
  const auto merged = image_preload(dir_ + "/bundle/rootfs");
  if (!merged && merged.error().code == Code::kPermissionDenied) GTEST_SKIP() << "no mounts here";
  ASSERT_TRUE(merged) << merged.error().text();
  EXPECT_EQ(*merged, "/lib/linked.so\n");
}

}  // namespace
}  // namespace heddle::agent
