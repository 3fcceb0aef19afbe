// Runs one script on one allocator: a thread a lane, all let go at once. Owns the live blocks; keeps no results.
#pragma once

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <sched.h>

#include <barrier>
#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include "contender.h"
#include "script.h"

struct Workload {
    std::string name;
    SharedScript script;
    unsigned threads = 1;
    bool one_stream = false;
};

// The share of the CPUs this process may use that a thread gets: one CPU, so that no run is moved about.
inline void pin(unsigned thread) {
    static const std::vector<int> allowed = [] {
        cpu_set_t set;
        std::vector<int> cpus;
        if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
            if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
        }
        return cpus;
    }();
    if (allowed.empty()) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(allowed[thread % allowed.size()], &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

template <class Contender> class Lanes {
    using Clock = std::chrono::steady_clock;

public:
    Lanes(Contender &contender, const Workload &workload) : contender_(contender), workload_(workload) {
        blocks_.assign(workload.threads, std::vector<void *>(workload.script->slots, nullptr));
    }

    void fill() {
        together([this](unsigned lane) { play(workload_.script->fill, lane); });
    }

    // Nanoseconds a pair, over all threads together: from the first one's start to the last one's end.
    double ns_per_pair(uint64_t passes) {
        const double ns = together([this, passes](unsigned lane) {
            for (uint64_t pass = 0; pass < passes; ++pass) play(workload_.script->pass, lane);
        });
        return ns / static_cast<double>(passes * workload_.script->pairs * workload_.threads);
    }

    // How many passes take `least_ns`. Warms up on the way: three passes at least.
    uint64_t passes_for(double least_ns) {
        ns_per_pair(2);
        uint64_t passes = 1;
        while (passes < uint64_t{1} << 20) {
            const double ns = ns_per_pair(passes) * static_cast<double>(
                passes * workload_.script->pairs * workload_.threads);
            if (ns >= least_ns) break;
            passes *= ns * 4 < least_ns ? 4 : 2;
        }
        return passes;
    }

    // Frees what is live and lets the allocator give all of it back.
    void empty() {
        for (unsigned lane = 0; lane < workload_.threads; ++lane) {
            // A script that fills has one stream; one that does not has ended with nothing live, unless it failed.
            for (void *&block : blocks_[lane]) {
                if (block != nullptr) contender_.free(base(lane), block);
                block = nullptr;
            }
        }
        contender_.give_back();
    }

private:
    unsigned base(unsigned lane) const { return workload_.one_stream ? 0 : lane; }

    void play(const std::vector<Op> &ops, unsigned lane) {
        void **const blocks = blocks_[lane].data();
        const unsigned first = base(lane);
        for (const Op &op : ops) {
            const unsigned stream = first + op.stream;
            if (op.bytes != 0) {
                blocks[op.slot] = contender_.alloc(stream, op.bytes);
            } else {
                void *const block = blocks[op.slot];
                blocks[op.slot] = nullptr;
                contender_.free(stream, block);
            }
        }
    }

    template <class Work> double together(const Work &work) {
        const unsigned count = workload_.threads;
        std::barrier start(count);
        std::vector<Clock::time_point> begun(count), ended(count);
        std::vector<std::exception_ptr> failures(count);
        std::vector<std::thread> threads;
        for (unsigned lane = 0; lane < count; ++lane) {
            threads.emplace_back([&, lane] {
                pin(lane);
                const cudaError_t device = cudaSetDevice(kDevice);
                start.arrive_and_wait();
                begun[lane] = Clock::now();
                try {
                    check(device, "cudaSetDevice");
                    work(lane);
                } catch (...) {
                    failures[lane] = std::current_exception();
                }
                ended[lane] = Clock::now();
            });
        }
        for (std::thread &thread : threads) thread.join();
        for (const std::exception_ptr &failure : failures) {
            if (failure) std::rethrow_exception(failure);
        }
        const auto span = *std::max_element(ended.begin(), ended.end()) - *std::min_element(begun.begin(), begun.end());
        return std::chrono::duration<double, std::nano>(span).count();
    }

    Contender &contender_;
    Workload workload_;
    std::vector<std::vector<void *>> blocks_; // of each lane; null: the slot is empty
};
