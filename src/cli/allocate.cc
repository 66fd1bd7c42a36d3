#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/print.h"
#include "base/random.h"
#include "cli/allocation.h"
#include "cli/feature_gates.h"
#include "cli/verbs.h"

namespace heddle::cli {

int allocate(const AllocateArgs& args) {
  auto features = parse_feature_gates(args.feature_gates);
  if (!features) return report(features.error());
  auto text = read_input(args.file);
  if (!text) return report_one_line(text.error());
  const auto seed = random_seed();
  if (!seed) return report_one_line(seed.error());
  const auto output = allocate_objects({.objects = *std::move(text),
                                        .node = args.node,
                                        .features = *features,
                                        .seed = *seed,
                                        .source = args.file == "-" ? "standard input" : args.file,
                                        .defaults = args.defaults});
  if (!output) return report_one_line(output.error());
  if (!output->refusal.empty()) {
    print_to(stderr, "heddle: {}\n", output->refusal);
    return kNo;
  }
  print_out("{}\n", output->list_json);
  return 0;
}

}  // namespace heddle::cli
