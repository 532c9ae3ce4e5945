#include "tests/proc/heap_watch.h"

#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t kLarge = 4096;
constexpr int kTraces = 4, kFrames = 24;

std::atomic<bool> watching{false};
std::atomic<int64_t> large{0};
struct Trace {
  size_t bytes;
  int frames;
  void* addresses[kFrames];
} traces[kTraces];

// UCX keeps pools of its own, which grow by what comes before its receive, within 4 MiB per peer.
bool TakenByUcx(const Trace& trace) {
  for (int i = 1; i < std::min(trace.frames, 6); ++i) {
    Dl_info info;
    if (dladdr(trace.addresses[i], &info) != 0 && info.dli_fname != nullptr &&
        std::strstr(info.dli_fname, "/libucs.so") != nullptr) {
      return true;
    }
  }
  return false;
}

void Note(size_t bytes) {
  if (bytes < kLarge || !watching.load(std::memory_order_relaxed)) return;
  Trace trace{.bytes = bytes};
  trace.frames = backtrace(trace.addresses, kFrames);
  if (TakenByUcx(trace)) return;
  const int64_t index = large.fetch_add(1);
  if (index < kTraces) traces[index] = trace;
}

}  // namespace

#ifdef STRATA_SANITIZED

// Of the sanitizers' own allocator; GCC has the function without its header.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*,
                                                                             size_t),
                                                         void (*free_hook)(const volatile void*));

namespace {

[[maybe_unused]] const int installed = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, size_t bytes) { Note(bytes); }, [](const volatile void*) {});

}  // namespace

#else

// glibc's own names for what is replaced here.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  Note(bytes);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  Note(count * bytes);
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  Note(bytes);
  return __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  Note(bytes);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** block, size_t alignment, size_t bytes) {
  *block = memalign(alignment, bytes);
  return *block == nullptr ? 12 : 0;
}
}

#endif

namespace strata {

void WatchHeap(bool on) {
  // Its first call loads a library.
  void* frame[1];
  backtrace(frame, 1);
  watching = on;
}

int64_t LargeHeapBlocks() { return large; }

void PrintLargeHeapBlocks() {
  for (int i = 0; i < std::min<int64_t>(kTraces, large); ++i) {
    dprintf(2, "heap block of %zu bytes\n", traces[i].bytes);
    backtrace_symbols_fd(traces[i].addresses, traces[i].frames, 2);
  }
}

int MemoryFiles() {
  int files = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    char target[64] = {};
    if (readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1) > 0) {
      files += std::strncmp(target, "/memfd:", 7) == 0 ? 1 : 0;
    }
  }
  closedir(folder);
  return files;
}

}  // namespace strata
