#include <fmt/format.h>

#include <cstdio>

#include "base/print.h"
#include "cel/program.h"
#include "cli/feature_gates.h"
#include "cli/verbs.h"
#include "cli/yaml_json.h"
#include "codec/codec.h"

namespace heddle::cli {
namespace {

Result<bool> evaluate(const CelArgs& args, const allocator::Features& features) {
  HEDDLE_TRY(const std::string text, read_input(args.device_file));
  const auto documents = yaml_to_json(text);
  if (!documents) return fail(documents.error().code, documents.error().text(), args.device_file);
  if (documents->size() != 1) {
    return fail(Code::kInvalidArgument, "must hold one Device object", args.device_file);
  }
  auto device = codec::parse_device(documents->front());
  if (!device) return fail(device.error().code, device.error().text(), args.device_file);
  const bool stored = args.environment == cel::Mode::kStored;
  const cel::Environment environment({.mode = args.environment,
                                      .consumable_capacity = stored || features.consumable_capacity,
                                      .list_attributes = stored || features.list_attributes});
  HEDDLE_TRY(const auto program, cel::Program::compile(args.expression, environment));
  const cel::DeviceView view(*device, args.driver);
  return cel::Evaluator().matches(*program, view);
}

}  // namespace

int evaluate_cel(const CelArgs& args) {
  const auto features = parse_feature_gates(args.feature_gates);
  if (!features) return report(features.error());
  const auto result = evaluate(args, *features);
  if (!result) return report_one_line(result.error());
  print_out("{{\"result\":{}}}\n", *result);
  return 0;
}

}  // namespace heddle::cli
