#include "cli/yaml_json.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/yaml.h"

namespace heddle::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxDepth = 64;

// Thrown by convert() only, and caught in yaml_to_json().
struct TooLarge {
  const char* what;
};

Json scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  // Quoted and block scalars are strings whatever they look like; yaml-cpp marks them with the tag "!".
  if (node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str") return text;
  // The YAML 1.1 forms that kubectl's reader takes as booleans.
  for (const char* yes : {"true", "True", "TRUE"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"false", "False", "FALSE"}) {
    if (text == no) return false;
  }
  auto number = parse_ordered_json(text);
  if (number.is_number()) return number;
  return text;
}

Json convert(const YAML::Node& node, int depth, int64_t& budget) {
  if (depth > kMaxDepth) throw TooLarge{"nested more than 64 levels deep"};
  if (--budget < 0) throw TooLarge{"many millions of values"};
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      return scalar(node);
    case YAML::NodeType::Sequence: {
      Json out = Json::array();
      for (const auto& item : node) out.push_back(convert(item, depth + 1, budget));
      return out;
    }
    case YAML::NodeType::Map: {
      Json out = Json::object();
      for (const auto& entry : node) {
        if (!entry.first.IsScalar()) throw TooLarge{"a key that is not a string"};
        out[entry.first.Scalar()] = convert(entry.second, depth + 1, budget);
      }
      return out;
    }
    default:
      return nullptr;
  }
}

}  // namespace

Result<std::vector<std::string>> yaml_to_json(const std::string& text, int64_t max_values) {
  if (const auto trouble = yaml_trouble(text)) {
    return fail(Code::kInvalidArgument,
                fmt::format("line {}, column {}: {}", trouble->line, trouble->column, trouble->what));
  }
  try {
    std::vector<std::string> documents;
    for (const auto& document : YAML::LoadAll(text)) {
      if (document.IsNull()) continue;
      int64_t budget = max_values;  // a document of aliases to aliases is small and means billions
      documents.push_back(dump_json(convert(document, 0, budget)));
    }
    return documents;
  } catch (const YAML::Exception& error) {
    return fail(Code::kInvalidArgument,
                fmt::format("line {}, column {}: {}", error.mark.line + 1, error.mark.column + 1, error.msg));
  } catch (const TooLarge& error) {
    return fail(Code::kInvalidArgument, error.what);
  }
}

}  // namespace heddle::cli
