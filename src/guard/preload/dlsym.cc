// dlsym, dlvsym and dlopen. What they answer for RTLD_NEXT (and for an error message) depends on who calls, which the C
// library takes from the return address; so for every name that is not ours the entry points below leave the stack as
// the caller made it and jump into the real function.
#include <dlfcn.h>

#include "guard/preload/elf.h"
#include "guard/preload/libc.h"
#include "guard/preload/state.h"
#include "guard/preload/vendor.h"

namespace {

// In the two return registers of the ABI.
struct Decision {
  void* pointer;
  unsigned long jump;  // 1: go on in `pointer`; 0: answer `pointer`
};

using heddle::guard::LoadedObject;
using heddle::guard::vendor::Library;

bool same_object(const void* a, const void* b) {
  LoadedObject x;
  LoadedObject y;
  return heddle::guard::object_of(a, &x) && heddle::guard::object_of(b, &y) && x.dynamic == y.dynamic;
}

// True when the library of the vendor that is loaded has the name: ours has those of every version of it.
bool offers(const Library& library, const char* name) {
  LoadedObject object;
  return library.loaded() && heddle::guard::find_object(library.soname, nullptr, &object) &&
         heddle::guard::find_symbol(object, name) != nullptr;
}

// What the program may have for `hook`, when the real lookup answered `real`. `behind()` is the same lookup among the
// objects behind us.
template <typename Behind>
void* answer(const char* name, void* real, void* hook, const Library& library, Behind behind) {
  if (real == nullptr) return nullptr;
  LoadedObject owner;
  if (!heddle::guard::object_of(real, &owner)) return real;
  if (heddle::guard::begins_with(heddle::guard::name_of(owner), library.soname)) return library.loaded() ? hook : real;
  // Found in the global scope, where we come first: an answer only if there is a driver behind us that has it.
  // Where there is none the lookup has to fail as it does without us, with a text for dlerror(): programs read it, and
  // tell by it what the driver can do.
  if (same_object(real, reinterpret_cast<const void*>(&same_object))) {
    return offers(library, name) ? hook : behind();
  }
  return real;
}

}  // namespace

extern "C" void* heddle_guard_dlopen_entry(const char*, int) asm("dlopen");
extern "C" void* heddle_guard_dlsym_entry(void*, const char*) asm("dlsym");
extern "C" void* heddle_guard_dlvsym_entry(void*, const char*, const char*) asm("dlvsym");

namespace {

// Programs look dlsym itself up, too: where that would give them the C library's, they get ours.
void* entry_of_name(const char* name) {
  if (heddle::guard::same_text(name, "dlopen")) return reinterpret_cast<void*>(&heddle_guard_dlopen_entry);
  if (heddle::guard::same_text(name, "dlsym")) return reinterpret_cast<void*>(&heddle_guard_dlsym_entry);
  if (heddle::guard::same_text(name, "dlvsym")) return reinterpret_cast<void*>(&heddle_guard_dlvsym_entry);
  return nullptr;
}

constexpr const char* kRefused = "an entry point that the guard does not know";

// What the limits forbid because the guard does not know it: only where a driver would answer. `look_up()`: what the
// real lookup finds.
template <typename LookUp>
bool refuse(const char* name, LookUp look_up) {
  const Library* library = heddle::guard::vendor::refused_name(name);
  if (library == nullptr) return false;
  LoadedObject owner;
  void* found = look_up();
  return found != nullptr && heddle::guard::object_of(found, &owner) &&
         heddle::guard::begins_with(heddle::guard::name_of(owner), library->soname);
}

void* answer_entry(void* real, void* entry) {
  LoadedObject owner;
  if (real == nullptr || !heddle::guard::object_of(real, &owner)) return real;
  const char* owner_name = heddle::guard::name_of(owner);
  const bool libc =
      heddle::guard::begins_with(owner_name, "libc.so.") || heddle::guard::begins_with(owner_name, "libdl.so.");
  return libc ? entry : real;
}

}  // namespace

extern "C" {

__attribute__((visibility("hidden"), used)) Decision heddle_guard_dlsym(void* handle, const char* name) {
  const auto real = heddle::guard::real_dlsym();
  if (real == nullptr) return {nullptr, 0};
  const Library* library = nullptr;
  void* hook = name != nullptr ? heddle::guard::vendor::hook_of_name(name, &library) : nullptr;
  if (hook != nullptr)
    return {answer(name, real(handle, name), hook, *library, [&] { return real(RTLD_NEXT, name); }), 0};
  void* entry = name != nullptr && handle != RTLD_NEXT ? entry_of_name(name) : nullptr;
  if (entry != nullptr) return {answer_entry(real(handle, name), entry), 0};
  // The failing lookup leaves the text for dlerror().
  if (name != nullptr && refuse(name, [&] { return real(handle, name); })) return {real(RTLD_NEXT, kRefused), 0};
  return {reinterpret_cast<void*>(real), 1};
}

__attribute__((visibility("hidden"), used)) Decision heddle_guard_dlvsym(void* handle, const char* name,
                                                                         const char* version) {
  const auto real = heddle::guard::real_dlvsym();
  if (real == nullptr) return {nullptr, 0};
  const Library* library = nullptr;
  void* hook = name != nullptr ? heddle::guard::vendor::hook_of_name(name, &library) : nullptr;
  if (hook != nullptr)
    return {answer(name, real(handle, name, version), hook, *library, [&] { return real(RTLD_NEXT, name, version); }),
            0};
  void* entry = name != nullptr && handle != RTLD_NEXT ? entry_of_name(name) : nullptr;
  if (entry != nullptr) return {answer_entry(real(handle, name, version), entry), 0};
  if (name != nullptr && refuse(name, [&] { return real(handle, name, version); }))
    return {real(RTLD_NEXT, kRefused, version), 0};
  return {reinterpret_cast<void*>(real), 1};
}
}

namespace {

struct Opening {
  void* real;
  long flags;
};

void* next_dlopen = nullptr;

// The dlopen behind ours, which is the C library's or that of somebody who interposes it, too.
void* real_next_dlopen() {
  void* found = __atomic_load_n(&next_dlopen, __ATOMIC_RELAXED);
  if (found != nullptr) return found;
  const auto look_up = heddle::guard::real_dlsym();
  if (look_up != nullptr) found = look_up(RTLD_NEXT, "dlopen");
  if (found == nullptr) found = reinterpret_cast<void*>(heddle::guard::real_dlopen());
  __atomic_store_n(&next_dlopen, found, __ATOMIC_RELAXED);
  return found;
}

}  // namespace

// A library that is loaded with RTLD_DEEPBIND finds the driver, and dlsym, before us. So where there are limits the
// flag does not count: its names are looked up as those of any other library.
extern "C" __attribute__((visibility("hidden"), used)) Opening heddle_guard_dlopen(const char*, int flags) {
  if ((flags & RTLD_DEEPBIND) != 0 && heddle::guard::config().mode != heddle::guard::Config::Mode::kInert) {
    flags &= ~RTLD_DEEPBIND;
  }
  return {real_next_dlopen(), flags};
}

#if defined(__x86_64__)
#define HEDDLE_ENTRY(name, decide)                                             \
  asm(".text\n.globl " #name "\n.type " #name ",@function\n.p2align 4\n" #name \
      ":\n"                                                                    \
      ".cfi_startproc\n endbr64\n"                                             \
      " pushq %rdi\n .cfi_adjust_cfa_offset 8\n"                               \
      " pushq %rsi\n .cfi_adjust_cfa_offset 8\n"                               \
      " pushq %rdx\n .cfi_adjust_cfa_offset 8\n"                               \
      " call " #decide                                                         \
      "\n"                                                                     \
      " movq %rdx, %rcx\n"                                                     \
      " popq %rdx\n .cfi_adjust_cfa_offset -8\n"                               \
      " popq %rsi\n .cfi_adjust_cfa_offset -8\n"                               \
      " popq %rdi\n .cfi_adjust_cfa_offset -8\n"                               \
      " testq %rcx, %rcx\n jnz 1f\n ret\n"                                     \
      "1: jmp *%rax\n"                                                         \
      ".cfi_endproc\n.size " #name ", .-" #name "\n")
#define HEDDLE_OPEN_ENTRY(name, decide)                                        \
  asm(".text\n.globl " #name "\n.type " #name ",@function\n.p2align 4\n" #name \
      ":\n"                                                                    \
      ".cfi_startproc\n endbr64\n"                                             \
      " pushq %rdi\n .cfi_adjust_cfa_offset 8\n"                               \
      " subq $16, %rsp\n .cfi_adjust_cfa_offset 16\n"                          \
      " call " #decide                                                         \
      "\n"                                                                     \
      " movl %edx, %esi\n"                                                     \
      " addq $16, %rsp\n .cfi_adjust_cfa_offset -16\n"                         \
      " popq %rdi\n .cfi_adjust_cfa_offset -8\n"                               \
      " testq %rax, %rax\n jnz 1f\n ret\n"                                     \
      "1: jmp *%rax\n"                                                         \
      ".cfi_endproc\n.size " #name ", .-" #name "\n")
#elif defined(__aarch64__)
#define HEDDLE_ENTRY(name, decide)                                                                       \
  asm(".text\n.globl " #name "\n.type " #name ",%function\n.p2align 4\n" #name                           \
      ":\n"                                                                                              \
      ".cfi_startproc\n hint 34\n"                                                                       \
      " stp x29, x30, [sp, -48]!\n .cfi_def_cfa_offset 48\n .cfi_offset 29, -48\n .cfi_offset 30, -40\n" \
      " mov x29, sp\n stp x0, x1, [sp, 16]\n str x2, [sp, 32]\n"                                         \
      " bl " #decide                                                                                     \
      "\n"                                                                                               \
      " mov x16, x0\n mov x17, x1\n"                                                                     \
      " ldp x0, x1, [sp, 16]\n ldr x2, [sp, 32]\n"                                                       \
      " ldp x29, x30, [sp], 48\n .cfi_def_cfa_offset 0\n .cfi_restore 29\n .cfi_restore 30\n"            \
      " cbnz x17, 1f\n mov x0, x16\n ret\n"                                                              \
      "1: br x16\n"                                                                                      \
      ".cfi_endproc\n.size " #name ", .-" #name "\n")
#define HEDDLE_OPEN_ENTRY(name, decide)                                                                  \
  asm(".text\n.globl " #name "\n.type " #name ",%function\n.p2align 4\n" #name                           \
      ":\n"                                                                                              \
      ".cfi_startproc\n hint 34\n"                                                                       \
      " stp x29, x30, [sp, -32]!\n .cfi_def_cfa_offset 32\n .cfi_offset 29, -32\n .cfi_offset 30, -24\n" \
      " mov x29, sp\n str x0, [sp, 16]\n"                                                                \
      " bl " #decide                                                                                     \
      "\n"                                                                                               \
      " mov x16, x0\n ldr x0, [sp, 16]\n"                                                                \
      " ldp x29, x30, [sp], 32\n .cfi_def_cfa_offset 0\n .cfi_restore 29\n .cfi_restore 30\n"            \
      " cbnz x16, 1f\n mov x0, 0\n ret\n"                                                                \
      "1: br x16\n"                                                                                      \
      ".cfi_endproc\n.size " #name ", .-" #name "\n")
#else
#error "the guard has no dlsym entry for this machine"
#endif

HEDDLE_ENTRY(dlsym, heddle_guard_dlsym);
HEDDLE_ENTRY(dlvsym, heddle_guard_dlvsym);
HEDDLE_OPEN_ENTRY(dlopen, heddle_guard_dlopen);
