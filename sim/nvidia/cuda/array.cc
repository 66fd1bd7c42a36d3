#include "cuda/array.h"

#include <algorithm>

namespace nvsim {
namespace {

constexpr std::uint64_t kRowStep = 512;
constexpr std::uint64_t kLargestSide = 1ULL << 20U;

struct Mipmap {
  std::vector<Array*> levels;
  Array whole;
};

unsigned format_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;
  }
}

// The layout of one array without memory; false: the shape is not allowed.
bool lay_out(const CUDA_ARRAY3D_DESCRIPTOR& shape, Array& array) {
  const unsigned element = format_bytes(shape.Format) * shape.NumChannels;
  const bool channels = shape.NumChannels == 1 || shape.NumChannels == 2 || shape.NumChannels == 4;
  if (element == 0 || !channels || shape.Width == 0 || shape.Width > kLargestSide || shape.Height > kLargestSide ||
      shape.Depth > kLargestSide) {
    return false;
  }
  array.shape = shape;
  array.row_bytes = round_up(shape.Width * element, kRowStep);
  array.rows = std::max<std::uint64_t>(1, shape.Height) * std::max<std::uint64_t>(1, shape.Depth);
  return true;
}

CUresult back_with_memory(Context& context, std::uint64_t bytes, Array& array) {
  Device& device = *context.device;
  array.device = &device;
  array.context = &context;
  array.needed = round_up(bytes, kGranularity);
  if ((array.shape.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0) {
    return CUDA_SUCCESS;
  }
  array.span = array.charged = array.needed;
  if (const CUresult code = charge(device, array.charged); code != CUDA_SUCCESS) {
    return code;
  }
  array.base = map_addresses(array.span, false);
  if (array.base == 0) {
    uncharge(device, array.charged);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  context.array_charged += array.charged;
  return CUDA_SUCCESS;
}

void give_back(const Array& array) {
  if (array.span > 0) {
    unmap_addresses(array.base, array.span);
    // A context that is gone has taken its arrays along.
    bool alive = false;
    {
      const std::lock_guard guard(driver().mutex);
      alive = driver().contexts.contains(array.context);
    }
    if (alive) {
      array.context->array_charged -= array.charged;
      uncharge(*array.device, array.charged);
    }
  }
}

CUresult create(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  return with_context([&](Context& context) {
    Array array;
    if (out == nullptr || !lay_out(shape, array)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const CUresult code = back_with_memory(context, array.row_bytes * array.rows, array);
    if (code == CUDA_SUCCESS) {
      *out = reinterpret_cast<CUarray>(new Array(array));
    }
    return code;
  });
}

template <typename Descriptor>
CUDA_ARRAY3D_DESCRIPTOR widen(const Descriptor& from, std::size_t depth, unsigned flags) {
  return {from.Width, from.Height, depth, from.Format, from.NumChannels, flags};
}

CUresult create_mipmap(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* shape, unsigned levels) {
  return with_context([&](Context& context) {
    if (out == nullptr || shape == nullptr || levels == 0 || levels > 32) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    auto mipmap = std::make_unique<Mipmap>();
    std::vector<std::unique_ptr<Array>> made;
    std::uint64_t bytes = 0;
    CUDA_ARRAY3D_DESCRIPTOR level = *shape;
    for (unsigned index = 0; index < levels; ++index) {
      auto array = std::make_unique<Array>();
      if (!lay_out(level, *array)) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      array->base = bytes;  // an offset until the whole has its address
      bytes += array->row_bytes * array->rows;
      made.push_back(std::move(array));
      level.Width = std::max<std::size_t>(1, level.Width / 2);
      level.Height = level.Height == 0 ? 0 : std::max<std::size_t>(1, level.Height / 2);
      level.Depth = level.Depth == 0 ? 0 : std::max<std::size_t>(1, level.Depth / 2);
    }
    mipmap->whole.shape = *shape;
    if (const CUresult code = back_with_memory(context, bytes, mipmap->whole); code != CUDA_SUCCESS) {
      return code;
    }
    for (auto& array : made) {
      array->device = context.device;
      array->base += mipmap->whole.base;
      mipmap->levels.push_back(array.release());
    }
    *out = reinterpret_cast<CUmipmappedArray>(mipmap.release());
    return CUDA_SUCCESS;
  });
}

template <typename Handle, typename Out, typename Body>
CUresult describe(Handle handle, Out* out, Body body) {
  return with_context([&](Context&) {
    if (out == nullptr || handle == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    body(array_of(handle)->shape);
    return CUDA_SUCCESS;
  });
}

unsigned narrow(std::size_t value) {
  return static_cast<unsigned>(value);
}

}  // namespace

Array* array_of(CUarray handle) {
  return reinterpret_cast<Array*>(handle);
}

}  // namespace nvsim

using nvsim::describe;
using nvsim::narrow;

CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* shape) {
  return shape == nullptr ? CUDA_ERROR_INVALID_VALUE : nvsim::create(out, nvsim::widen(*shape, 0, 0));
}
CUresult cuArrayCreate(CUarray* out, const CUDA_ARRAY_DESCRIPTOR_v1* shape) {
  return shape == nullptr ? CUDA_ERROR_INVALID_VALUE : nvsim::create(out, nvsim::widen(*shape, 0, 0));
}
CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* shape) {
  return shape == nullptr ? CUDA_ERROR_INVALID_VALUE : nvsim::create(out, *shape);
}
CUresult cuArray3DCreate(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR_v1* shape) {
  return shape == nullptr ? CUDA_ERROR_INVALID_VALUE
                          : nvsim::create(out, nvsim::widen(*shape, shape->Depth, shape->Flags));
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* out, CUarray handle) {
  return describe(handle, out, [&](const CUDA_ARRAY3D_DESCRIPTOR& shape) {
    *out = {shape.Width, shape.Height, shape.Format, shape.NumChannels};
  });
}
CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR_v1* out, CUarray handle) {
  return describe(handle, out, [&](const CUDA_ARRAY3D_DESCRIPTOR& shape) {
    *out = {narrow(shape.Width), narrow(shape.Height), shape.Format, shape.NumChannels};
  });
}
CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray handle) {
  return describe(handle, out, [&](const CUDA_ARRAY3D_DESCRIPTOR& shape) { *out = shape; });
}
CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1* out, CUarray handle) {
  return describe(handle, out, [&](const CUDA_ARRAY3D_DESCRIPTOR& shape) {
    *out = {narrow(shape.Width), narrow(shape.Height), narrow(shape.Depth),
            shape.Format,        shape.NumChannels,    shape.Flags};
  });
}

CUresult cuArrayDestroy(CUarray handle) {
  return nvsim::with_context([&](nvsim::Context&) {
    // A level belongs to its mipmapped array.
    if (handle == nullptr || nvsim::array_of(handle)->span == 0) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    nvsim::give_back(*nvsim::array_of(handle));
    delete nvsim::array_of(handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUarray handle, CUdevice) {
  return nvsim::with_context([&](nvsim::Context&) {
    if (out == nullptr || handle == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *out = {};
    out->size = nvsim::array_of(handle)->needed;
    out->alignment = nvsim::kGranularity;
    return CUDA_SUCCESS;
  });
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* shape, unsigned int levels) {
  return nvsim::create_mipmap(out, shape, levels);
}
CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUmipmappedArray handle, CUdevice) {
  return nvsim::with_context([&](nvsim::Context&) {
    const auto* mipmap = reinterpret_cast<const nvsim::Mipmap*>(handle);
    if (out == nullptr || mipmap == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *out = {};
    out->size = mipmap->whole.needed;
    out->alignment = nvsim::kGranularity;
    return CUDA_SUCCESS;
  });
}
CUresult cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray handle, unsigned int level) {
  return nvsim::with_context([&](nvsim::Context&) {
    const auto* mipmap = reinterpret_cast<nvsim::Mipmap*>(handle);
    if (out == nullptr || mipmap == nullptr || level >= mipmap->levels.size()) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *out = reinterpret_cast<CUarray>(mipmap->levels[level]);
    return CUDA_SUCCESS;
  });
}
CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle) {
  return nvsim::with_context([&](nvsim::Context&) {
    auto* mipmap = reinterpret_cast<nvsim::Mipmap*>(handle);
    if (mipmap == nullptr) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    nvsim::give_back(mipmap->whole);
    for (const nvsim::Array* level : mipmap->levels) {
      delete level;
    }
    delete mipmap;
    return CUDA_SUCCESS;
  });
}
