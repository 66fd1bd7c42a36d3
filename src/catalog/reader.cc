#include "catalog/reader.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/quantity.h"
#include "base/yaml.h"

namespace heddle::catalog {

struct TreeNode {
  enum class Kind : uint8_t { kNull, kText, kList, kMap };
  Kind kind = Kind::kNull;
  int64_t line = 0;
  std::string text;
  bool quoted = false;
  std::vector<std::string> keys;  // of a map, beside its items
  std::vector<TreeNode> items;
  // Keys that a reader asked for; free_keys: any key is fine.
  mutable std::set<std::string, std::less<>> known;
  mutable bool free_keys = false;
};

namespace {

constexpr int kMaxDepth = 32;
constexpr int64_t kMaxNodes = 1'000'000;

// Thrown by convert() only, and caught in Tree::parse().
struct Refused {
  int64_t line;
  std::string what;
};

TreeNode convert(const YAML::Node& from, int depth, int64_t& budget) {
  TreeNode node;
  node.line = from.Mark().line + 1;
  if (depth > kMaxDepth) throw Refused{node.line, "nested more than 32 levels deep"};
  if (--budget < 0) throw Refused{node.line, "more than a million values"};
  if (from.IsScalar()) {
    node.kind = TreeNode::Kind::kText;
    node.text = from.Scalar();
    node.quoted = from.Tag() == "!";
  } else if (from.IsSequence()) {
    node.kind = TreeNode::Kind::kList;
    for (const auto& item : from) node.items.push_back(convert(item, depth + 1, budget));
  } else if (from.IsMap()) {
    node.kind = TreeNode::Kind::kMap;
    std::set<std::string> seen;
    for (const auto& entry : from) {
      const int64_t line = entry.first.Mark().line + 1;
      if (!entry.first.IsScalar()) throw Refused{line, "a key that is not a text"};
      if (!seen.insert(entry.first.Scalar()).second) {
        throw Refused{line, fmt::format("the key '{}' is there twice", entry.first.Scalar())};
      }
      node.keys.push_back(entry.first.Scalar());
      node.items.push_back(convert(entry.second, depth + 1, budget));
      node.items.back().line = line;
    }
  }
  return node;
}

const char* kind_name(TreeNode::Kind kind) {
  switch (kind) {
    case TreeNode::Kind::kNull:
      return "nothing";
    case TreeNode::Kind::kText:
      return "a text";
    case TreeNode::Kind::kList:
      return "a list";
    case TreeNode::Kind::kMap:
      return "a map";
  }
  return "nothing";
}

std::string join_path(const std::string& path, std::string_view key) {
  const bool plain = std::ranges::all_of(
      key, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; });
  if (!plain) return fmt::format("{}[\"{}\"]", path, key);
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

// Whether YAML (1.2, core schema) reads a text without quotes as a number or a truth value. Nulls never come here.
bool is_number_or_flag(std::string_view text) {
  for (const std::string_view flag : {"true", "True", "TRUE", "false", "False", "FALSE"}) {
    if (text == flag) return true;
  }
  if (text.starts_with("0x") || text.starts_with("0o")) {
    const std::string_view digits = text[1] == 'x' ? "0123456789abcdefABCDEF" : "01234567";
    return text.size() > 2 && text.find_first_not_of(digits, 2) == std::string_view::npos;
  }
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  for (const std::string_view word : {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"}) {
    if (text == word) return true;
  }
  // from_chars takes "inf" and "nan" too, which YAML reads as texts.
  if (text.empty() || (std::isdigit(static_cast<unsigned char>(text.front())) == 0 && text.front() != '.'))
    return false;
  double number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec != std::errc::invalid_argument && parsed.ptr == text.data() + text.size();
}

size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  size_t best_distance = word.size() / 2 + 1;
  for (const std::string& candidate : candidates) {
    const size_t d = distance(word, candidate);
    if (d < best_distance) {
      best = &candidate;
      best_distance = d;
    }
  }
  return best == nullptr ? std::string() : *best;
}

Value::Value(Tree* tree, const TreeNode* node, std::string path, int64_t line)
    : tree_(tree), node_(node), path_(std::move(path)), line_(line) {}

bool Value::present() const {
  return node_ != nullptr && node_->kind != TreeNode::Kind::kNull;
}

bool Value::is_map() const {
  return node_ != nullptr && node_->kind == TreeNode::Kind::kMap;
}

bool Value::is_list() const {
  return node_ != nullptr && node_->kind == TreeNode::Kind::kList;
}

Value Value::operator[](std::string_view key) const {
  std::string path = join_path(path_, key);
  if (!is_map()) {
    if (present()) wrong("must be a map");
    return {tree_, nullptr, std::move(path), line_};
  }
  node_->known.emplace(key);
  const auto found = std::ranges::find(node_->keys, key);
  if (found == node_->keys.end()) return {tree_, nullptr, std::move(path), line_};
  const TreeNode& item = node_->items[static_cast<size_t>(found - node_->keys.begin())];
  return {tree_, &item, std::move(path), item.line};
}

Value Value::required(std::string_view key) const {
  Value value = (*this)[key];
  if (value.node_ == nullptr && (is_map() || !present())) value.wrong("is missing");
  return value;
}

std::string Value::text() const {
  if (!present()) return {};
  if (node_->kind != TreeNode::Kind::kText) {
    wrong(fmt::format("must be a text, not {}", kind_name(node_->kind)));
    return {};
  }
  if (node_->text.empty()) wrong("must not be empty");
  if (!node_->quoted && is_number_or_flag(node_->text)) {
    wrong(fmt::format("must be a text: write it in quotes, \"{}\"", node_->text));
  }
  return node_->text;
}

std::optional<int64_t> Value::integer() const {
  if (!present()) return {};
  int64_t number = 0;
  const std::string& text = node_->text;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (node_->kind != TreeNode::Kind::kText || node_->quoted || error != std::errc() ||
      end != text.data() + text.size()) {
    wrong("must be a whole number within 64 bits");
    return {};
  }
  return number;
}

std::optional<int64_t> Value::integer_in(int64_t low, int64_t high) const {
  const auto number = integer();
  if (number && (*number < low || *number > high)) {
    wrong(fmt::format("must be within {} and {}, not {}", low, high, *number));
    return {};
  }
  return number;
}

std::optional<bool> Value::flag() const {
  if (!present()) return {};
  if (node_->kind == TreeNode::Kind::kText && !node_->quoted) {
    if (node_->text == "true") return true;
    if (node_->text == "false") return false;
  }
  wrong("must be true or false");
  return {};
}

std::optional<int64_t> Value::bytes() const {
  if (!present()) return {};
  if (node_->kind == TreeNode::Kind::kText) {
    const auto quantity = Quantity::parse(node_->text);
    if (quantity && quantity->is_integer() && quantity->sign() >= 0 && quantity->value()) return quantity->value();
  }
  wrong("must be a number of bytes, such as 40960Mi");
  return {};
}

std::vector<std::string> Value::texts() const {
  if (!present()) return {};
  if (node_->kind == TreeNode::Kind::kText) return {text()};
  std::vector<std::string> out;
  each([&](const Value& item) { out.push_back(item.text()); });
  return out;
}

std::map<std::string, int64_t> Value::integer_map() const {
  std::map<std::string, int64_t> out;
  each_member([&](std::string_view key, const Value& value) {
    if (const auto number = value.integer()) out.emplace(key, *number);
  });
  return out;
}

void Value::each(const std::function<void(const Value&)>& item) const {
  if (!present()) return;
  if (!is_list()) {
    wrong(fmt::format("must be a list, not {}", kind_name(node_->kind)));
    return;
  }
  for (size_t i = 0; i < node_->items.size(); ++i) {
    item(Value(tree_, &node_->items[i], fmt::format("{}[{}]", path_, i), node_->items[i].line));
  }
}

void Value::each_member(const std::function<void(std::string_view, const Value&)>& member) const {
  if (!present()) return;
  if (!is_map()) {
    wrong(fmt::format("must be a map, not {}", kind_name(node_->kind)));
    return;
  }
  node_->free_keys = true;
  for (size_t i = 0; i < node_->items.size(); ++i) {
    member(node_->keys[i], Value(tree_, &node_->items[i], join_path(path_, node_->keys[i]), node_->items[i].line));
  }
}

void Value::wrong(std::string_view what) const {
  tree_->report(*this, what);
}

std::string Value::path() const {
  return path_;
}

int64_t Value::line() const {
  return line_;
}

const std::string& Value::file() const {
  return tree_->file_;
}

Tree::Tree() = default;
Tree::~Tree() = default;

Result<std::unique_ptr<Tree>> Tree::parse(std::string_view text, std::string file) {
  std::unique_ptr<Tree> tree(new Tree());
  tree->file_ = std::move(file);
  const auto refuse = [&](int64_t line, std::string_view what) {
    return fail(Code::kInvalidArgument, fmt::format("{}:{}: {}", tree->file_, line, what));
  };
  const std::string whole(text);
  if (const auto trouble = yaml_trouble(whole)) return refuse(trouble->line, trouble->what);
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(whole);
    if (documents.size() != 1 || !documents.front().IsMap()) return refuse(1, "must be one YAML map");
    int64_t budget = kMaxNodes;
    tree->root_ = std::make_unique<TreeNode>(convert(documents.front(), 0, budget));
  } catch (const YAML::Exception& error) {
    return refuse(error.mark.line + 1, error.msg);
  } catch (const Refused& error) {
    return refuse(error.line, error.what);
  }
  return tree;
}

Value Tree::root() {
  return {this, root_.get(), "", 1};
}

void Tree::report(const Value& value, std::string_view what) {
  const std::string path = value.path();
  troubles_.push_back(
      {value.line(), fmt::format("{}:{}: {}{}{}", file_, value.line(), path, path.empty() ? "" : ": ", what)});
}

Result<void> Tree::finish() {
  const std::function<void(const Value&)> look = [&](const Value& value) {
    const TreeNode* node = value.node_;
    for (size_t i = 0; i < node->items.size(); ++i) {
      const bool map = node->kind == TreeNode::Kind::kMap;
      const Value item(this, &node->items[i],
                       map ? join_path(value.path_, node->keys[i]) : fmt::format("{}[{}]", value.path_, i),
                       node->items[i].line);
      if (!map || node->free_keys || node->known.contains(node->keys[i])) {
        if (!item.present()) report(item, "has no value: write one, or leave it out");
        look(item);
        continue;
      }
      if (node->known.empty()) continue;  // nobody read this map: its owner has said why
      const std::string meant = nearest(node->keys[i], {node->known.begin(), node->known.end()});
      report(item, meant.empty() ? std::string("is not a known key")
                                 : fmt::format("is not a known key; did you mean '{}'?", meant));
    }
  };
  look(root());
  if (troubles_.empty()) return {};
  std::ranges::stable_sort(troubles_, {}, &Trouble::line);
  std::string text;
  for (const Trouble& trouble : troubles_) text += (text.empty() ? "" : "\n") + trouble.text;
  return fail(Code::kInvalidArgument, text);
}

}  // namespace heddle::catalog
