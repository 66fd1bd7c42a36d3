// Copies and fills. They take no time on the card; the synchronous ones wait for the default stream first.
#include "cuda/copy.h"

#include <algorithm>
#include <cstring>

#include "cuda/array.h"
#include "cuda/work.h"

namespace nvsim {
namespace {

enum class Order { kWait, kNow };

CUresult settle_default_stream(Context& context, Order order) {
  Stream stream = {&context, 0, 0, 0, 1};
  return order == Order::kWait ? wait_for_stream(stream) : CUDA_SUCCESS;
}

// Which ends of a copy must be the driver's memory.
struct Ends {
  bool to_device, from_device;
};

CUresult copy(CUdeviceptr to, CUdeviceptr from, std::uint64_t size, Ends ends, Order order) {
  return with_context([&](Context& context) {
    if (size == 0) {
      return CUDA_SUCCESS;
    }
    if (to == 0 || from == 0 || (ends.to_device && !is_device_span(to, size)) ||
        (ends.from_device && !is_device_span(from, size))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const CUresult code = settle_default_stream(context, order);
    if (code == CUDA_SUCCESS) {
      std::memmove(host_pointer(to), host_pointer(from), std::min(size, kContentLimit));
    }
    return code;
  });
}

CUdeviceptr address_of(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

template <typename Value>
CUresult fill(CUdeviceptr to, Value value, std::uint64_t count, Order order) {
  return with_context([&](Context& context) {
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(count, sizeof(Value), &bytes) || (count > 0 && !is_device_span(to, bytes)) ||
        to % sizeof(Value) != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const CUresult code = settle_default_stream(context, order);
    if (code == CUDA_SUCCESS && count > 0) {
      std::fill_n(static_cast<Value*>(host_pointer(to)), std::min(bytes, kContentLimit) / sizeof(Value), value);
    }
    return code;
  });
}

template <typename Value>
CUresult fill_rows(CUdeviceptr to, std::uint64_t pitch, Value value, std::uint64_t width, std::uint64_t height,
                   Order order) {
  for (std::uint64_t row = 0; row < height && row * pitch < kContentLimit; ++row) {
    if (const CUresult code = fill(to + row * pitch, value, width, order); code != CUDA_SUCCESS) {
      return code;
    }
  }
  return CUDA_SUCCESS;
}

// One side of a copy with a shape.
struct Side {
  CUdeviceptr base = 0;
  std::uint64_t pitch = 0, slice = 0;
  std::uint64_t room = 0;  // bytes from base that may be touched; 0: host memory, which is the caller's affair
};

bool side_of(CUmemorytype type, const void* host, CUdeviceptr device, CUarray array, std::uint64_t pitch,
             std::uint64_t height, Side& side) {
  side.pitch = pitch;
  side.slice = pitch * height;
  if (type == CU_MEMORYTYPE_HOST) {
    side.base = address_of(host);
    return side.base != 0;
  }
  if (type == CU_MEMORYTYPE_ARRAY) {
    if (array == nullptr) {
      return false;
    }
    const Array& whole = *array_of(array);
    side = {whole.base, whole.row_bytes, whole.row_bytes * std::max<std::uint64_t>(1, whole.shape.Height),
            whole.row_bytes * whole.rows};
    return true;
  }
  side.base = device;
  const std::lock_guard guard(driver().mutex);
  const Range* range = find_range(device);
  side.room = range == nullptr ? 0 : range->base + range->size - device;
  return type == CU_MEMORYTYPE_UNIFIED || range != nullptr;
}

struct Box {
  std::uint64_t width = 0, height = 1, depth = 1;
  std::uint64_t from_offset = 0, to_offset = 0;
};

bool fits(const Side& side, std::uint64_t offset, const Box& box) {
  const std::uint64_t end = offset + (box.depth - 1) * side.slice + (box.height - 1) * side.pitch + box.width;
  return side.room == 0 || end <= side.room;
}

CUresult copy_box(const Side& to, const Side& from, const Box& box, Order order) {
  return with_context([&](Context& context) {
    if (box.width == 0 || box.height == 0 || box.depth == 0) {
      return CUDA_SUCCESS;
    }
    if (!fits(to, box.to_offset, box) || !fits(from, box.from_offset, box)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (const CUresult code = settle_default_stream(context, order); code != CUDA_SUCCESS) {
      return code;
    }
    std::uint64_t done = 0;
    for (std::uint64_t plane = 0; plane < box.depth; ++plane) {
      for (std::uint64_t row = 0; row < box.height && done < kContentLimit; ++row, done += box.width) {
        std::memmove(host_pointer(to.base + box.to_offset + plane * to.slice + row * to.pitch),
                     host_pointer(from.base + box.from_offset + plane * from.slice + row * from.pitch), box.width);
      }
    }
    return CUDA_SUCCESS;
  });
}

// CUDA_MEMCPY2D and its first form have the same fields.
template <typename Copy>
CUresult copy_2d(const Copy* wish, Order order) {
  Side to, from;
  if (wish == nullptr ||
      !side_of(wish->srcMemoryType, wish->srcHost, wish->srcDevice, wish->srcArray, wish->srcPitch, 1, from) ||
      !side_of(wish->dstMemoryType, wish->dstHost, wish->dstDevice, wish->dstArray, wish->dstPitch, 1, to)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Box box;
  box.width = wish->WidthInBytes;
  box.height = wish->Height;
  box.from_offset = wish->srcY * from.pitch + wish->srcXInBytes;
  box.to_offset = wish->dstY * to.pitch + wish->dstXInBytes;
  return copy_box(to, from, box, order);
}

template <typename Copy>
CUresult copy_3d(const Copy* wish, Order order) {
  Side to, from;
  if (wish == nullptr ||
      !side_of(wish->srcMemoryType, wish->srcHost, wish->srcDevice, wish->srcArray, wish->srcPitch, wish->srcHeight,
               from) ||
      !side_of(wish->dstMemoryType, wish->dstHost, wish->dstDevice, wish->dstArray, wish->dstPitch, wish->dstHeight,
               to)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Box box = {wish->WidthInBytes, wish->Height, wish->Depth, 0, 0};
  box.from_offset = wish->srcZ * from.slice + wish->srcY * from.pitch + wish->srcXInBytes;
  box.to_offset = wish->dstZ * to.slice + wish->dstY * to.pitch + wish->dstXInBytes;
  return copy_box(to, from, box, order);
}

// A place in an array as an address, 0: outside of it.
CUdeviceptr in_array(CUarray handle, std::uint64_t offset, std::uint64_t size) {
  const Array* array = array_of(handle);
  return array == nullptr || offset + size > array->row_bytes * array->rows ? 0 : array->base + offset;
}

constexpr Ends kToDevice = {true, false};
constexpr Ends kFromDevice = {false, true};
constexpr Ends kBothDevice = {true, true};
constexpr Ends kAnywhere = {false, false};

}  // namespace

bool is_device_span(CUdeviceptr address, std::uint64_t size) {
  const std::lock_guard guard(driver().mutex);
  const Range* range = find_range(address);
  return range != nullptr && size <= range->size - (address - range->base);
}

}  // namespace nvsim

using nvsim::address_of;
using nvsim::copy;
using nvsim::fill;
using nvsim::fill_rows;
using nvsim::Order;

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size) {
  return copy(to, from, size, nvsim::kAnywhere, Order::kWait);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream) {
  return copy(to, from, size, nvsim::kAnywhere, Order::kNow);
}
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size) {
  return copy(to, from, size, nvsim::kBothDevice, Order::kWait);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size, CUstream) {
  return copy(to, from, size, nvsim::kBothDevice, Order::kNow);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t size) {
  return copy(to, address_of(from), size, nvsim::kToDevice, Order::kWait);
}
CUresult cuMemcpyHtoD(CUdeviceptr_v1 to, const void* from, unsigned int size) {
  return cuMemcpyHtoD_v2(to, from, size);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t size, CUstream) {
  return copy(to, address_of(from), size, nvsim::kToDevice, Order::kNow);
}
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t size) {
  return copy(address_of(to), from, size, nvsim::kFromDevice, Order::kWait);
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr_v1 from, unsigned int size) {
  return cuMemcpyDtoH_v2(to, from, size);
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t size, CUstream) {
  return copy(address_of(to), from, size, nvsim::kFromDevice, Order::kNow);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size) {
  return copy(to, from, size, nvsim::kBothDevice, Order::kWait);
}
CUresult cuMemcpyDtoD(CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned int size) {
  return cuMemcpyDtoD_v2(to, from, size);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream) {
  return copy(to, from, size, nvsim::kBothDevice, Order::kNow);
}

CUresult cuMemcpyHtoA_v2(CUarray to, size_t offset, const void* from, size_t size) {
  return copy(nvsim::in_array(to, offset, size), address_of(from), size, nvsim::kAnywhere, Order::kWait);
}
CUresult cuMemcpyAtoH_v2(void* to, CUarray from, size_t offset, size_t size) {
  return copy(address_of(to), nvsim::in_array(from, offset, size), size, nvsim::kAnywhere, Order::kWait);
}
CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void* from, size_t size, CUstream) {
  return copy(nvsim::in_array(to, offset, size), address_of(from), size, nvsim::kAnywhere, Order::kNow);
}
CUresult cuMemcpyAtoHAsync_v2(void* to, CUarray from, size_t offset, size_t size, CUstream) {
  return copy(address_of(to), nvsim::in_array(from, offset, size), size, nvsim::kAnywhere, Order::kNow);
}
CUresult cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t size) {
  return copy(nvsim::in_array(to, offset, size), from, size, nvsim::kFromDevice, Order::kWait);
}
CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t size) {
  return copy(to, nvsim::in_array(from, offset, size), size, nvsim::kToDevice, Order::kWait);
}
CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t size) {
  return copy(nvsim::in_array(to, to_offset, size), nvsim::in_array(from, from_offset, size), size, nvsim::kAnywhere,
              Order::kWait);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* wish) {
  return nvsim::copy_2d(wish, Order::kWait);
}
CUresult cuMemcpy2D(const CUDA_MEMCPY2D_v1* wish) {
  return nvsim::copy_2d(wish, Order::kWait);
}
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* wish) {
  return nvsim::copy_2d(wish, Order::kWait);
}
CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D_v1* wish) {
  return nvsim::copy_2d(wish, Order::kWait);
}
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* wish, CUstream) {
  return nvsim::copy_2d(wish, Order::kNow);
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D_v1* wish, CUstream) {
  return nvsim::copy_2d(wish, Order::kNow);
}
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* wish) {
  return nvsim::copy_3d(wish, Order::kWait);
}
CUresult cuMemcpy3D(const CUDA_MEMCPY3D_v1* wish) {
  return nvsim::copy_3d(wish, Order::kWait);
}
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* wish, CUstream) {
  return nvsim::copy_3d(wish, Order::kNow);
}
CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D_v1* wish, CUstream) {
  return nvsim::copy_3d(wish, Order::kNow);
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return fill(to, value, count, Order::kWait);
}
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  return fill(to, value, count, Order::kWait);
}
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count) {
  return fill(to, value, count, Order::kWait);
}
CUresult cuMemsetD8(CUdeviceptr_v1 to, unsigned char value, unsigned int count) {
  return fill(to, value, count, Order::kWait);
}
CUresult cuMemsetD16(CUdeviceptr_v1 to, unsigned short value, unsigned int count) {
  return fill(to, value, count, Order::kWait);
}
CUresult cuMemsetD32(CUdeviceptr_v1 to, unsigned int value, unsigned int count) {
  return fill(to, value, count, Order::kWait);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream) {
  return fill(to, value, count, Order::kNow);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream) {
  return fill(to, value, count, Order::kNow);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream) {
  return fill(to, value, count, Order::kNow);
}
CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height) {
  return fill_rows(to, pitch, value, width, height, Order::kWait);
}
CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height) {
  return fill_rows(to, pitch, value, width, height, Order::kWait);
}
CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height) {
  return fill_rows(to, pitch, value, width, height, Order::kWait);
}
CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height, CUstream) {
  return fill_rows(to, pitch, value, width, height, Order::kNow);
}
CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height, CUstream) {
  return fill_rows(to, pitch, value, width, height, Order::kNow);
}
CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height, CUstream) {
  return fill_rows(to, pitch, value, width, height, Order::kNow);
}
