// Viterbi on any finite automaton: states with a stage, weighted edges. Exact for whatever a profile compiles to.
#include "automaton.hpp"

#include <algorithm>

namespace stageguard {
namespace {

// With e the evidence, w the weights of edges, v[t, j] = e[t, stage_j] + max over edges i → j of v[t-1, i] + w[i, j]. Of equals the
// first edge wins, in the order that `automaton.py` gives them.
//
// Scores are kept for one block of epochs at a time and worked out again from the block's first row on the way back, so that
// memory stays bounded however long the night; a night that fits in one block is computed once.
class AutomatonViterbi {
  public:
    AutomatonViterbi(const Automaton& a, Workspace& work) : a_(a), work_(work) {}

    double run(const double* evidence, std::int64_t n_epochs, std::int8_t* labels) {
        const std::int64_t n = a_.n_states;
        const std::int64_t block = std::max<std::int64_t>(2, std::min(n_epochs, kBlockBytes / (8 * n)));
        const std::int64_t n_blocks = (n_epochs + block - 1) / block;
        rows_ = work_.scores.need(block * n);
        heads_ = work_.heads.need(n_blocks * n);
        for (std::int64_t b = 0; b < n_blocks; ++b) {
            double* head = heads_ + b * n;
            if (b == 0)
                for (std::int64_t j = 0; j < n; ++j) head[j] = a_.initial[j] + evidence[a_.stage[j]];
            else
                advance(rows_ + (block - 1) * n, evidence + b * block * a_.n_stages, head);
            fill(evidence, n_epochs, b, block);
        }
        std::int64_t state = -1;
        double best = kImpossibleScore;
        const double* tail = rows_ + (n_epochs - 1 - (n_blocks - 1) * block) * n;
        for (std::int64_t j = 0; j < n; ++j)
            if (tail[j] + a_.final_weight[j] > best) best = tail[j] + a_.final_weight[j], state = j;
        if (state < 0) {
            std::fill_n(labels, n_epochs, std::int8_t{0});
            return kImpossibleScore;
        }
        for (std::int64_t b = n_blocks - 1; b >= 0; --b) {
            const std::int64_t begin = b * block, end = std::min(n_epochs, begin + block);
            if (b < n_blocks - 1) fill(evidence, n_epochs, b, block);
            for (std::int64_t t = end - 1; t >= begin; --t) {
                if (t + 1 < n_epochs) state = predecessor(rows_ + (t - begin) * n, state);
                labels[t] = static_cast<std::int8_t>(a_.stage[state]);
            }
        }
        return best;
    }

  private:
    void advance(const double* before, const double* row, double* after) const {
        for (std::int64_t j = 0; j < a_.n_states; ++j) {
            double best = kImpossibleScore;
            for (std::int32_t e = a_.first[j]; e < a_.first[j + 1]; ++e) {
                const double arriving = before[a_.source[e]] + a_.weight[e];
                best = arriving > best ? arriving : best;
            }
            after[j] = best + row[a_.stage[j]];
        }
    }

    void fill(const double* evidence, std::int64_t n_epochs, std::int64_t b, std::int64_t block) {
        const std::int64_t n = a_.n_states, begin = b * block, end = std::min(n_epochs, begin + block);
        std::copy_n(heads_ + b * n, n, rows_);
        for (std::int64_t t = begin + 1; t < end; ++t) advance(rows_ + (t - 1 - begin) * n, evidence + t * a_.n_stages, rows_ + (t - begin) * n);
    }

    // Looking again, on the way back, takes less than noting what was best.
    std::int64_t predecessor(const double* before, std::int64_t state) const {
        std::int32_t chosen = a_.first[state];
        double best = before[a_.source[chosen]] + a_.weight[chosen];
        for (std::int32_t e = chosen + 1; e < a_.first[state + 1]; ++e) {
            const double candidate = before[a_.source[e]] + a_.weight[e];
            if (candidate > best) best = candidate, chosen = e;
        }
        return a_.source[chosen];
    }

    const Automaton& a_;
    Workspace& work_;
    double* rows_ = nullptr;   // (block, n_states)
    double* heads_ = nullptr;  // (n_blocks, n_states) each block's first row
};

}  // namespace

double decode_automaton(const Automaton& a, Workspace& work, const double* evidence, std::int64_t n_epochs, std::int8_t* labels) {
    return AutomatonViterbi(a, work).run(evidence, n_epochs, labels);
}

}  // namespace stageguard
