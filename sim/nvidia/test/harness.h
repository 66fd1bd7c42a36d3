// Runs the programs of the simulated machine for tests, in a scratch root of their own.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace nvsim::test {

struct Finished {
  int code = -1;  // exit code, 128 + signal when killed
  std::string output;
};

// A started program whose output is read as it comes.
class Process {
 public:
  // `environment` entries (NAME=value) come on top of the caller's.
  Process(const std::vector<std::string>& arguments, const std::vector<std::string>& environment);
  ~Process();  // kills what still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  // Reads until a line that begins with `start` has come; that line, or empty when the program ended without it.
  std::string wait_line(const std::string& start);
  void signal(int number) const;
  // Reads to the end and waits.
  Finished finish();

 private:
  bool read_more();
  pid_t pid_ = -1;
  int output_ = -1;
  std::string text_;
  std::size_t taken_ = 0;
};

// A scratch machine made from YAML.
class SimulatedMachine {
 public:
  explicit SimulatedMachine(const std::string& yaml);
  ~SimulatedMachine();
  SimulatedMachine(const SimulatedMachine&) = delete;
  SimulatedMachine& operator=(const SimulatedMachine&) = delete;

  const std::string& root() const { return root_; }
  std::vector<std::string> environment() const;
  // nvsim VERB --root ... with more arguments.
  Finished nvsim(std::vector<std::string> arguments) const;
  Finished run(std::vector<std::string> steps, std::vector<std::string> more_environment = {}) const;
  std::vector<std::string> run_arguments(std::vector<std::string> steps) const;

 private:
  std::string root_;
};

// The number after `key=` in a line of nvsim-run, -1: not there.
long long number(const std::string& text, const std::string& key);

}  // namespace nvsim::test
