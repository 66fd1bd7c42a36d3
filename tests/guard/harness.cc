#include "guard/harness.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/file.h"

extern char** environ;

namespace heddle::guard::test {
namespace {

std::string uuid_of(int card) {
  std::ostringstream text;
  text << "GPU-0000000" << card << "-1111-2222-3333-44444444444" << card;
  return text.str();
}

}  // namespace

Folder::Folder() {
  char name[] = "/tmp/heddle-guard-XXXXXX";
  if (mkdtemp(name) != nullptr) path_ = name;
}

Folder::~Folder() {
  EXPECT_TRUE(remove_tree(path_));
}

Probe::Probe(const std::string& guard_folder, const std::string& library_folder, Setup setup) {
  int to[2];
  int from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) return;
  if (setup.program.empty()) setup.program = HEDDLE_PROBE;
  std::map<std::string, std::string> environment = setup.environment;
  environment["HEDDLE_GUARD_DIR"] = guard_folder;
  environment["LD_LIBRARY_PATH"] = library_folder;
  if (setup.guarded) environment["LD_PRELOAD"] = HEDDLE_GUARD_LIBRARY;
  if (const char* root = std::getenv("NVSIM_ROOT")) environment.try_emplace("NVSIM_ROOT", root);
  std::vector<std::string> texts;
  for (const auto& [name, value] : environment) texts.push_back(name + "=" + value);
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  std::vector<std::string> words{setup.program};
  std::istringstream stream(setup.access);
  for (std::string word; stream >> word;) words.push_back(word);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(to[0], 0);
    dup2(from[1], 1);
    execve(arguments[0], arguments.data(), pointers.data());
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  in_ = to[1];
  out_ = from[0];
}

Probe::Probe(Probe&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      in_(std::exchange(other.in_, -1)),
      out_(std::exchange(other.out_, -1)),
      buffered_(std::move(other.buffered_)) {}

Probe& Probe::operator=(Probe&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(in_, other.in_);
  std::swap(out_, other.out_);
  std::swap(buffered_, other.buffered_);
  return *this;
}

Probe::~Probe() {
  if (in_ >= 0) close(in_);
  if (out_ >= 0) close(out_);
  kill();
}

void Probe::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

int Probe::end() {
  if (pid_ <= 0) return -1;
  close(std::exchange(in_, -1));
  int status = -1;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return status;
}

void Probe::send(const std::string& line) const {
  const std::string text = line + "\n";
  if (write(in_, text.data(), text.size()) < 0) ADD_FAILURE() << "the probe does not listen: " << line;
}

std::vector<int64_t> Probe::receive() {
  size_t end = 0;
  while ((end = buffered_.find('\n')) == std::string::npos) {
    char text[4096];
    const ssize_t got = read(out_, text, sizeof(text));
    if (got <= 0) return {-1};
    buffered_.append(text, static_cast<size_t>(got));
  }
  std::istringstream words(buffered_.substr(0, end));
  buffered_.erase(0, end + 1);
  std::vector<int64_t> numbers;
  for (uint64_t number = 0; words >> number;) numbers.push_back(static_cast<int64_t>(number));
  if (numbers.empty()) numbers.push_back(-1);
  return numbers;
}

std::vector<int64_t> Probe::tell(const std::string& line) {
  send(line);
  return receive();
}

Machine::Machine(const Folder& folder, const Shape& shape) : root_(folder.path("machine")) {
  std::ofstream config(folder.path("cards.yaml"));
  config << "cards:\n";
  for (int card = 0; card < shape.cards; ++card) {
    uuids_.push_back(uuid_of(card));
    config << "  - model: T4\n    uuid: " << uuids_.back() << "\n    memory: " << shape.memory_mib
           << "Mi\n    reserved: 0\n    context-overhead: " << shape.context_mib << "Mi\n    sms: " << shape.sms
           << "\n    concurrent-managed: " << (shape.moves_managed ? "true" : "false") << "\n";
  }
  config.close();
  const std::string command =
      std::string(HEDDLE_NVSIM) + " create --config " + folder.path("cards.yaml") + " --root " + root_ + " > /dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  setenv("NVSIM_ROOT", root_.c_str(), 1);
  Probe::Setup setup;
  setup.guarded = false;
  observer_ = std::make_unique<Probe>("", HEDDLE_SIM_LIBRARIES, setup);
}

int64_t Machine::taken(int card) const {
  return observer_->code("holders " + std::to_string(card));
}

void write_guard_files(const std::string& folder, const ClaimLimits& limits) {
  const auto content = encode_limits(limits);
  ASSERT_TRUE(content) << content.error().text();
  ASSERT_TRUE(write_file_atomic(folder + "/limits", *content, 0444));
  const auto made = create_usage(folder + "/usage", limits);
  ASSERT_TRUE(made) << made.error().text();
}

ClaimLimits limits_for(const std::vector<DeviceLimit>& devices) {
  ClaimLimits limits;
  limits.claim_uid = "test";
  limits.request = "gpu";
  limits.devices = devices;
  return limits;
}

int64_t charged(const std::string& folder, size_t device) {
  const auto report = read_usage(folder + "/usage");
  EXPECT_TRUE(report) << (report ? "" : report.error().text());
  return report ? report->devices.at(device).charged_bytes : -1;
}

}  // namespace heddle::guard::test
