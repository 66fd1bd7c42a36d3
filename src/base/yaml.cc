#include "base/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <sstream>

namespace heddle {
namespace {

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

}  // namespace

std::optional<YamlTrouble> yaml_trouble(const std::string& text) {
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    Progress progress;
    while (parser.HandleNextDocument(progress)) {
    }
    return std::nullopt;
  } catch (const YAML::Exception& error) {
    return YamlTrouble{error.mark.line + 1, error.mark.column + 1, error.msg};
  }
}

}  // namespace heddle
