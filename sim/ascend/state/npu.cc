#include "state/npu.h"

#include <algorithm>
#include <cerrno>
#include <string>

namespace ascendsim {

int NpuView::open() {
  if (const int error = view_.open(kNames); error != 0) {
    return error;
  }
  const std::string path = nvsim::device_folder(kNames) + "/" + kNames.control;
  if (const int error = control_.open(path, sizeof(NpuMachine)); error != 0) {
    return error;
  }
  if (machine().magic != kNpuMagic || machine().version != kNpuVersion) {
    return EPROTO;
  }
  for (const auto& card : view_.cards()) {
    cards_.push_back({card.get(), &machine().npus[card->config().minor % nvsim::kMaxCards]});
  }
  std::sort(cards_.begin(), cards_.end(),
            [](const NpuCard& left, const NpuCard& right) { return left.npu->logic < right.npu->logic; });
  return 0;
}

void NpuView::close_in_child() {
  view_.close_in_child();
  control_.close_in_child();
}

}  // namespace ascendsim
