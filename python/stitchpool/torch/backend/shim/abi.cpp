#include "abi.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>

namespace stitchpool {

namespace {

// The library as it is loaded already; loaded now only if nobody has.
void* opened(const char* library_path) {
  if (void* found = dlopen(library_path, RTLD_NOW | RTLD_NOLOAD)) {
    return found;
  }
  void* loaded = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
  TORCH_CHECK(loaded != nullptr, "stitchpool: ", library_path, " cannot be loaded: ", dlerror());
  return loaded;
}

template <typename Function>
void find(void* library, const char* library_path, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  TORCH_CHECK(
      function != nullptr, "stitchpool: ", library_path, " has no function ", name,
      ": it is older than this backend, or another library; install them together");
}

}  // namespace

Abi Abi::of(const char* library_path) {
  void* library = opened(library_path);
  Abi abi;
#define STITCHPOOL_FIND(name) find(library, library_path, #name, abi.name);
  STITCHPOOL_ABI(STITCHPOOL_FIND)
#undef STITCHPOOL_FIND
  const uint32_t version = abi.stitchpool_version();
  TORCH_CHECK(
      version / 1000 == STITCHPOOL_VERSION / 1000, "stitchpool: ", library_path, " has version ", version,
      ", and this backend was built for ", STITCHPOOL_VERSION, ": install them together");
  return abi;
}

}  // namespace stitchpool
