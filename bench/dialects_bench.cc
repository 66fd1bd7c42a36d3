// Own time of the mutating webhook for a pod with 8 containers in six dialects: the text of the review in, the answer
// out. Prints one JSON object.  dialects_bench [REVIEWS]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "catalog/requests.h"
#include "controller/admission.h"

namespace {

constexpr const char* kLimits[] = {
    R"("nvidia.com/gpu":"1","nvidia.com/gpumem":"3000","nvidia.com/gpucores":"30")",
    R"("volcano.sh/vgpu-number":"2","volcano.sh/vgpu-memory":"3000")",
    R"("huawei.com/Ascend910B4":"1","huawei.com/Ascend910B4-memory":"5000")",
    R"("cambricon.com/vmlu":"1","cambricon.com/mlu.smlu.vmemory":"20","cambricon.com/mlu.smlu.vcore":"10")",
    R"("amd.com/gpu":"8")",
    R"("nvidia.com/mig-1g.10gb":"1")",
    R"("mthreads.com/vgpu":"1","mthreads.com/sgpu-memory":"32","mthreads.com/sgpu-core":"8")",
    R"("nvidia.com/gpu":"4","nvidia.com/gpumem-percentage":"50")"};

std::string review() {
  std::string containers;
  int i = 0;
  for (const char* limits : kLimits) {
    containers += fmt::format(
        R"({}{{"name":"c{}","image":"registry.example.com/team/app:v1","command":["run","--all"],)"
        R"("env":[{{"name":"A","value":"b"}},{{"name":"C","value":"d"}}],"volumeMounts":[{{"name":"data","mountPath":"/data"}}],)"
        R"("resources":{{"limits":{{"cpu":"4","memory":"16Gi",{}}},"requests":{{"cpu":"2","memory":"8Gi",{}}}}}}})",
        i == 0 ? "" : ",", i, limits, limits);
    ++i;
  }
  return fmt::format(
      R"({{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"0123456789abcdef",)"
      R"("kind":{{"group":"","version":"v1","kind":"Pod"}},"operation":"CREATE","namespace":"default",)"
      R"("userInfo":{{"username":"alice"}},"object":{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","namespace":"default",)"
      R"("labels":{{"app":"x"}},"annotations":{{"nvidia.com/use-gputype":"A100,H100","hami.io/gpu-scheduler-policy":"binpack"}}}},)"
      R"("spec":{{"containers":[{}],"volumes":[{{"name":"data","emptyDir":{{}}}}]}}}}}}}})",
      containers);
}

double thread_micros() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

}  // namespace

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 20000;
  auto rules = heddle::catalog::Requests::built_in();
  if (!rules || rounds < 1) return 3;
  heddle::controller::AdmissionContext context;
  context.rules = std::make_shared<const heddle::catalog::Requests>(std::move(*rules));
  const std::string text = review();
  std::vector<double> micros;
  std::vector<double> own;  // time on a processor, without what others on the machine take
  micros.reserve(static_cast<size_t>(rounds));
  own.reserve(static_cast<size_t>(rounds));
  for (long i = 0; i < rounds; ++i) {
    const double on_processor = thread_micros();
    const auto start = std::chrono::steady_clock::now();
    const auto answer = heddle::controller::mutate(text, context);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    if (!answer || !answer->allowed || !answer->changed) {
      fmt::print(stderr, "dialects_bench: the pod was not translated: {}\n",
                 answer ? answer->body : answer.error().text());
      return 3;
    }
    micros.push_back(took.count());
    own.push_back(thread_micros() - on_processor);
  }
  std::sort(micros.begin(), micros.end());
  std::sort(own.begin(), own.end());
  const auto at = [](const std::vector<double>& sorted, double part) {
    return sorted[std::min(sorted.size() - 1, static_cast<size_t>(part * static_cast<double>(sorted.size())))];
  };
  fmt::print(
      "{{\"dialects.translate_p50_us\": {:.1f}, \"dialects.translate_p99_us\": {:.1f}, "
      "\"dialects.translate_cpu_p50_us\": {:.1f}, \"dialects.translate_cpu_p99_us\": {:.1f}}}\n",
      at(micros, 0.50), at(micros, 0.99), at(own, 0.50), at(own, 0.99));
  return 0;
}
