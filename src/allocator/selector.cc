#include "allocator/selector.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace heddle::allocator {
namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  Result<std::vector<Selector::Condition>> conditions() {
    std::vector<Selector::Condition> result;
    do {
      HEDDLE_TRY(Selector::Condition condition, this->condition());
      result.push_back(std::move(condition));
    } while (take("&&"));
    skip_space();
    if (!rest_.empty()) return unexpected();
    return result;
  }

 private:
  void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }

  bool take(std::string_view token) {
    skip_space();
    if (!rest_.starts_with(token)) return false;
    // A word must end where the token ends: "in" is not the start of "index".
    if (is_name_char(token.back()) && rest_.size() > token.size() && is_name_char(rest_[token.size()])) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  tl::unexpected<Error> unexpected() const {
    return fail(Code::kUnsupported,
                "selector not supported by this version at \"" + std::string(rest_.substr(0, 40)) +
                    "\"; use device.driver == \"...\" or device.attributes[\"domain\"].name == literal, or "
                    "in [literals], joined by &&");
  }

  Result<Selector::Condition> condition() {
    Selector::Condition condition;
    if (!take("device") || !take(".")) return unexpected();
    if (take("attributes")) {
      if (!take("[")) return unexpected();
      HEDDLE_TRY(const std::string domain, string());
      if (!take("]") || !take(".")) return unexpected();
      const std::string name = this->name();
      if (domain.empty() || name.empty()) return unexpected();
      condition.attribute = domain + "/" + name;
    } else if (!take("driver")) {
      return unexpected();
    }
    HEDDLE_TRY(condition.any_of, values());
    if (condition.attribute.empty()) {
      const auto text = [](const Selector::Literal& literal) { return std::holds_alternative<std::string>(literal); };
      if (!std::all_of(condition.any_of.begin(), condition.any_of.end(), text)) {
        return fail(Code::kInvalidArgument, "device.driver is a string: compare it with a string");
      }
    }
    return condition;
  }

  Result<std::vector<Selector::Literal>> values() {
    std::vector<Selector::Literal> result;
    if (take("==")) {
      HEDDLE_TRY(Selector::Literal value, literal());
      result.push_back(std::move(value));
      return result;
    }
    if (!take("in") || !take("[")) return unexpected();
    if (take("]")) return result;
    do {
      HEDDLE_TRY(Selector::Literal value, literal());
      result.push_back(std::move(value));
    } while (take(","));
    if (!take("]")) return unexpected();
    return result;
  }

  Result<Selector::Literal> literal() {
    if (take("true")) return Selector::Literal(true);
    if (take("false")) return Selector::Literal(false);
    skip_space();
    if (rest_.starts_with('"') || rest_.starts_with('\'')) {
      HEDDLE_TRY(std::string text, string());
      return Selector::Literal(std::move(text));
    }
    int64_t number = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
    if (error != std::errc{}) return unexpected();
    const auto length = static_cast<size_t>(end - rest_.data());
    // 1.5, 0x10, 1u and 1e3 are other literals of CEL.
    if (length < rest_.size() && (rest_[length] == '.' || is_name_char(rest_[length]))) return unexpected();
    rest_.remove_prefix(length);
    return Selector::Literal(number);
  }

  std::string name() {
    skip_space();
    size_t length = 0;
    while (length < rest_.size() && is_name_char(rest_[length])) ++length;
    std::string name(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return name;
  }

  Result<std::string> string() {
    skip_space();
    if (rest_.empty() || (rest_[0] != '"' && rest_[0] != '\'')) return unexpected();
    const std::string_view start = rest_;
    const char quote = rest_[0];
    std::string value;
    for (size_t i = 1; i < rest_.size(); ++i) {
      char c = rest_[i];
      if (c == quote) {
        rest_.remove_prefix(i + 1);
        return value;
      }
      if (c == '\n') break;
      if (c == '\\') {
        ++i;
        if (i == rest_.size() || (rest_[i] != '\\' && rest_[i] != '"' && rest_[i] != '\'')) return unexpected();
        c = rest_[i];
      }
      value.push_back(c);
    }
    rest_ = start;
    return fail(Code::kInvalidArgument, "selector has a string without an end: " + std::string(start.substr(0, 40)));
  }

  std::string_view rest_;
};

bool equals(const model::AttributeValue& attribute, const Selector::Literal& literal) {
  if (const auto* number = std::get_if<int64_t>(&literal)) {
    const auto* actual = std::get_if<int64_t>(&attribute);
    return actual != nullptr && *actual == *number;
  }
  if (const auto* flag = std::get_if<bool>(&literal)) {
    const auto* actual = std::get_if<bool>(&attribute);
    return actual != nullptr && *actual == *flag;
  }
  const auto* actual = std::get_if<std::string>(&attribute);
  return actual != nullptr && *actual == std::get<std::string>(literal);
}

}  // namespace

Result<Selector> Selector::compile(std::string_view expression) {
  if (expression.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return fail(Code::kInvalidArgument, "selector is empty or of a kind that this version does not know");
  }
  HEDDLE_TRY(std::vector<Condition> conditions, Parser(expression).conditions());
  Selector selector;
  selector.conditions_ = std::move(conditions);
  return selector;
}

bool Selector::matches(const std::string& driver, const model::Device& device) const {
  return std::all_of(conditions_.begin(), conditions_.end(), [&](const Condition& condition) {
    const model::AttributeValue name = driver;
    const model::AttributeValue* value =
        condition.attribute.empty() ? &name : model::find_attribute(device, driver, condition.attribute);
    return value != nullptr && std::any_of(condition.any_of.begin(), condition.any_of.end(),
                                           [&](const Literal& literal) { return equals(*value, literal); });
  });
}

}  // namespace heddle::allocator
