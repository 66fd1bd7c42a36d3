#include <fmt/format.h>
#include <unistd.h>

#include "base/file.h"
#include "base/print.h"
#include "cli/verbs.h"
#include "standalone/client.h"

namespace heddle::cli {
namespace {

constexpr useconds_t kLookMicros = 50'000;
// The daemon gives each job 5 s after SIGTERM and then kills it.
constexpr int kLooks = 30 * 20;

}  // namespace

int down(const DownArgs& args, const Context& context) {
  const auto socket = find_socket(args.state_dir, context);
  if (!socket) return report(socket.error());
  const auto presence = standalone::presence_of(*socket);
  const auto paths = standalone::state_paths(socket->substr(0, socket->rfind('/')));
  if (presence == standalone::Presence::kNone && standalone::serving_process(paths).empty()) {
    print_out("Heddle is not running here.\n");
    return 0;
  }
  const auto how = args.kill ? standalone::ShutDown::kEndJobs : standalone::ShutDown::kIfIdle;
  const auto busy = standalone::Client(*socket).shut_down(how);
  if (!busy) {
    return report_answer(busy.error());
  }
  if (*busy) {
    print_to(stderr,
             "heddle: {} running and {} waiting jobs are not finished: `heddle ps` shows them, `heddle down --kill` "
             "ends them\n",
             (*busy)->running, (*busy)->waiting);
    return kNo;
  }
  for (int look = 0; look < kLooks; ++look) {
    // The lock goes last: who starts Heddle again now finds the folder free.
    if (!file_exists(*socket) && standalone::serving_process(paths).empty()) {
      print_out("Heddle is stopped.\n");
      return 0;
    }
    usleep(kLookMicros);
  }
  print_to(stderr, "heddle: some jobs do not end; Heddle goes on ending them. `heddle ps` shows which\n");
  return kError;
}

}  // namespace heddle::cli
