#include "codec/json_reader.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle::codec {
namespace dom = simdjson::dom;

namespace {

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace

Result<std::unique_ptr<Document>> Document::parse(std::string_view json) {
  std::unique_ptr<Document> document(new Document());
  const auto error = document->parser_.parse(json.data(), json.size()).get(document->root_);
  if (error != simdjson::SUCCESS) {
    return fail(Code::kInvalidArgument, std::string("not valid JSON: ") + simdjson::error_message(error));
  }
  if (!document->root_.is_object()) return fail(Code::kInvalidArgument, "not a JSON object");
  return document;
}

JsonValue Document::root() {
  return {*this, root_, 0};
}

size_t Document::add_place(Place place) {
  places_.push_back(place);
  return places_.size() - 1;
}

std::string Document::path_of(size_t place) const {
  std::vector<const Place*> way;
  for (; place != 0; place = places_[place].parent) way.push_back(&places_[place]);
  std::string path;
  std::for_each(way.rbegin(), way.rend(), [&](const Place* step) {
    if (step->index >= 0) {
      path += fmt::format("[{}]", step->index);
    } else if (step->bracket) {
      path += fmt::format("[{}]", step->key);
    } else {
      path += path.empty() ? std::string(step->key) : fmt::format(".{}", step->key);
    }
  });
  return path;
}

void Document::report(size_t place, std::string_view what) {
  if (!trouble_) trouble_ = Error{Code::kInvalidArgument, std::string(what), path_of(place)};
}

void JsonValue::wrong(std::string_view what) const {
  document_->report(place_, what);
}

JsonValue JsonValue::operator[](std::string_view key) const {
  const size_t place = document_->add_place({.parent = place_, .key = key});
  if (!element_) return {*document_, std::nullopt, place};
  dom::object object;
  if (element_->get(object) != simdjson::SUCCESS) {
    wrong("must be an object");
    return {*document_, std::nullopt, place};
  }
  dom::element child;
  if (object.at_key(key).get(child) != simdjson::SUCCESS || child.is_null()) return {*document_, std::nullopt, place};
  return {*document_, child, place};
}

std::string JsonValue::text() const {
  if (!element_) return {};
  std::string_view text;
  if (element_->get(text) != simdjson::SUCCESS) wrong("must be a string");
  return std::string(text);
}

bool JsonValue::flag() const {
  bool flag = false;
  if (element_ && element_->get(flag) != simdjson::SUCCESS) wrong("must be true or false");
  return flag;
}

std::optional<int64_t> JsonValue::integer() const {
  if (!element_) return std::nullopt;
  int64_t number = 0;
  if (element_->type() == dom::element_type::DOUBLE || element_->get(number) != simdjson::SUCCESS) {
    wrong("must be a whole number of 64 bits");
    return std::nullopt;
  }
  return number;
}

std::optional<Quantity> JsonValue::quantity() const {
  if (!element_) return std::nullopt;
  std::string text;
  std::string_view string;
  int64_t whole = 0;
  uint64_t large = 0;
  double real = 0;
  if (element_->get(string) == simdjson::SUCCESS) {
    text = trim(string);
  } else if (element_->type() == dom::element_type::INT64 && element_->get(whole) == simdjson::SUCCESS) {
    text = std::to_string(whole);
  } else if (element_->type() == dom::element_type::UINT64 && element_->get(large) == simdjson::SUCCESS) {
    text = std::to_string(large);
  } else if (element_->type() == dom::element_type::DOUBLE && element_->get(real) == simdjson::SUCCESS) {
    text = fmt::format("{}", real);  // the shortest text that means this number
  } else {
    wrong("must be a quantity, such as \"16Gi\"");
    return std::nullopt;
  }
  auto quantity = Quantity::parse(text);
  if (!quantity) {
    wrong(quantity.error().message);
    return std::nullopt;
  }
  return *std::move(quantity);
}

std::optional<Time> JsonValue::time() const {
  if (!element_) return std::nullopt;
  const std::string written = text();
  const auto time = parse_rfc3339(written);
  if (!time) {
    wrong(time.error().message);
    return std::nullopt;
  }
  return *time;
}

std::vector<std::string> JsonValue::texts() const {
  std::vector<std::string> result;
  each([&](const JsonValue& item) { result.push_back(item.text()); });
  return result;
}

std::map<std::string, std::string> JsonValue::text_map() const {
  std::map<std::string, std::string> result;
  each_member([&](std::string_view key, const JsonValue& value) { result[std::string(key)] = value.text(); });
  return result;
}

std::map<std::string, Quantity> JsonValue::quantity_map() const {
  std::map<std::string, Quantity> result;
  each_member([&](std::string_view key, const JsonValue& value) {
    result[std::string(key)] = value.quantity().value_or(Quantity());
  });
  return result;
}

std::string JsonValue::raw() const {
  return element_ ? simdjson::minify(*element_) : std::string();
}

void JsonValue::each(const std::function<void(const JsonValue&)>& item) const {
  if (!element_) return;
  dom::array array;
  if (element_->get(array) != simdjson::SUCCESS) return wrong("must be a list");
  int64_t index = 0;
  for (const dom::element element : array) {
    const size_t place = document_->add_place({.parent = place_, .key = {}, .index = index++});
    item({*document_, element.is_null() ? std::nullopt : std::optional(element), place});
  }
}

void JsonValue::each_member(const std::function<void(std::string_view, const JsonValue&)>& member) const {
  if (!element_) return;
  dom::object object;
  if (element_->get(object) != simdjson::SUCCESS) return wrong("must be an object");
  for (const dom::key_value_pair field : object) {
    const size_t place = document_->add_place({.parent = place_, .key = field.key, .index = -1, .bracket = true});
    member(field.key, {*document_, field.value.is_null() ? std::nullopt : std::optional(field.value), place});
  }
}

}  // namespace heddle::codec
