#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "base/print.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "standalone/client.h"

namespace heddle::cli {
namespace {

int terminal_width() {
  winsize size{};
  if (isatty(STDOUT_FILENO) != 1 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

Result<std::string> frame(standalone::Client& client, const PsArgs& args) {
  HEDDLE_TRY(auto status, client.status_json());
  if (args.output == Output::kJson) return status + "\n";
  return status_table(status, args.all ? Ended::kShow : Ended::kHide, terminal_width());
}

}  // namespace

int ps(const PsArgs& args, const Context& context) {
  const auto socket = find_socket(args.state_dir, context);
  if (!socket) return report(socket.error());
  standalone::Client client(*socket);
  const bool redraw = args.watch && isatty(STDOUT_FILENO) == 1;
  while (true) {
    const auto text = frame(client, args);
    if (!text && !args.watch) return report_answer(text.error());
    // Home and clear to the end: without the flicker of a cleared screen.
    if (redraw) print_out("\033[H\033[J");
    print_out("{}", text ? *text : fmt::format("{}\n", text.error().text()));
    if (std::fflush(stdout) != 0) return 0;  // the reader has gone
    if (!args.watch) return 0;
    if (!redraw) print_out("\n");
    sleep(1);
  }
}

}  // namespace heddle::cli
