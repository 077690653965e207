// Viterbi on any finite automaton: states with a stage, weighted edges. Exact for whatever a profile compiles to.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pack.hpp"
#include "rules.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

// `P` holds a number per lane: one night under so many automata that differ in their weights alone, so that an edge is looked
// up once for all of them. Lane by lane the operations are the same, so that any number of lanes gives the same bytes.
//
// Scores are kept for one block of epochs at a time and worked out again from the block's first row on the way back,
// so that memory stays bounded however long the night; a night that fits in one block is computed once.
template <class P>
class AutomatonViterbi {
    static constexpr int L = P::kStride;

  public:
    AutomatonViterbi(const Automaton* lanes, Workspace& work) : lanes_(lanes), a_(lanes[0]), work_(work) {
        const std::int64_t n_edges = a_.first[a_.n_states];
        double* weight = work.weights.need(n_edges * L);
        for (std::int64_t e = 0; e < n_edges; ++e)
            for (int l = 0; l < L; ++l) weight[e * L + l] = lanes[l].weight[e];
        weight_ = weight;
    }

    void run(const double* evidence, std::int64_t n_epochs, std::int8_t* const* labels, Outcome* outcomes) {
        const std::int64_t n = a_.n_states * L;
        const std::int64_t block = std::max<std::int64_t>(2, std::min(n_epochs, kBlockBytes / (8 * n)));
        const std::int64_t n_blocks = (n_epochs + block - 1) / block;
        rows_ = work_.scores.need(block * n);
        heads_ = work_.heads.need(n_blocks * n);
        stayed_ = work_.stayed.need(block * a_.n_states);
        for (std::int64_t b = 0; b < n_blocks; ++b) {
            double* head = &heads_[b * n];
            if (b == 0) {
                for (std::int64_t j = 0; j < a_.n_states; ++j)
                    for (int l = 0; l < L; ++l) head[j * L + l] = lanes_[l].initial[j] + evidence[a_.stage[j]];
            } else {
                advance(&rows_[(block - 1) * n], evidence + b * block * a_.n_stages, head, stayed_);
            }
            fill(evidence, n_epochs, b, block);
        }
        std::int64_t state[L];
        const double* tail = &rows_[(n_epochs - 1 - (n_blocks - 1) * block) * n];
        for (int l = 0; l < L; ++l) outcomes[l] = {last_state(tail, l, state[l]), 0};
        for (std::int64_t b = n_blocks - 1; b >= 0; --b) {
            const std::int64_t begin = b * block, end = std::min(n_epochs, begin + block);
            if (b < n_blocks - 1) fill(evidence, n_epochs, b, block);
            for (int l = 0; l < L; ++l)
                if (state[l] >= 0) outcomes[l].switches += backtrace(l, begin, end, n_epochs, labels[l], state[l]);
        }
    }

  private:
    void advance(const double* before, const double* row, double* after, std::uint8_t* stayed) const {
        const std::int32_t *first = a_.first, *stage = a_.stage;
        const std::int64_t n_states = a_.n_states;
        for (std::int64_t j = 0; j < n_states; ++j) {
            std::int32_t e = first[j];
            const std::int32_t end = first[j + 1];
            if constexpr (L == 1) {  // then looking again, on the way back, takes less than noting what was best
                double best = kImpossibleScore;
                for (; e < end; ++e) best = larger(before[a_.source[e]] + weight_[e], best);
                after[j] = best + row[stage[j]];
                continue;
            }
            // no edge leads to where nights begin
            P best = e < end ? arriving(before, e) : P::all(kImpossibleScore);
            stayed[j] = 0xff;
            if (end - e > 1) {  // of most states there is one
                P rest = arriving(before, ++e), other = rest;  // two, for neither waits for the other
                for (++e; e + 1 < end; e += 2) {
                    rest = larger(arriving(before, e), rest);
                    other = larger(arriving(before, e + 1), other);
                }
                if (e < end) rest = larger(arriving(before, e), rest);
                rest = larger(other, rest);
                stayed[j] = static_cast<std::uint8_t>(at_least(best, rest));  // of equals the first edge wins
                best = larger(best, rest);
            }
            (best + P::all(row[stage[j]])).store(after + j * L);
        }
    }

    P arriving(const double* before, std::int32_t e) const {
        return P::load(before + std::int64_t{a_.source[e]} * L) + P::load(weight_ + std::int64_t{e} * L);
    }

    void fill(const double* evidence, std::int64_t n_epochs, std::int64_t b, std::int64_t block) {
        const std::int64_t n = a_.n_states * L, begin = b * block, end = std::min(n_epochs, begin + block);
        std::copy_n(&heads_[b * n], n, rows_);
        for (std::int64_t t = begin + 1; t < end; ++t)
            advance(&rows_[(t - 1 - begin) * n], evidence + t * a_.n_stages, &rows_[(t - begin) * n], stayed_ + (t - begin) * a_.n_states);
    }

    double last_state(const double* tail, int l, std::int64_t& state) const {
        state = -1;
        double best = kImpossibleScore;
        for (std::int64_t j = 0; j < a_.n_states; ++j)
            if (tail[j * L + l] + lanes_[l].final_weight[j] > best) {
                best = tail[j * L + l] + lanes_[l].final_weight[j];
                state = j;
            }
        return best;
    }

    // Labels the epochs of a block whose rows are filled in, and counts the stage changes after each. `state` is that of the
    // epoch after the block, of the night's last epoch in its last block; then that of the block's first.
    std::int64_t backtrace(int l, std::int64_t begin, std::int64_t end, std::int64_t n_epochs, std::int8_t* labels,
                           std::int64_t& state) const {
        std::int64_t switches = 0;
        for (std::int64_t t = end - 1; t >= begin; --t) {
            if (t + 1 < n_epochs) {
                const bool stays = L > 1 && t + 1 < end && (stayed_[(t + 1 - begin) * a_.n_states + state] >> l & 1);
                state = stays ? a_.source[a_.first[state]] : predecessor(&rows_[(t - begin) * a_.n_states * L], l, state);
            }
            labels[t] = static_cast<std::int8_t>(a_.stage[state]);
            if (t + 1 < n_epochs) switches += labels[t] != labels[t + 1];
        }
        return switches;
    }

    std::int64_t predecessor(const double* before, int l, std::int64_t state) const {
        std::int32_t chosen = a_.first[state];
        double best = before[std::int64_t{a_.source[chosen]} * L + l] + weight_[std::int64_t{chosen} * L + l];
        for (std::int32_t e = chosen + 1; e < a_.first[state + 1]; ++e) {
            const double candidate = before[std::int64_t{a_.source[e]} * L + l] + weight_[std::int64_t{e} * L + l];
            if (candidate > best) {
                best = candidate;
                chosen = e;
            }
        }
        return a_.source[chosen];
    }

    const Automaton* lanes_;  // L of them
    const Automaton& a_;
    Workspace& work_;
    const double* weight_;     // (n_edges, L)
    double* rows_ = nullptr;   // (block, n_states, L)
    double* heads_ = nullptr;  // (n_blocks, n_states, L) each block's first row
    std::uint8_t* stayed_ = nullptr;  // (block, n_states) of several lanes, bit l: the first edge into the state is the best one
};

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
