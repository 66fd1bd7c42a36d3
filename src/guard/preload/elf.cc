#include "guard/preload/elf.h"

#include <elf.h>
#include <link.h>

namespace heddle::guard {
namespace {

struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const uint32_t* gnu_hash = nullptr;
  const ElfW(Word) * hash = nullptr;
  const ElfW(Half) * versions = nullptr;
  ElfW(Word) soname = 0;
};

// glibc relocates these entries in memory on most machines, others leave them relative to the base.
template <typename T>
const T* at(uintptr_t base, ElfW(Addr) value) {
  return reinterpret_cast<const T*>(value < base ? base + value : value);
}

Tables tables_of(const LoadedObject& object) {
  Tables t;
  if (object.dynamic == nullptr) return t;
  for (const auto* d = static_cast<const ElfW(Dyn)*>(object.dynamic); d->d_tag != DT_NULL; ++d) {
    switch (d->d_tag) {
      case DT_SYMTAB:
        t.symbols = at<ElfW(Sym)>(object.base, d->d_un.d_ptr);
        break;
      case DT_STRTAB:
        t.strings = at<char>(object.base, d->d_un.d_ptr);
        break;
      case DT_GNU_HASH:
        t.gnu_hash = at<uint32_t>(object.base, d->d_un.d_ptr);
        break;
      case DT_HASH:
        t.hash = at<ElfW(Word)>(object.base, d->d_un.d_ptr);
        break;
      case DT_VERSYM:
        t.versions = at<ElfW(Half)>(object.base, d->d_un.d_ptr);
        break;
      case DT_SONAME:
        t.soname = static_cast<ElfW(Word)>(d->d_un.d_val);
        break;
      default:
        break;
    }
  }
  return t;
}

// 2: defined here, default version; 1: defined here, an older version; 0: not it.
int matches(const Tables& t, uint32_t index, const char* name) {
  const ElfW(Sym)& symbol = t.symbols[index];
  if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0) return 0;
  if ((symbol.st_info & 0xf) != STT_FUNC || !same_text(t.strings + symbol.st_name, name)) return 0;
  return t.versions != nullptr && (t.versions[index] & 0x8000) != 0 ? 1 : 2;
}

uint32_t find_by_gnu_hash(const Tables& t, const char* name) {
  const uint32_t buckets = t.gnu_hash[0];
  const uint32_t first = t.gnu_hash[1];
  const uint32_t bloom_words = t.gnu_hash[2];
  const auto* bucket =
      reinterpret_cast<const uint32_t*>(reinterpret_cast<const ElfW(Addr)*>(t.gnu_hash + 4) + bloom_words);
  const uint32_t* chain = bucket + buckets;
  if (buckets == 0) return 0;
  const uint32_t hash = gnu_hash_of(name);
  uint32_t older = 0;
  uint32_t i = bucket[hash % buckets];
  if (i < first) return 0;
  for (;; ++i) {
    const uint32_t entry = chain[i - first];
    if ((entry | 1) == (hash | 1)) {
      const int match = matches(t, i, name);
      if (match == 2) return i;
      if (match == 1) older = i;
    }
    if ((entry & 1) != 0) return older;
  }
}

// One more than the highest index of a symbol that can be looked up.
uint32_t symbol_count(const Tables& t) {
  if (t.gnu_hash == nullptr) return t.hash != nullptr ? t.hash[1] : 0;
  const uint32_t buckets = t.gnu_hash[0];
  const uint32_t first = t.gnu_hash[1];
  const auto* bucket =
      reinterpret_cast<const uint32_t*>(reinterpret_cast<const ElfW(Addr)*>(t.gnu_hash + 4) + t.gnu_hash[2]);
  uint32_t last = 0;
  for (uint32_t i = 0; i < buckets; ++i) last = bucket[i] > last ? bucket[i] : last;
  if (last < first) return 0;
  while ((bucket[buckets + last - first] & 1) == 0) ++last;
  return last + 1;
}

bool is_exported_function(const ElfW(Sym) & symbol) {
  return symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 && (symbol.st_info & 0xf) == STT_FUNC;
}

uint32_t find_by_hash(const Tables& t, const char* name) {
  uint32_t older = 0;
  for (uint32_t i = 1; i < t.hash[1]; ++i) {
    const int match = matches(t, i, name);
    if (match == 2) return i;
    if (match == 1) older = i;
  }
  return older;
}

LoadedObject object_from(const dl_phdr_info& info) {
  LoadedObject object;
  object.base = info.dlpi_addr;
  object.path = info.dlpi_name != nullptr ? info.dlpi_name : "";
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type == PT_DYNAMIC) {
      object.dynamic = reinterpret_cast<const void*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
    }
  }
  return object;
}

const char* file_name(const char* path) {
  const char* name = path;
  for (const char* p = path; *p != '\0'; ++p) {
    if (*p == '/') name = p + 1;
  }
  return name;
}

struct NameSearch {
  const char* prefixes[2];
  LoadedObject* found;
};

int visit_name(dl_phdr_info* info, size_t, void* data) {
  auto* search = static_cast<NameSearch*>(data);
  const LoadedObject object = object_from(*info);
  const char* soname = name_of(object);
  const char* file = file_name(object.path);
  for (const char* prefix : search->prefixes) {
    if (prefix == nullptr || (!begins_with(soname, prefix) && !begins_with(file, prefix))) continue;
    *search->found = object;
    return 1;
  }
  return 0;
}

struct AddressSearch {
  uintptr_t address;
  LoadedObject* found;
};

int visit_address(dl_phdr_info* info, size_t, void* data) {
  auto* search = static_cast<AddressSearch*>(data);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const uintptr_t start = info->dlpi_addr + segment.p_vaddr;
    if (search->address - start >= segment.p_memsz) continue;
    *search->found = object_from(*info);
    search->found->start = start;
    search->found->end = start + segment.p_memsz;
    return 1;
  }
  return 0;
}

}  // namespace

uint32_t gnu_hash_of(const char* name) {
  uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

bool begins_with(const char* name, const char* prefix) {
  while (*prefix != '\0') {
    if (*name++ != *prefix++) return false;
  }
  return true;
}

bool same_text(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) {
    ++a;
    ++b;
  }
  return *a == *b;
}

const char* name_of(const LoadedObject& object) {
  const Tables t = tables_of(object);
  if (t.strings != nullptr && t.soname != 0) return t.strings + t.soname;
  return object.path != nullptr ? file_name(object.path) : "";
}

bool find_object(const char* soname_prefix, const char* other_prefix, LoadedObject* found) {
  NameSearch search{{soname_prefix, other_prefix}, found};
  return dl_iterate_phdr(visit_name, &search) != 0;
}

bool object_of(const void* address, LoadedObject* found) {
  AddressSearch search{reinterpret_cast<uintptr_t>(address), found};
  return dl_iterate_phdr(visit_address, &search) != 0;
}

void* find_symbol(const LoadedObject& object, const char* name) {
  const Tables t = tables_of(object);
  if (t.symbols == nullptr || t.strings == nullptr) return nullptr;
  uint32_t index = 0;
  if (t.gnu_hash != nullptr) {
    index = find_by_gnu_hash(t, name);
  } else if (t.hash != nullptr) {
    index = find_by_hash(t, name);
  }
  if (index == 0) return nullptr;
  return reinterpret_cast<void*>(object.base + t.symbols[index].st_value);
}

const char* name_at(const LoadedObject& object, const void* address) {
  const Tables t = tables_of(object);
  if (t.symbols == nullptr || t.strings == nullptr) return nullptr;
  const uintptr_t value = reinterpret_cast<uintptr_t>(address) - object.base;
  const uint32_t count = symbol_count(t);
  for (uint32_t i = 1; i < count; ++i) {
    if (t.symbols[i].st_value == value && is_exported_function(t.symbols[i])) return t.strings + t.symbols[i].st_name;
  }
  return nullptr;
}

void each_function(const LoadedObject& object, SymbolVisitor visit, void* data) {
  const Tables t = tables_of(object);
  if (t.symbols == nullptr || t.strings == nullptr) return;
  const uint32_t count = symbol_count(t);
  for (uint32_t i = 1; i < count; ++i) {
    if (!is_exported_function(t.symbols[i])) continue;
    const char* name = t.strings + t.symbols[i].st_name;
    visit(name, gnu_hash_of(name), data);
  }
}

}  // namespace heddle::guard
