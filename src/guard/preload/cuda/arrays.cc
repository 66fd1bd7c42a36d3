// Arrays and mipmapped arrays: what one takes is asked of the driver, by making it first without memory behind it.
#include "guard/preload/cuda/memory.h"
#include "guard/preload/cuda/residual.h"

namespace heddle::guard {
namespace {

// Such arrays get their memory from handles that the program maps, which are charged there.
constexpr unsigned int kWithoutMemory = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;

struct Shape {
  CUDA_ARRAY3D_DESCRIPTOR array;
  unsigned int levels;  // 0: a plain array
};

// ~0: the driver does not say.
uint64_t asked_bytes(const Shape& shape, CUdevice device) {
  CUDA_ARRAY3D_DESCRIPTOR wanted = shape.array;
  wanted.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs{};
  const CudaFunctions& driver = cuda();
  bool told = false;
  if (shape.levels == 0) {
    CUarray probe = nullptr;
    if (driver.cuArray3DCreate_v2 == nullptr || driver.cuArrayGetMemoryRequirements == nullptr ||
        driver.cuArrayDestroy == nullptr || driver.cuArray3DCreate_v2(&probe, &wanted) != CUDA_SUCCESS) {
      return ~uint64_t{0};
    }
    told = driver.cuArrayGetMemoryRequirements(&needs, probe, device) == CUDA_SUCCESS;
    driver.cuArrayDestroy(probe);
  } else {
    CUmipmappedArray probe = nullptr;
    if (driver.cuMipmappedArrayCreate == nullptr || driver.cuMipmappedArrayGetMemoryRequirements == nullptr ||
        driver.cuMipmappedArrayDestroy == nullptr ||
        driver.cuMipmappedArrayCreate(&probe, &wanted, shape.levels) != CUDA_SUCCESS) {
      return ~uint64_t{0};
    }
    told = driver.cuMipmappedArrayGetMemoryRequirements(&needs, probe, device) == CUDA_SUCCESS;
    driver.cuMipmappedArrayDestroy(probe);
  }
  return told && needs.size != 0 ? needs.size : ~uint64_t{0};
}

uint64_t channel_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    default:
      return 4;  // no format has more in a channel
  }
}

// From the shape alone, for a driver that cannot be asked.
uint64_t computed_bytes(const Shape& shape) {
  const CUDA_ARRAY3D_DESCRIPTOR& a = shape.array;
  const uint64_t element = channel_bytes(a.Format) * (a.NumChannels != 0 ? a.NumChannels : 1);
  uint64_t width = a.Width;
  uint64_t height = a.Height != 0 ? a.Height : 1;
  uint64_t depth = a.Depth != 0 ? a.Depth : 1;
  const bool layered = (a.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  uint64_t sum = 0;
  for (unsigned int level = 0; level < (shape.levels != 0 ? shape.levels : 1); ++level) {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(width, height, &bytes) || __builtin_mul_overflow(bytes, depth, &bytes) ||
        __builtin_mul_overflow(bytes, element, &bytes) || __builtin_add_overflow(sum, bytes, &sum)) {
      return ~uint64_t{0};
    }
    width = width > 1 ? width / 2 : 1;
    height = height > 1 ? height / 2 : 1;
    if (!layered) depth = depth > 1 ? depth / 2 : 1;
  }
  return sum;
}

template <typename Handle, typename Call, typename Undo>
CUresult create(const Shape& shape, Handle* handle, Call call, Undo undo) {
  const CUdevice device = current_device();
  const int rule = rule_of(device);
  if (refused(rule)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!accounted(rule) || (shape.array.Flags & kWithoutMemory) != 0) return call();
  const uint64_t told = asked_bytes(shape, device);
  const uint64_t bytes = told != ~uint64_t{0} ? told : computed_bytes(shape);
  const uint64_t pages = pages_of(round_up(bytes, block_bytes(rule, device)));
  if (!charge(rule, pages)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = call();
  if (result != CUDA_SUCCESS) {
    uncharge(rule, pages);
    return result;
  }
  const Record record{reinterpret_cast<uint64_t>(*handle),
                      bytes,
                      current_context(),
                      pages,
                      rule,
                      static_cast<uint32_t>(Kind::kArray),
                      0,
                      0,
                      0};
  if (remember(record)) {
    // The driver pads rows as it likes: what was not told is in its account.
    if (told == ~uint64_t{0}) measure_residual(rule, Take::kForced);
    return result;
  }
  undo();
  uncharge(rule, pages);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

template <typename Call>
CUresult destroy(uint64_t key, Call call) {
  Record record{};
  const bool known = forget(key, Kind::kArray, &record);
  const CUresult result = call();
  if (known && result == CUDA_SUCCESS) uncharge(record.device, record.pages);
  if (known && result != CUDA_SUCCESS) remember(record);
  return result;
}

void destroy_array(CUarray array) {
  if (cuda().cuArrayDestroy != nullptr) cuda().cuArrayDestroy(array);
}

template <typename Descriptor>
Shape flat_shape(const Descriptor& d) {
  return {{d.Width, d.Height, 0, d.Format, d.NumChannels, 0}, 0};
}

template <typename Descriptor>
Shape deep_shape(const Descriptor& d) {
  return {{d.Width, d.Height, d.Depth, d.Format, d.NumChannels, d.Flags}, 0};
}

}  // namespace
}  // namespace heddle::guard

using namespace heddle::guard;

extern "C" {

HEDDLE_EXPORT CUresult cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* wanted) {
  const auto real = cuda().cuArrayCreate_v2;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested() || array == nullptr || wanted == nullptr) return real(array, wanted);
  return create(flat_shape(*wanted), array, [&] { return real(array, wanted); }, [&] { destroy_array(*array); });
}

HEDDLE_EXPORT CUresult cuArrayCreate(CUarray* array, const CUDA_ARRAY_DESCRIPTOR_v1* wanted) {
  const auto real = cuda().cuArrayCreate;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested() || array == nullptr || wanted == nullptr) return real(array, wanted);
  return create(flat_shape(*wanted), array, [&] { return real(array, wanted); }, [&] { destroy_array(*array); });
}

HEDDLE_EXPORT CUresult cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* wanted) {
  const auto real = cuda().cuArray3DCreate_v2;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested() || array == nullptr || wanted == nullptr) return real(array, wanted);
  return create(deep_shape(*wanted), array, [&] { return real(array, wanted); }, [&] { destroy_array(*array); });
}

HEDDLE_EXPORT CUresult cuArray3DCreate(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR_v1* wanted) {
  const auto real = cuda().cuArray3DCreate;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested() || array == nullptr || wanted == nullptr) return real(array, wanted);
  return create(deep_shape(*wanted), array, [&] { return real(array, wanted); }, [&] { destroy_array(*array); });
}

HEDDLE_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* wanted,
                                              unsigned int levels) {
  const auto real = cuda().cuMipmappedArrayCreate;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested() || array == nullptr || wanted == nullptr || levels == 0) return real(array, wanted, levels);
  Shape shape = deep_shape(*wanted);
  shape.levels = levels < 64 ? levels : 64;
  return create(
      shape, array, [&] { return real(array, wanted, levels); },
      [&] {
        if (cuda().cuMipmappedArrayDestroy != nullptr) cuda().cuMipmappedArrayDestroy(*array);
      });
}

HEDDLE_EXPORT CUresult cuArrayDestroy(CUarray array) {
  const auto real = cuda().cuArrayDestroy;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested()) return real(array);
  return destroy(reinterpret_cast<uint64_t>(array), [&] { return real(array); });
}

HEDDLE_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  const auto real = cuda().cuMipmappedArrayDestroy;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested()) return real(array);
  return destroy(reinterpret_cast<uint64_t>(array), [&] { return real(array); });
}
}
