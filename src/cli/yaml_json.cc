#include "cli/yaml_json.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>

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
  auto number = Json::parse(text, nullptr, false);
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

// After a document that ends too early, as in `{a: b}, c`, yaml-cpp 0.7 starts one empty document after the other at
// the same place, for ever. This throws at the second.
class Progress : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (mark.pos == last_) throw YAML::ParserException(mark, "nothing may follow the end of a document but '---'");
    last_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnAlias(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnScalar(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                const std::string& /*value*/) override {}
  void OnSequenceStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {}
  void OnMapEnd() override {}

 private:
  int last_ = -1;
};

void check_documents(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Progress progress;
  while (parser.HandleNextDocument(progress)) {
  }
}

}  // namespace

Result<std::vector<std::string>> yaml_to_json(const std::string& text, int64_t max_values) {
  try {
    check_documents(text);
    std::vector<std::string> documents;
    for (const auto& document : YAML::LoadAll(text)) {
      if (document.IsNull()) continue;
      int64_t budget = max_values;  // a document of aliases to aliases is small and means billions
      documents.push_back(convert(document, 0, budget).dump(-1, ' ', false, Json::error_handler_t::replace));
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
