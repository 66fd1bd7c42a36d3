// The launch families.
#include "cuda/launch.h"

#include <algorithm>

#include "cuda/work.h"

namespace nvsim {
namespace {

constexpr std::uint64_t kThreadsPerSm = 2048;

CUresult launch(CUfunction function, const unsigned grid[3], const unsigned block[3], CUstream handle) {
  return with_context([&](Context& context) {
    Stream stream;
    if (const CUresult code = stream_of(context, handle, stream); code != CUDA_SUCCESS) {
      return code;
    }
    Cost cost;
    const CUresult code = launch_cost(kernel_of(function), grid, block, *stream.context->device->card, cost);
    return code == CUDA_SUCCESS ? queue_kernel(stream, cost.duration_ns, cost.sms) : code;
  });
}

CUresult launch_config(const CUlaunchConfig* config, CUfunction function, CUstream stream) {
  if (config == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const unsigned grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
  const unsigned block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
  return launch(function, grid, block, stream);
}

}  // namespace

CUresult launch_cost(const Kernel* kernel, const unsigned grid[3], const unsigned block[3], const Card& card,
                     Cost& cost) {
  if (kernel == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const std::uint64_t blocks = std::uint64_t{grid[0]} * grid[1] * grid[2];
  const std::uint64_t threads = std::uint64_t{block[0]} * block[1] * block[2];
  if (blocks == 0 || threads == 0 || threads > 1024) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::uint32_t sms = const_cast<Card&>(card).sms(card.gpu_instance(), card.compute_instance());
  cost.sms = static_cast<std::uint32_t>(std::min<std::uint64_t>(kernel->sms != 0 ? kernel->sms : blocks, sms));
  const std::uint64_t resident = std::max<std::uint64_t>(1, std::max<std::uint64_t>(1, kThreadsPerSm / threads) * sms);
  const std::uint64_t waves = kernel->per_wave ? (blocks + resident - 1) / resident : 1;
  cost.duration_ns = kernel->duration_ns * static_cast<std::int64_t>(waves);
  return CUDA_SUCCESS;
}

}  // namespace nvsim

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int, CUstream stream,
                        void**, void**) {
  const unsigned grid[3] = {grid_x, grid_y, grid_z};
  const unsigned block[3] = {block_x, block_y, block_z};
  return nvsim::launch(function, grid, block, stream);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void**, void**) {
  return nvsim::launch_config(config, function, config == nullptr ? nullptr : config->hStream);
}
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction function, void**, void**) {
  const bool named = config != nullptr && config->hStream != nullptr;
  return nvsim::launch_config(config, function, named ? config->hStream : CU_STREAM_PER_THREAD);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                   unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int,
                                   CUstream stream, void**) {
  const unsigned grid[3] = {grid_x, grid_y, grid_z};
  const unsigned block[3] = {block_x, block_y, block_z};
  return nvsim::launch(function, grid, block, stream);
}

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* launches, unsigned int count, unsigned int) {
  for (unsigned int index = 0; launches != nullptr && index < count; ++index) {
    const CUDA_LAUNCH_PARAMS& one = launches[index];
    const unsigned grid[3] = {one.gridDimX, one.gridDimY, one.gridDimZ};
    const unsigned block[3] = {one.blockDimX, one.blockDimY, one.blockDimZ};
    if (const CUresult code = nvsim::launch(one.function, grid, block, one.hStream); code != CUDA_SUCCESS) {
      return code;
    }
  }
  return launches == nullptr || count == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z) {
  return function == nullptr || x <= 0 || y <= 0 || z <= 0 ? CUDA_ERROR_INVALID_VALUE : nvsim::check_ready();
}
CUresult cuFuncSetSharedSize(CUfunction function, unsigned int) {
  return function == nullptr ? CUDA_ERROR_INVALID_VALUE : nvsim::check_ready();
}
CUresult cuParamSetSize(CUfunction, unsigned int) {
  return nvsim::check_ready();
}
CUresult cuParamSeti(CUfunction, int, unsigned int) {
  return nvsim::check_ready();
}
CUresult cuParamSetf(CUfunction, int, float) {
  return nvsim::check_ready();
}
CUresult cuParamSetv(CUfunction, int, void*, unsigned int) {
  return nvsim::check_ready();
}

// The launches of old: the shape of a block was set on the function, which costs nothing here.
CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
  const unsigned grid[3] = {static_cast<unsigned>(std::max(0, width)), static_cast<unsigned>(std::max(0, height)), 1};
  const unsigned block[3] = {256, 1, 1};
  return nvsim::launch(function, grid, block, stream);
}
CUresult cuLaunchGrid(CUfunction function, int width, int height) {
  return cuLaunchGridAsync(function, width, height, nullptr);
}
CUresult cuLaunch(CUfunction function) {
  return cuLaunchGridAsync(function, 1, 1, nullptr);
}
