// The best paths through an automaton that keep given labels.
#include "automaton.hpp"

#include <algorithm>

namespace stageguard {
namespace {

// What comes before a region and what comes after it is worked out once for all regions.
class AutomatonKept {
  public:
    AutomatonKept(const Automaton& a, Workspace& work) : a_(a), work_(work) {}

    void run(const double* evidence, std::int64_t n_epochs, const std::int8_t* labels, const std::vector<Region>& regions,
             double& base, double* kept) {
        const std::int64_t n = a_.n_states;
        evidence_ = evidence, n_epochs_ = n_epochs;
        block_ = std::max<std::int64_t>(2, std::min(n_epochs, kBlockBytes / (8 * n)));
        const std::int64_t n_blocks = (n_epochs + block_ - 1) / block_;
        rows_ = work_.scores.need(block_ * n);
        double* ends = work_.heads.need(n_blocks * n);  // (n_blocks, n_states) what lies beyond each block's last epoch
        std::copy_n(a_.final_weight, n, ends + (n_blocks - 1) * n);
        for (std::int64_t b = n_blocks - 1; b > 0; --b) {
            fill(b, ends + b * n);
            retreat(rows_, b * block_, ends + (b - 1) * n);
        }
        const auto size = static_cast<std::size_t>(n);
        std::vector<double> before(size), after(size), pinned(size), next(size);
        std::size_t i = 0;
        for (std::int64_t t = 0; t < n_epochs; ++t) {
            if (t % block_ == 0) fill(t / block_, ends + t / block_ * n);
            if (i < regions.size() && t >= regions[i].first) {
                advance(t, t == regions[i].first ? before : pinned, next);
                for (std::size_t j = 0; j < size; ++j)
                    if (a_.stage[j] != labels[t]) next[j] = kImpossibleScore;
                pinned.swap(next);
                if (t + 1 == regions[i].end) kept[i++] = best(pinned, rows_ + t % block_ * n);
            }
            advance(t, before, after);
            before.swap(after);
        }
        base = best(before, a_.final_weight);
    }

  private:
    // One epoch on; the first epoch has none before it.
    void advance(std::int64_t t, const std::vector<double>& before, std::vector<double>& after) const {
        const double* row = evidence_ + t * a_.n_stages;
        for (std::int64_t j = 0; j < a_.n_states; ++j) {
            double best = t == 0 ? a_.initial[j] : kImpossibleScore;
            if (t > 0)
                for (std::int32_t e = a_.first[j]; e < a_.first[j + 1]; ++e)
                    best = std::max(best, before[static_cast<std::size_t>(a_.source[e])] + a_.weight[e]);
            after[static_cast<std::size_t>(j)] = best + row[a_.stage[j]];
        }
    }

    // What lies beyond each state of epoch t - 1, from what lies beyond those of epoch t.
    void retreat(const double* beyond, std::int64_t t, double* before) const {
        const double* row = evidence_ + t * a_.n_stages;
        std::fill_n(before, a_.n_states, kImpossibleScore);
        for (std::int64_t j = 0; j < a_.n_states; ++j) {
            const double arriving = beyond[j] + row[a_.stage[j]];
            for (std::int32_t e = a_.first[j]; e < a_.first[j + 1]; ++e)
                before[a_.source[e]] = std::max(before[a_.source[e]], a_.weight[e] + arriving);
        }
    }

    // The block's rows of what lies beyond each state, from that of its last epoch.
    void fill(std::int64_t b, const double* end) const {
        const std::int64_t n = a_.n_states, begin = b * block_, last = std::min(n_epochs_, begin + block_) - 1;
        std::copy_n(end, n, rows_ + (last - begin) * n);
        for (std::int64_t t = last; t > begin; --t) retreat(rows_ + (t - begin) * n, t, rows_ + (t - 1 - begin) * n);
    }

    double best(const std::vector<double>& scores, const double* beyond) const {
        double best = kImpossibleScore;
        for (std::size_t j = 0; j < scores.size(); ++j) best = std::max(best, scores[j] + beyond[j]);
        return best;
    }

    const Automaton& a_;
    Workspace& work_;
    const double* evidence_ = nullptr;
    double* rows_ = nullptr;  // (block, n_states) what lies beyond each state
    std::int64_t n_epochs_ = 0, block_ = 0;
};

}  // namespace

void keep_automaton(const Automaton& a, Workspace& work, const double* evidence, std::int64_t n_epochs, const std::int8_t* labels,
                    const std::vector<Region>& regions, double& base, double* kept) {
    AutomatonKept(a, work).run(evidence, n_epochs, labels, regions, base, kept);
}

}  // namespace stageguard
