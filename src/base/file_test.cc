#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/temporary_folder.h"

namespace heddle {
namespace {

class FileTest : public testing::Test {
 protected:
  const TemporaryFolder folder_of_test_;
  const std::string root_ = folder_of_test_.path();
};

TEST_F(FileTest, AWriteReplacesTheWholeFileAndLeavesNothingBeside) {
  const std::string path = root_ + "/file";
  ASSERT_TRUE(write_file_atomic(path, "long first content", 0600));
  ASSERT_TRUE(write_file_atomic(path, "second", 0640));
  EXPECT_EQ(read_file(path).value(), "second");
  EXPECT_EQ(list_directory(root_).value(), std::vector<std::string>{"file"});
  struct stat info{};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640U);
}

TEST_F(FileTest, AFailedWriteLeavesTheOldFileAndNoTemporary) {
  ASSERT_TRUE(make_directories(root_ + "/target/inner", 0755));
  const auto result = write_file_atomic(root_ + "/target", "text", 0600);  // a folder is in the way
  EXPECT_FALSE(result.has_value());
  EXPECT_EQ(list_directory(root_).value(), std::vector<std::string>{"target"});
}

TEST_F(FileTest, ReadersSayWhatIsWrong) {
  EXPECT_EQ(read_file(root_ + "/none").error().code, Code::kNotFound);
  EXPECT_EQ(list_directory(root_ + "/none").error().code, Code::kNotFound);
  ASSERT_TRUE(write_file_atomic(root_ + "/big", std::string(200'000, 'x'), 0600));
  EXPECT_EQ(read_file(root_ + "/big", 199'999).error().code, Code::kExhausted);
  EXPECT_EQ(read_file(root_ + "/big", 200'000)->size(), 200'000U);
}

TEST_F(FileTest, FoldersAreMadeWithTheirParents) {
  ASSERT_TRUE(make_directories(root_ + "/a/b/c", 0755));
  ASSERT_TRUE(make_directories(root_ + "/a/b/c/", 0755));
  EXPECT_TRUE(file_exists(root_ + "/a/b/c"));
  ASSERT_TRUE(write_file_atomic(root_ + "/file", "", 0600));
  EXPECT_EQ(make_directories(root_ + "/file/below", 0755).error().code, Code::kAlreadyExists);
}

TEST_F(FileTest, ATreeIsRemovedWithoutFollowingLinks) {
  ASSERT_TRUE(make_directories(root_ + "/keep", 0755));
  ASSERT_TRUE(write_file_atomic(root_ + "/keep/file", "kept", 0600));
  ASSERT_TRUE(make_directories(root_ + "/tree/deep/deeper", 0755));
  ASSERT_TRUE(write_file_atomic(root_ + "/tree/deep/file", "gone", 0600));
  ASSERT_EQ(::symlink((root_ + "/keep").c_str(), (root_ + "/tree/deep/link").c_str()), 0);
  ASSERT_TRUE(remove_tree(root_ + "/tree"));
  EXPECT_FALSE(file_exists(root_ + "/tree"));
  EXPECT_EQ(read_file(root_ + "/keep/file").value(), "kept");
  EXPECT_TRUE(remove_tree(root_ + "/tree"));
  EXPECT_TRUE(remove_file(root_ + "/none"));
}

}  // namespace
}  // namespace heddle
