// A lock for a few instructions. It never sleeps but gives its time away when it has waited for long.
#pragma once

#include <atomic>
#include <thread>

namespace stitchpool {

class Spin {
 public:
  bool try_lock() noexcept {
    return !taken_.load(std::memory_order_relaxed) && !taken_.exchange(true, std::memory_order_acquire);
  }

  void lock() noexcept {
    if (__builtin_expect(!try_lock(), 0)) {
      wait();
    }
  }

  void unlock() noexcept {
    taken_.store(false, std::memory_order_release);
  }

 private:
  __attribute__((noinline)) void wait() noexcept {
    for (int look = 0; !try_lock(); ++look) {
      if (look < kLooks) {
        pause();
      } else {
        std::this_thread::yield();
      }
    }
  }

  static void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  static constexpr int kLooks = 64;
  std::atomic<bool> taken_{false};
};

}  // namespace stitchpool
