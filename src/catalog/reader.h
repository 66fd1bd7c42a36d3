// Strict reading of the catalogue's YAML: every error names file, line and field path, and a key that no reader asked
// for is refused with the nearest known one. yaml-cpp is behind reader.cc.
//
// Troubles are collected, and reading goes on with empty values, so that a reader is a plain list of fields and a
// person sees all that is wrong at once; the caller asks finish() at the end.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace heddle::catalog {

class Tree;
struct TreeNode;

// One place in the file; absent when the key is not there or null.
class Value {
 public:
  [[nodiscard]] bool present() const;
  [[nodiscard]] bool is_map() const;
  [[nodiscard]] bool is_list() const;
  // A key of a map, which is known from now on. Absent for any other value.
  Value operator[](std::string_view key) const;
  // The same; its absence is a trouble.
  [[nodiscard]] Value required(std::string_view key) const;

  // Absent gives the empty value. A value of another type is a trouble.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::optional<int64_t> integer() const;
  // As integer(), and outside low..high is a trouble.
  [[nodiscard]] std::optional<int64_t> integer_in(int64_t low, int64_t high) const;
  [[nodiscard]] std::optional<bool> flag() const;
  // A Kubernetes quantity of whole bytes, such as 40960Mi.
  [[nodiscard]] std::optional<int64_t> bytes() const;
  // A list of texts; one text alone is a list of one.
  [[nodiscard]] std::vector<std::string> texts() const;
  [[nodiscard]] std::map<std::string, int64_t> integer_map() const;

  void each(const std::function<void(const Value&)>& item) const;
  // For maps whose keys are free: in the order of the file.
  void each_member(const std::function<void(std::string_view, const Value&)>& member) const;

  // Reports what is wrong with this value.
  void wrong(std::string_view what) const;
  // "models[2].memory"; empty at the root.
  [[nodiscard]] std::string path() const;
  // From 1; of an absent value, that of what it is missing from.
  [[nodiscard]] int64_t line() const;
  [[nodiscard]] const std::string& file() const;

 private:
  friend class Tree;
  Value(Tree* tree, const TreeNode* node, std::string path, int64_t line);

  Tree* tree_;
  const TreeNode* node_;  // null: absent
  std::string path_;
  int64_t line_;
};

// Owns one parsed document. Not thread-safe; values must not outlive it.
class Tree {
 public:
  // file: the name for messages. Errors: kInvalidArgument when the text is not one YAML map, repeats a key, nests more
  // than 32 levels, or holds more than a million values.
  static Result<std::unique_ptr<Tree>> parse(std::string_view text, std::string file);
  ~Tree();
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  [[nodiscard]] Value root();
  // kInvalidArgument with one line a trouble, "file:line: path: what", in the order of lines.
  Result<void> finish();

 private:
  friend class Value;
  struct Trouble {
    int64_t line;
    std::string text;
  };
  Tree();
  void report(const Value& value, std::string_view what);

  std::string file_;
  std::unique_ptr<TreeNode> root_;
  std::vector<Trouble> troubles_;
};

// The candidate nearest to the word by edit distance, when it is near enough to be meant; else empty.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace heddle::catalog
