// A script: the operations that every allocator runs, in the same order. Written before any clock starts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

// 0 bytes: free what is in the slot; else allocate into it. As in the files that run.py writes.
struct Op {
    uint32_t slot;
    uint32_t stream;
    uint64_t bytes;
};
static_assert(sizeof(Op) == 16);

struct Script {
    std::vector<Op> fill; // run once
    std::vector<Op> pass; // leaves the same slots full that it found full, so it can run again and again
    uint32_t slots = 1;
    uint64_t pairs = 0; // of a pass
};
using SharedScript = std::shared_ptr<const Script>;

inline SharedScript finished(Script script) {
    for (const Op &op : script.pass) script.pairs += op.bytes != 0;
    return std::make_shared<const Script>(std::move(script));
}

// One block at a time, with nothing else live.
inline SharedScript pairs_of(uint64_t bytes) {
    Script script;
    for (int i = 0; i < 1000; ++i) {
        script.pass.push_back({0, 0, bytes});
        script.pass.push_back({0, 0, 0});
    }
    return finished(std::move(script));
}

struct Churn {
    uint32_t live;
    uint64_t bytes_min;
    uint64_t bytes_max;
    uint32_t pairs; // of a pass
};

// A random live block is freed and another allocated, of a size whose logarithm is uniform.
inline SharedScript churn_of(const Churn &churn) {
    std::mt19937_64 random(0x5717c4);
    std::uniform_real_distribution<double> logarithm(
        std::log(static_cast<double>(churn.bytes_min)), std::log(static_cast<double>(churn.bytes_max)));
    std::uniform_int_distribution<uint32_t> slot(0, churn.live - 1);
    const auto bytes = [&] { return std::max<uint64_t>(1, static_cast<uint64_t>(std::exp(logarithm(random)))); };
    Script script;
    script.slots = churn.live;
    for (uint32_t i = 0; i < churn.live; ++i) script.fill.push_back({i, 0, bytes()});
    for (uint32_t i = 0; i < churn.pairs; ++i) {
        const uint32_t chosen = slot(random);
        script.pass.push_back({chosen, 0, 0});
        script.pass.push_back({chosen, 0, bytes()});
    }
    return finished(std::move(script));
}

// A recorded trace that run.py has written flat: operations, and at its end the frees of what was left.
inline SharedScript recorded(const std::string &path, unsigned streams) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) throw std::runtime_error("cannot read " + path);
    const auto length = static_cast<size_t>(file.tellg());
    Script script;
    script.pass.resize(length / sizeof(Op));
    file.seekg(0);
    file.read(reinterpret_cast<char *>(script.pass.data()), static_cast<std::streamsize>(length));
    if (!file || length % sizeof(Op) != 0) throw std::runtime_error(path + " is cut");
    for (Op &op : script.pass) {
        op.stream %= streams;
        script.slots = std::max(script.slots, op.slot + 1);
    }
    return finished(std::move(script));
}

// The most bytes that are live at once.
inline uint64_t peak_bytes(const Script &script) {
    std::vector<uint64_t> sizes(script.slots);
    uint64_t live = 0, peak = 0;
    for (const auto *ops : {&script.fill, &script.pass}) {
        for (const Op &op : *ops) {
            live = live - sizes[op.slot] + op.bytes;
            sizes[op.slot] = op.bytes;
            peak = std::max(peak, live);
        }
    }
    return peak;
}
