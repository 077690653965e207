// Sum over all paths of an automaton: log-partition, stage marginals, expected uses of each edge.
// Kept as scaled products (each epoch's mass sums to 1), so nothing underflows however long the night.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "automaton.hpp"

namespace stageguard {

class ForwardBackward {
  public:
    // `edge_counts` may be null where nobody asks for it.
    ForwardBackward(const Automaton& a, Workspace& work, double* marginals, double* edge_counts)
        : a_(a), work_(work), marginals_(marginals), edge_counts_(edge_counts), weight_(n_edges()) {
        for (std::size_t e = 0; e < weight_.size(); ++e) weight_[e] = std::exp(a.weight[e]);
    }

    // The log-partition in nats; -inf when no path is left, or when the only ones left lie below the smallest double.
    double run(const double* evidence, std::int64_t n_epochs) {
        const std::int64_t n = a_.n_states;
        block_ = std::max<std::int64_t>(2, std::min(n_epochs, kBlockBytes / (8 * n)));
        n_blocks_ = (n_epochs + block_ - 1) / block_;
        rows_ = work_.scores.need(block_ * n);
        heads_ = work_.heads.need(n_blocks_ * n);
        mass_.assign(static_cast<std::size_t>(n_epochs), 0.0);
        likelihood_.resize(static_cast<std::size_t>(a_.n_stages));
        double log_partition = 0.0;
        for (std::int64_t b = 0; b < n_blocks_; ++b) {
            double* head = heads_ + b * n;
            log_partition += likelihoods(evidence + b * block_ * a_.n_stages);
            if (b == 0)
                for (std::int64_t j = 0; j < n; ++j) head[j] = std::exp(a_.initial[j]) * likelihood_[a_.stage[j]];
            else
                advance(rows_ + (block_ - 1) * n, head);
            if (!normalise(head, mass_[static_cast<std::size_t>(b * block_)])) return kImpossibleScore;
            if (!fill(evidence, n_epochs, b, &log_partition)) return kImpossibleScore;
        }
        for (double mass : mass_) log_partition += std::log(mass);
        return backward(evidence, n_epochs, log_partition);
    }

  private:
    std::size_t n_edges() const { return static_cast<std::size_t>(a_.first[a_.n_states]); }

    // exp(row - its maximum) into likelihood_; returns the maximum.
    double likelihoods(const double* row) {
        const double top = *std::max_element(row, row + a_.n_stages);
        const double shift = top > kImpossibleScore ? top : 0.0;
        for (std::int64_t s = 0; s < a_.n_stages; ++s) likelihood_[static_cast<std::size_t>(s)] = std::exp(row[s] - shift);
        return shift;
    }

    void advance(const double* before, double* after) const {
        for (std::int64_t j = 0; j < a_.n_states; ++j) {
            double sum = 0.0;
            for (std::int32_t e = a_.first[j]; e < a_.first[j + 1]; ++e) sum += before[a_.source[e]] * weight_[static_cast<std::size_t>(e)];
            after[j] = sum * likelihood_[static_cast<std::size_t>(a_.stage[j])];
        }
    }

    bool normalise(double* row, double& mass) const {
        mass = 0.0;
        for (std::int64_t j = 0; j < a_.n_states; ++j) mass += row[j];
        if (!(mass > 1e-290)) return false;  // below it, products lose their digits
        const double inverse = 1.0 / mass;
        for (std::int64_t j = 0; j < a_.n_states; ++j) row[j] *= inverse;
        return true;
    }

    // The block's rows from its first one on; `log_partition` gathers the rows' maxima the first time.
    bool fill(const double* evidence, std::int64_t n_epochs, std::int64_t b, double* log_partition) {
        const std::int64_t n = a_.n_states, begin = b * block_, end = std::min(n_epochs, begin + block_);
        std::copy_n(heads_ + b * n, n, rows_);
        for (std::int64_t t = begin + 1; t < end; ++t) {
            const double top = likelihoods(evidence + t * a_.n_stages);
            if (log_partition) *log_partition += top;
            double* row = rows_ + (t - begin) * n;
            advance(row - n, row);
            if (!normalise(row, mass_[static_cast<std::size_t>(t)])) return false;
        }
        return true;
    }

    double backward(const double* evidence, std::int64_t n_epochs, double log_partition) {
        const std::int64_t n = a_.n_states;
        std::vector<double> beta(static_cast<std::size_t>(n)), before(static_cast<std::size_t>(n));
        const double* last = rows_ + (n_epochs - 1 - (n_blocks_ - 1) * block_) * n;
        double ending = 0.0;
        for (std::int64_t j = 0; j < n; ++j) ending += last[j] * (beta[static_cast<std::size_t>(j)] = std::exp(a_.final_weight[j]));
        if (!(ending > 1e-290)) return kImpossibleScore;
        for (double& value : beta) value /= ending;
        for (std::int64_t b = n_blocks_ - 1; b >= 0; --b) {
            const std::int64_t begin = b * block_, end = std::min(n_epochs, begin + block_);
            for (std::int64_t t = end - 1; t >= begin; --t) {
                gather(rows_ + (t - begin) * n, beta, t);
                if (t == 0) break;
                if (t == begin) fill(evidence, n_epochs, b - 1, nullptr);  // the row before this block's first
                const double* alpha = t == begin ? rows_ + (block_ - 1) * n : rows_ + (t - 1 - begin) * n;
                likelihoods(evidence + t * a_.n_stages);
                retreat(alpha, beta, before, mass_[static_cast<std::size_t>(t)]);
            }
        }
        return log_partition + std::log(ending);
    }

    void gather(const double* alpha, const std::vector<double>& beta, std::int64_t t) {
        double* row = marginals_ + t * a_.n_stages;
        std::fill_n(row, a_.n_stages, 0.0);
        for (std::int64_t j = 0; j < a_.n_states; ++j) row[a_.stage[j]] += alpha[j] * beta[static_cast<std::size_t>(j)];
    }

    // One epoch back: beta at t becomes beta at t-1; edges into t are counted on the way.
    void retreat(const double* alpha, std::vector<double>& beta, std::vector<double>& before, double mass) {
        std::fill(before.begin(), before.end(), 0.0);
        for (std::int64_t j = 0; j < a_.n_states; ++j) {
            const double arriving = beta[static_cast<std::size_t>(j)] * likelihood_[static_cast<std::size_t>(a_.stage[j])] / mass;
            if (arriving == 0.0) continue;
            for (std::int32_t e = a_.first[j]; e < a_.first[j + 1]; ++e) {
                const double through = weight_[static_cast<std::size_t>(e)] * arriving;
                before[static_cast<std::size_t>(a_.source[e])] += through;
                if (edge_counts_) edge_counts_[e] += alpha[a_.source[e]] * through;
            }
        }
        beta.swap(before);
    }

    const Automaton& a_;
    Workspace& work_;
    double* marginals_;
    double* edge_counts_;
    std::vector<double> weight_, mass_, likelihood_;
    double* rows_ = nullptr;
    double* heads_ = nullptr;
    std::int64_t block_ = 0, n_blocks_ = 0;
};

}  // namespace stageguard
