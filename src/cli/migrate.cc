#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/print.h"
#include "cli/migration.h"
#include "cli/verbs.h"

namespace heddle::cli {

int migrate(const MigrateArgs& args) {
  const auto rules = catalog::Requests::with_folder(args.catalog);
  if (!rules) return report_one_line(rules.error());
  std::vector<MigrationText> manifests;
  for (const std::string& file : args.files) {
    auto text = read_input(file);
    if (!text) return report_one_line(text.error());
    manifests.push_back({file == "-" ? "standard input" : file, std::move(*text)});
  }
  const auto migration = read_migration(*rules, manifests);
  if (!migration) return report_one_line(migration.error());
  print_out("{}", args.json ? migration_json(*migration) + "\n" : migration_table(*migration));
  const bool refused = std::any_of(migration->pods.begin(), migration->pods.end(),
                                   [](const MigratedPod& pod) { return pod.outcome == "refused"; });
  return refused ? kNo : 0;
}

}  // namespace heddle::cli
