// Answers what the Go tests ask, one JSON object a line on stdin and stdout: quantities, versions, what requests take
// of a capacity, and what selectors may cost. For tests/conformance only.
#include <iostream>
#include <nlohmann/json.hpp>

#include "allocator/capacity.h"
#include "base/quantity.h"
#include "base/semver.h"
#include "cel/program.h"
#include "codec/codec.h"

namespace {

namespace allocator = heddle::allocator;
namespace cel = heddle::cel;
using heddle::Quantity;
using heddle::Semver;
using Json = nlohmann::json;

Json error(const heddle::Error& error) {
  return {{"error", error.text()}};
}

template <typename T>
Json number_or_null(const std::optional<T>& number) {
  return number ? Json(*number) : Json();
}

Json quantity(const Json& question) {
  const auto parsed = Quantity::parse(question.at("text").get<std::string>());
  if (!parsed) return error(parsed.error());
  return {{"text", parsed->to_string()},
          {"value", number_or_null(parsed->value())},
          {"milli", number_or_null(parsed->milli_value())},
          {"sign", parsed->sign()}};
}

Json quantities(const Json& question) {
  const auto a = Quantity::parse(question.at("a").get<std::string>());
  const auto b = Quantity::parse(question.at("b").get<std::string>());
  if (!a || !b) return error(a ? b.error() : a.error());
  const auto sum = a->plus(*b);
  return {{"order", a->compare(*b)}, {"sum", sum ? Json(sum->to_string()) : Json()}};
}

heddle::Result<Semver> parse_version(const Json& question, const char* key) {
  const auto text = question.at(key).get<std::string>();
  return question.value("normalize", false) ? Semver::parse_normalized(text) : Semver::parse(text);
}

Json version(const Json& question) {
  const auto parsed = parse_version(question, "text");
  if (!parsed) return error(parsed.error());
  return {{"text", parsed->to_string()},
          {"major", parsed->major_number()},
          {"minor", parsed->minor_number()},
          {"patch", parsed->patch_number()}};
}

Json versions(const Json& question) {
  const auto a = parse_version(question, "a");
  const auto b = parse_version(question, "b");
  if (!a || !b) return error(a ? b.error() : a.error());
  return {{"order", a->compare(*b)}};
}

// "capacity": DeviceCapacity by name; "requests": quantities by name. What the request takes, whether it violates a
// policy or is more than there is.
Json consume(const Json& question) {
  const Json object = {{"name", "d"}, {"capacity", question.at("capacity")}};
  const auto device = heddle::codec::parse_device(object.dump());
  if (!device) return error(device.error());
  const auto shape = allocator::make_shape(*device);
  if (!shape) return error(shape.error());
  std::map<std::string, Quantity> requests;
  for (const auto& [name, text] : question.at("requests").items()) {
    const auto parsed = Quantity::parse(text.get<std::string>());
    if (!parsed) return error(parsed.error());
    requests.emplace(name, *parsed);
  }
  const auto taken = allocator::consume(*shape, requests, std::nullopt,
                                        {.fractional_capacity_range = question.value("fractional", true)});
  if (!taken) return error(taken.error());
  Json consumed = Json::object();
  for (size_t i = 0; i < taken->quantities.size(); ++i) {
    consumed[shape->capacities[i].name] = taken->quantities[i].to_string();
  }
  return {{"possible", taken->possible}, {"consumed", consumed}};
}

// Of a value that is taken as it is, not rounded.
Json violates(const Json& question) {
  const Json object = {{"name", "d"}, {"capacity", question.at("capacity")}};
  const auto device = heddle::codec::parse_device(object.dump());
  if (!device) return error(device.error());
  const auto taken = Quantity::parse(question.at("taken").get<std::string>());
  if (!taken) return error(taken.error());
  const allocator::Features features{.fractional_capacity_range = question.value("fractional", true)};
  const auto& policy = device->capacity.begin()->second.policy;
  const bool range = policy && policy->valid_range;
  return {{"violates", policy && allocator::violates(*policy, *taken, features)},
          {"milli", range && allocator::counts_in_milli(*policy->valid_range, features)}};
}

// "expression" against "device", of "driver": what it evaluates to and what that was charged.
Json evaluate(const Json& question) {
  const cel::Environment environment;
  const auto program = cel::Program::compile(question.at("expression").get<std::string>(), environment);
  if (!program) return error(program.error());
  const auto device = heddle::codec::parse_device(question.at("device").dump());
  if (!device) return error(device.error());
  const auto driver = question.at("driver").get<std::string>();
  const cel::DeviceView view(*device, driver);
  cel::Evaluator evaluator;
  const auto matched = evaluator.matches(**program, view);
  if (!matched) return error(matched.error());
  return {{"matches", *matched}, {"cost", evaluator.last_cost()}};
}

// "expression", "new": as at admission, with the gates "capacity" and "lists". What it may cost.
Json estimate(const Json& question) {
  const bool at_admission = question.value("new", false);
  const cel::Environment environment({.mode = at_admission ? cel::Mode::kNew : cel::Mode::kStored,
                                      .consumable_capacity = question.value("capacity", true),
                                      .list_attributes = question.value("lists", false)});
  const auto expression = question.at("expression").get<std::string>();
  const auto program = cel::Program::compile(expression, environment);
  if (!program) return error(program.error());
  const auto cost = cel::Program::estimate(expression, environment);
  if (!cost) return error(cost.error());
  return {{"min", cost->min}, {"max", cost->max}};
}

Json answer(const Json& question) {
  const auto op = question.at("op").get<std::string>();
  if (op == "quantity") return quantity(question);
  if (op == "quantities") return quantities(question);
  if (op == "version") return version(question);
  if (op == "versions") return versions(question);
  if (op == "consume") return consume(question);
  if (op == "violates") return violates(question);
  if (op == "estimate") return estimate(question);
  if (op == "evaluate") return evaluate(question);
  return {{"error", "unknown op " + op}};
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << answer(Json::parse(line)).dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  }
  return 0;
}
