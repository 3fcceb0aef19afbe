// The harness: every workload on the three allocators in one process, round by round in a fixed order.
// Prints one JSON object a line, a line a workload; run.py makes the table of them.
//
//   harness ROUNDS [NAME=FILE...]    # FILE: a recorded trace, flat
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "lanes.h"

namespace {

constexpr uint64_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;
constexpr double kLeastNs = 30e6; // a round of one allocator; shorter ones would measure the threads' start
// Above it the three caches may not fit beside each other: then one allocator after the other has all its rounds.
constexpr uint64_t kPeakBytesBeside = 20 * GiB;

struct Result {
    const char *name;
    std::vector<double> ns;
    uint64_t passes = 0;
    Figures before, after; // the timed rounds
    std::string failure;
};

// One allocator's part in a race: what was asked of it, step by step; after a failure it takes no more part.
template <class Contender> class Part {
public:
    Part(Contender &contender, const Workload &workload) : contender_(contender), lanes_(contender, workload) {
        result_.name = Contender::kName;
    }
    void warm_up() {
        attempt([this] {
            lanes_.fill();
            result_.passes = lanes_.passes_for(kLeastNs);
            result_.before = contender_.figures();
        });
    }
    void round() {
        attempt([this] { result_.ns.push_back(lanes_.ns_per_pair(result_.passes)); });
    }
    void end() {
        attempt([this] { result_.after = contender_.figures(); });
        try {
            lanes_.empty();
        } catch (const std::exception &failure) {
            result_.failure += std::string(result_.failure.empty() ? "" : "; ") + failure.what();
        }
    }
    const Result &result() const { return result_; }

private:
    template <class Step> void attempt(const Step &step) {
        if (!result_.failure.empty()) return;
        try {
            step();
        } catch (const std::exception &failure) {
            result_.failure = failure.what();
            if (result_.failure.empty()) result_.failure = "failed";
        }
    }

    Contender &contender_;
    Lanes<Contender> lanes_;
    Result result_;
};

std::string quoted(const std::string &text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return out + '"';
}

void print(const Workload &workload, const std::vector<Result> &results) {
    std::printf("{\"workload\": %s, \"threads\": %u, \"pairs_a_pass\": %llu, \"peak_bytes\": %llu, \"allocators\": {",
                quoted(workload.name).c_str(), workload.threads,
                static_cast<unsigned long long>(workload.script->pairs),
                static_cast<unsigned long long>(peak_bytes(*workload.script) * workload.threads));
    const char *comma = "";
    for (const Result &result : results) {
        std::printf("%s%s: {\"ns\": [", comma, quoted(result.name).c_str());
        for (size_t i = 0; i < result.ns.size(); ++i) std::printf("%s%.3f", i ? ", " : "", result.ns[i]);
        const bool counted = result.after.misses >= 0 && result.before.misses >= 0;
        std::printf("], \"passes_a_round\": %llu, \"misses\": %s, \"held_bytes\": %llu, \"failure\": %s}",
                    static_cast<unsigned long long>(result.passes),
                    counted ? std::to_string(result.after.misses - result.before.misses).c_str() : "null",
                    static_cast<unsigned long long>(result.after.held_bytes),
                    result.failure.empty() ? "null" : quoted(result.failure).c_str());
        comma = ", ";
    }
    std::printf("}}\n");
    std::fflush(stdout);
}

struct Allocators {
    Stitchpool stitchpool;
    Torch torch{stitchpool.raw_streams()};
    CudaAsync cuda_async{stitchpool.raw_streams()};
};

void race(Allocators &allocators, const Workload &workload, unsigned rounds) {
    Part first(allocators.stitchpool, workload);
    Part second(allocators.torch, workload);
    Part third(allocators.cuda_async, workload);
    const auto in_turn = [&](const auto &step) { step(first), step(second), step(third); };
    if (peak_bytes(*workload.script) * workload.threads <= kPeakBytesBeside) {
        in_turn([](auto &part) { part.warm_up(); });
        for (unsigned i = 0; i < rounds; ++i) in_turn([](auto &part) { part.round(); });
        in_turn([](auto &part) { part.end(); });
    } else {
        in_turn([rounds](auto &part) {
            part.warm_up();
            for (unsigned i = 0; i < rounds; ++i) part.round();
            part.end();
        });
    }
    print(workload, {first.result(), second.result(), third.result()});
}

std::vector<Workload> workloads(const std::vector<std::string> &traces) {
    std::vector<Workload> all;
    all.push_back({"pair 512 B", pairs_of(512)});
    all.push_back({"pair 1 MiB", pairs_of(MiB)});
    all.push_back({"pair 20 MiB", pairs_of(20 * MiB)});
    all.push_back({"pair 1 GiB", pairs_of(GiB)});
    all.push_back({"churn 2000 live", churn_of({2'000, 512, 64 * MiB, 20'000})});
    all.push_back({"churn 20000 live", churn_of({20'000, 512, 8 * MiB, 40'000})});
    const auto small_churn = churn_of({64, 512, 4 * MiB, 1'000});
    const std::pair<const char *, SharedScript> kinds[] = {{"pair 1 MiB", pairs_of(MiB)}, {"churn 64 live", small_churn}};
    for (const auto &[kind, script] : kinds) {
        for (const unsigned threads : {1u, 2u, 8u, 16u}) {
            all.push_back({std::string(kind) + ", threads " + std::to_string(threads), script, threads});
        }
        all.push_back({std::string(kind) + ", threads 16, one stream", script, 16, true});
    }
    for (const std::string &trace : traces) {
        const size_t equals = trace.find('=');
        if (equals == std::string::npos) throw std::runtime_error("not NAME=FILE: " + trace);
        all.push_back({"trace " + trace.substr(0, equals), recorded(trace.substr(equals + 1), kStreams)});
    }
    return all;
}

} // namespace

int main(int count, char **words) try {
    const int rounds = count > 1 ? std::atoi(words[1]) : 0;
    if (rounds < 1) throw std::runtime_error("usage: harness ROUNDS [NAME=FILE...]");
    const auto all = workloads(std::vector<std::string>(words + 2, words + count));
    check(cudaSetDevice(kDevice), "cudaSetDevice");
    Allocators allocators;
    std::printf("{\"driver\": %s, \"torch_backend\": %s}\n", allocators.stitchpool.on_cuda() ? "\"cuda\"" : "\"host\"",
                quoted(c10::cuda::CUDACachingAllocator::get()->name()).c_str());
    std::fflush(stdout);
    for (const Workload &workload : all) race(allocators, workload, static_cast<unsigned>(rounds));
    return 0;
} catch (const std::exception &failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
