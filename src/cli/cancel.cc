#include <fmt/format.h>

#include "cli/verbs.h"
#include "standalone/client.h"

namespace heddle::cli {

int cancel(const CancelArgs& args, const Context& context) {
  const auto socket = find_socket(args.state_dir, context);
  if (!socket) return report(socket.error());
  const auto done = standalone::Client(*socket).cancel(args.job);
  if (done) return 0;
  const int code = report_answer(done.error());
  // It has ended already.
  return done.error().code == Code::kConflict ? kNo : code;
}

}  // namespace heddle::cli
