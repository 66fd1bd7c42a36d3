// The C library's dl functions behind our own.
#pragma once

namespace heddle::guard {

// The C library's own functions, found without calling it.
using DlsymFunction = void* (*)(void*, const char*);
using DlvsymFunction = void* (*)(void*, const char*, const char*);
DlsymFunction real_dlsym();
DlvsymFunction real_dlvsym();
using DlopenFunction = void* (*)(const char*, int);
DlopenFunction real_dlopen();

}  // namespace heddle::guard
