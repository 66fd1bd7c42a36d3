#include <fmt/format.h>

#include <cstdio>

#include "base/print.h"
#include "cli/layout.h"
#include "cli/planning.h"
#include "cli/verbs.h"

namespace heddle::cli {

int plan(const PlanArgs& args) {
  std::vector<FleetText> texts;
  for (const std::string& file : args.files) {
    auto text = read_input(file);
    if (!text) return report_one_line(text.error());
    texts.push_back({file == "-" ? "standard input" : file, *std::move(text)});
  }
  auto fleet = read_fleet(texts);
  if (!fleet) return report_one_line(fleet.error());
  const auto plan = plan_fleet(*std::move(fleet), SystemClock().now());
  if (!plan) return report_one_line(plan.error());
  for (const std::string& note : plan->notes) print_to(stderr, "heddle: {}\n", printable(note));
  if (args.output == Output::kJson) {
    print_out("{}\n", plan_json(*plan));
  } else {
    print_out("{}", plan_table(*plan, 0));
  }
  return plan->pending.empty() ? 0 : kNo;
}

}  // namespace heddle::cli
