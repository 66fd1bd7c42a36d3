// The launch families. Without a compute limit a launch costs one counter. Work that ACL hands to the runtime passes
// the gate once; memory that the call takes underneath is charged all the same.
#include "guard/preload/ascend/driver.h"
#include "guard/preload/launch.h"

namespace heddle::guard {
namespace {

// Set while the thread is inside a launch that has passed the gate.
__thread bool launching __attribute__((tls_model("initial-exec"))) = false;

uint64_t mix(uint64_t hash, uint64_t value) {
  return (hash ^ value) * 0x9e3779b97f4a7c15u ^ (hash >> 29);
}

// Numbers of blocks of the same order of magnitude share an estimate.
uint64_t key_of(uint64_t function, uint64_t blocks) {
  const auto magnitude = static_cast<uint64_t>(64 - __builtin_clzll(blocks | 1));
  const uint64_t key = mix(mix(0, function), magnitude);
  return key != 0 ? key : 1;
}

// Inlined into the exported functions: who called them is looked at.
template <typename Call>
[[gnu::always_inline]] inline int launch(void* stream, uint64_t function, uint64_t blocks, Call call) {
  if (launching && is_in_driver(__builtin_return_address(0))) return call();
  Ticket ticket{};
  {
    const Entry entry;
    if (entry.nested()) return call();
    if (heddle_guard_slot* slot = own_slot()) __atomic_fetch_add(&slot->launches, 1, __ATOMIC_RELAXED);
    announce([] { return current_rule(); });
    const int rule = config().any_compute_limit ? current_rule() : kNoDevice;
    if (rule >= 0 && config().devices[rule].paced()) {
      ticket = admit(rule, Launch{key_of(function, blocks), stream, false});
    }
  }
  const bool outer = launching;
  launching = true;
  const int result = call();
  launching = outer;
  const Entry entry;
  after_launch(ticket, result == ACL_SUCCESS);
  return result;
}

uint64_t number(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

uint64_t text_key(const char* text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (; text != nullptr && *text != '\0'; ++text) hash = mix(hash, static_cast<unsigned char>(*text));
  return hash;
}

}  // namespace
}  // namespace heddle::guard

using namespace heddle::guard;

#define HEDDLE_LAUNCH(table, name, parameters, arguments, stream, function, blocks)   \
  HEDDLE_EXPORT int name parameters {                                                 \
    const auto real = table().name;                                                   \
    if (real == nullptr) return kNoSuchFunction;                                      \
    return launch(stream, function, blocks, [&]() -> int { return real arguments; }); \
  }

extern "C" {

HEDDLE_LAUNCH(acl, aclrtLaunchKernel,
              (aclrtFuncHandle f, uint32_t blocks, const void* args, size_t size, aclrtStream stream),
              (f, blocks, args, size, stream), stream, number(f), blocks)
HEDDLE_LAUNCH(acl, aclrtLaunchKernelV2,
              (aclrtFuncHandle f, uint32_t blocks, const void* args, size_t size, aclrtLaunchKernelCfg* shape,
               aclrtStream stream),
              (f, blocks, args, size, shape, stream), stream, number(f), blocks)
HEDDLE_LAUNCH(acl, aclrtLaunchKernelWithConfig,
              (aclrtFuncHandle f, uint32_t blocks, aclrtStream stream, aclrtLaunchKernelCfg* shape,
               aclrtArgsHandle args, void* reserve),
              (f, blocks, stream, shape, args, reserve), stream, number(f), blocks)
HEDDLE_LAUNCH(acl, aclrtLaunchKernelWithHostArgs,
              (aclrtFuncHandle f, uint32_t blocks, aclrtStream stream, aclrtLaunchKernelCfg* shape, void* args,
               size_t size, aclrtPlaceHolderInfo* places, size_t count),
              (f, blocks, stream, shape, args, size, places, count), stream, number(f), blocks)
HEDDLE_LAUNCH(acl, aclrtLaunchKernelWithArgsArray,
              (void* f, uint32_t blocks, aclrtStream stream, aclrtLaunchKernelCfg* shape, void** args),
              (f, blocks, stream, shape, args), stream, number(f), blocks)
HEDDLE_LAUNCH(acl, aclmdlRIExecuteAsync, (aclmdlRI model, aclrtStream stream), (model, stream), stream, number(model),
              1)
// The calls that wait: what they did lies between two events of the default stream.
HEDDLE_LAUNCH(acl, aclmdlRIExecute, (aclmdlRI model, int32_t timeout), (model, timeout), nullptr, number(model), 2)
HEDDLE_LAUNCH(acl, aclmdlExecute, (uint32_t model, const aclmdlDataset* in, aclmdlDataset* out), (model, in, out),
              nullptr, model, 4)
HEDDLE_LAUNCH(acl, aclmdlExecuteV2,
              (uint32_t model, const aclmdlDataset* in, aclmdlDataset* out, aclrtStream stream,
               const aclmdlExecConfigHandle* wanted),
              (model, in, out, stream, wanted), stream, model, 8)
HEDDLE_LAUNCH(acl, aclmdlExecuteAsync,
              (uint32_t model, const aclmdlDataset* in, aclmdlDataset* out, aclrtStream stream),
              (model, in, out, stream), stream, model, 16)
HEDDLE_LAUNCH(acl, aclmdlExecuteAsyncV2,
              (uint32_t model, const aclmdlDataset* in, aclmdlDataset* out, aclrtStream stream,
               const aclmdlExecConfigHandle* wanted),
              (model, in, out, stream, wanted), stream, model, 16)
HEDDLE_LAUNCH(acl, aclopExecute,
              (const char* type, int ins, const aclTensorDesc* const in_desc[], const aclDataBuffer* const in[],
               int outs, const aclTensorDesc* const out_desc[], aclDataBuffer* const out[], const aclopAttr* attr,
               aclrtStream stream),
              (type, ins, in_desc, in, outs, out_desc, out, attr, stream), stream, text_key(type), 1)
HEDDLE_LAUNCH(acl, aclopExecuteV2,
              (const char* type, int ins, aclTensorDesc* in_desc[], aclDataBuffer* in[], int outs,
               aclTensorDesc* out_desc[], aclDataBuffer* out[], aclopAttr* attr, aclrtStream stream),
              (type, ins, in_desc, in, outs, out_desc, out, attr, stream), stream, text_key(type), 1)
HEDDLE_LAUNCH(acl, aclopExecWithHandle,
              (aclopHandle * handle, int ins, const aclDataBuffer* const in[], int outs, aclDataBuffer* const out[],
               aclrtStream stream),
              (handle, ins, in, outs, out, stream), stream, number(handle), 1)
HEDDLE_LAUNCH(acl, aclopCast,
              (const aclTensorDesc* from_desc, const aclDataBuffer* from, const aclTensorDesc* to_desc,
               aclDataBuffer* to, uint8_t truncate, aclrtStream stream),
              (from_desc, from, to_desc, to, truncate, stream), stream, 0x63617374, 1)

HEDDLE_LAUNCH(rt, rtKernelLaunch,
              (const void* f, uint32_t blocks, void* args, uint32_t size, rtSmDesc_t* desc, rtStream_t stream),
              (f, blocks, args, size, desc, stream), stream, number(f), blocks)
HEDDLE_LAUNCH(rt, rtKernelLaunchWithFlag,
              (const void* f, uint32_t blocks, rtArgsEx_t* args, rtSmDesc_t* desc, rtStream_t stream, uint32_t flags),
              (f, blocks, args, desc, stream, flags), stream, number(f), blocks)
HEDDLE_LAUNCH(rt, rtKernelLaunchWithFlagV2,
              (const void* f, uint32_t blocks, rtArgsEx_t* args, rtSmDesc_t* desc, rtStream_t stream, uint32_t flags,
               const rtTaskCfgInfo_t* wanted),
              (f, blocks, args, desc, stream, flags, wanted), stream, number(f), blocks)
HEDDLE_LAUNCH(rt, rtKernelLaunchWithHandle,
              (void* handle, uint64_t tiling, uint32_t blocks, rtArgsEx_t* args, rtSmDesc_t* desc, rtStream_t stream,
               const void* info),
              (handle, tiling, blocks, args, desc, stream, info), stream, number(handle) ^ tiling, blocks)
HEDDLE_LAUNCH(rt, rtKernelLaunchWithHandleV2,
              (void* handle, uint64_t tiling, uint32_t blocks, rtArgsEx_t* args, rtSmDesc_t* desc, rtStream_t stream,
               const rtTaskCfgInfo_t* wanted),
              (handle, tiling, blocks, args, desc, stream, wanted), stream, number(handle) ^ tiling, blocks)
HEDDLE_LAUNCH(rt, rtAicpuKernelLaunchWithFlag,
              (const rtKernelLaunchNames_t* names, uint32_t blocks, const rtArgsEx_t* args, rtSmDesc_t* desc,
               rtStream_t stream, uint32_t flags),
              (names, blocks, args, desc, stream, flags), stream, number(names), blocks)
HEDDLE_LAUNCH(rt, rtAicpuKernelLaunchExWithArgs,
              (uint32_t kind, const char* name, uint32_t blocks, const rtAicpuArgsEx_t* args, rtSmDesc_t* desc,
               rtStream_t stream, uint32_t flags),
              (kind, name, blocks, args, desc, stream, flags), stream, text_key(name), blocks)
HEDDLE_LAUNCH(rt, rtModelExecute, (rtModel_t model, rtStream_t stream, uint32_t flag), (model, stream, flag), stream,
              number(model), 1)

#define HEDDLE_STREAM_END(table, name)               \
  HEDDLE_EXPORT int name(void* stream) {             \
    const auto real = table().name;                  \
    if (real == nullptr) return kNoSuchFunction;     \
    const Entry entry;                               \
    if (!entry.nested()) before_stream_ends(stream); \
    return real(stream);                             \
  }
HEDDLE_STREAM_END(acl, aclrtDestroyStream)
HEDDLE_STREAM_END(acl, aclrtDestroyStreamForce)
HEDDLE_STREAM_END(rt, rtStreamDestroy)
#undef HEDDLE_STREAM_END

// What the device is through with after the program waited for it is charged.
#define HEDDLE_WAIT(table, name, parameters, arguments) \
  HEDDLE_EXPORT int name parameters {                   \
    const auto real = table().name;                     \
    if (real == nullptr) return kNoSuchFunction;        \
    const Entry entry;                                  \
    if (entry.nested()) return real arguments;          \
    before_wait();                                      \
    const int result = real arguments;                  \
    after_wait();                                       \
    return result;                                      \
  }
HEDDLE_WAIT(acl, aclrtSynchronizeDevice, (), ())
HEDDLE_WAIT(acl, aclrtSynchronizeDeviceWithTimeout, (int32_t timeout), (timeout))
HEDDLE_WAIT(acl, aclrtSynchronizeStream, (aclrtStream stream), (stream))
HEDDLE_WAIT(acl, aclrtSynchronizeStreamWithTimeout, (aclrtStream stream, int32_t timeout), (stream, timeout))
HEDDLE_WAIT(acl, aclrtSynchronizeEvent, (aclrtEvent event), (event))
HEDDLE_WAIT(acl, aclrtSynchronizeEventWithTimeout, (aclrtEvent event, int32_t timeout), (event, timeout))
HEDDLE_WAIT(acl, aclrtMemcpy, (void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind),
            (to, room, from, bytes, kind))
HEDDLE_WAIT(rt, rtDeviceSynchronize, (), ())
HEDDLE_WAIT(rt, rtStreamSynchronize, (rtStream_t stream), (stream))
HEDDLE_WAIT(rt, rtEventSynchronize, (rtEvent_t event), (event))
#undef HEDDLE_WAIT

HEDDLE_EXPORT aclError aclrtDestroyContext(aclrtContext context) {
  const auto real = acl().aclrtDestroyContext;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested()) return real(context);
  before_context_ends(number(context));
  const aclError result = real(context);
  after_context_ended(number(context), result == ACL_SUCCESS);
  return result;
}
}
