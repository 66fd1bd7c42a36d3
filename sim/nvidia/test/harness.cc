#include "test/harness.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace nvsim::test {

Process::Process(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return;
  }
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(ends[1], STDOUT_FILENO);
    for (const std::string& entry : environment) {
      putenv(const_cast<char*>(entry.c_str()));
    }
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  close(ends[1]);
  output_ = ends[0];
}

Process::~Process() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (output_ >= 0) {
    close(output_);
  }
}

bool Process::read_more() {
  char buffer[4096];
  ssize_t count = 0;
  do {
    count = read(output_, buffer, sizeof(buffer));
  } while (count < 0 && errno == EINTR);
  text_.append(buffer, static_cast<std::size_t>(count > 0 ? count : 0));
  return count > 0;
}

std::string Process::wait_line(const std::string& start) {
  while (true) {
    for (std::size_t end = text_.find('\n', taken_); end != std::string::npos; end = text_.find('\n', taken_)) {
      const std::string line = text_.substr(taken_, end - taken_);
      taken_ = end + 1;
      if (line.starts_with(start)) {
        return line;
      }
    }
    if (!read_more()) {
      return "";
    }
  }
}

void Process::signal(int number) const {
  kill(pid_, number);
}

Finished Process::finish() {
  while (read_more()) {
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text_};
}

SimulatedMachine::SimulatedMachine(const std::string& yaml) {
  std::string pattern = std::filesystem::temp_directory_path() / "nvsim-test-XXXXXX";
  root_ = mkdtemp(pattern.data());
  std::ofstream(root_ + "/cards.yaml") << yaml;
  nvsim({"create", "--config", root_ + "/cards.yaml"});
}

SimulatedMachine::~SimulatedMachine() {
  std::error_code error;
  std::filesystem::remove_all(root_, error);
}

std::vector<std::string> SimulatedMachine::environment() const {
  return {"NVSIM_ROOT=" + root_};
}

Finished SimulatedMachine::nvsim(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), NVSIM_TOOL);
  arguments.insert(arguments.end(), {"--root", root_});
  return Process(arguments, {}).finish();
}

std::vector<std::string> SimulatedMachine::run_arguments(std::vector<std::string> steps) const {
  steps.insert(steps.begin(), {NVSIM_RUN, std::string("lib=") + NVSIM_LIBRARIES + "/libcuda.so.1",
                               std::string("nvml=") + NVSIM_LIBRARIES + "/libnvidia-ml.so.1"});
  return steps;
}

Finished SimulatedMachine::run(std::vector<std::string> steps, std::vector<std::string> more_environment) const {
  for (const std::string& entry : environment()) {
    more_environment.push_back(entry);
  }
  return Process(run_arguments(std::move(steps)), more_environment).finish();
}

long long number(const std::string& text, const std::string& key) {
  const std::size_t at = text.find(" " + key + "=");
  return at == std::string::npos ? -1 : std::atoll(text.c_str() + at + key.size() + 2);
}

}  // namespace nvsim::test
