// Sums over all paths of an automaton: their log-sum, stage marginals, and exact draws.
#define STAGEGUARD_VARIANT sums  // the one of any processor, compiled for speed
#include <algorithm>
#include <cmath>
#include <limits>

#include "algebra.hpp"
#include "automaton.hpp"
#include "random.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

// As products, each epoch's mass is divided by its sum, so that nothing underflows however long the night; what a state can
// still lose is certified on the way back. As logarithms nothing is lost, at many times the cost. Scores are kept for one
// block of epochs at a time and worked out again from the block's first row, so that memory stays bounded.
template <class A>
class AutomatonSums {
  public:
    AutomatonSums(const Automaton& a, Workspace& work) : a_(a), work_(work), weight_(logs(a.weight, a.first[a.n_states])) {}

    Sum smooth(const double* evidence, std::int64_t n_epochs, double* marginals) {
        if (!forward(evidence, n_epochs)) return {kImpossibleScore, !A::rescales};
        const bool certified = backward(marginals);
        return {log_sum_, certified};
    }

    Sum draw(const double* evidence, std::int64_t n_epochs, const std::uint64_t* streams, std::int64_t n_draws,
             std::int8_t* labels) {
        if (!forward(evidence, n_epochs)) return {kImpossibleScore, !A::rescales};
        if (A::rescales && !backward(nullptr)) return {log_sum_, false};
        draw_all(streams, n_draws, labels);
        return {log_sum_, true};
    }

  private:
    using Numbers = std::vector<double>;
    using Index = std::size_t;
    static constexpr double kLeastMass = 1e-290;  // below it, products lose their digits
    static constexpr double kMostBeyond = 1e280;  // times what underflow can lose, this is still nothing
    static constexpr double kMostDrift = 1e-6;

    static double of_log(double x) { return A::rescales ? std::exp(x) : x; }
    static Numbers logs(const double* x, std::int64_t n) {
        Numbers result(static_cast<Index>(n));
        for (Index i = 0; i < result.size(); ++i) result[i] = of_log(x[i]);
        return result;
    }

    bool forward(const double* evidence, std::int64_t n_epochs) {
        const std::int64_t n = a_.n_states;
        evidence_ = evidence, n_epochs_ = n_epochs;
        block_ = std::max<std::int64_t>(2, std::min(n_epochs, kBlockBytes / (8 * n)));
        n_blocks_ = (n_epochs + block_ - 1) / block_;
        rows_ = work_.scores.need(block_ * n);
        heads_ = work_.heads.need(n_blocks_ * n);
        mass_.assign(static_cast<Index>(n_epochs), 1.0);
        likelihood_.resize(static_cast<Index>(a_.n_stages));
        log_sum_ = 0.0;
        const Numbers initial = logs(a_.initial, n), ending = logs(a_.final_weight, n);
        for (std::int64_t b = 0; b < n_blocks_; ++b) {
            double* head = heads_ + b * n;
            log_sum_ += likelihoods(b * block_);
            if (b == 0)
                for (std::int64_t j = 0; j < n; ++j) head[j] = A::combine(initial[static_cast<Index>(j)], likelihood_[stage(j)]);
            else
                advance(rows_ + (block_ - 1) * n, head);
            if (!normalise(head, mass_[static_cast<Index>(b * block_)]) || !fill(b, true)) return false;
        }
        if constexpr (A::rescales)
            for (double mass : mass_) log_sum_ += std::log(mass);
        beyond_ = ending;
        total_ = A::impossible;
        last_.assign(row(n_epochs - 1), row(n_epochs - 1) + n);
        for (std::int64_t j = 0; j < n; ++j) {
            last_[static_cast<Index>(j)] = A::combine(last_[static_cast<Index>(j)], ending[static_cast<Index>(j)]);
            total_ = A::add(total_, last_[static_cast<Index>(j)]);
        }
        log_sum_ += A::rescales ? std::log(total_) : total_;
        return total_ > (A::rescales ? kLeastMass : kImpossibleScore);
    }

    Index stage(std::int64_t j) const { return static_cast<Index>(a_.stage[j]); }
    double* row(std::int64_t t) const { return rows_ + (t % block_) * a_.n_states; }

    // The epoch's evidence into likelihood_, as products divided by the largest; returns that in nats.
    double likelihoods(std::int64_t t) {
        const double* e = evidence_ + t * a_.n_stages;
        if constexpr (!A::rescales) {
            std::copy_n(e, a_.n_stages, likelihood_.begin());
            return 0.0;
        }
        const double top = *std::max_element(e, e + a_.n_stages);
        const double shift = top > kImpossibleScore ? top : 0.0;
        for (std::int64_t s = 0; s < a_.n_stages; ++s) likelihood_[static_cast<Index>(s)] = std::exp(e[s] - shift);
        return shift;
    }

    void advance(const double* before, double* after) const {
        for (std::int64_t j = 0; j < a_.n_states; ++j) {
            double sum = A::impossible;
            for (std::int32_t e = a_.first[j]; e < a_.first[j + 1]; ++e)
                sum = A::add(sum, A::combine(before[a_.source[e]], weight_[static_cast<Index>(e)]));
            after[j] = A::combine(sum, likelihood_[stage(j)]);
        }
    }

    bool normalise(double* scores, double& mass) const {
        if constexpr (!A::rescales) return true;
        mass = 0.0;
        for (std::int64_t j = 0; j < a_.n_states; ++j) mass += scores[j];
        if (!(mass > kLeastMass)) return false;
        const double inverse = 1.0 / mass;
        for (std::int64_t j = 0; j < a_.n_states; ++j) scores[j] *= inverse;
        return true;
    }

    // The block's rows from its first one on.
    bool fill(std::int64_t b, bool is_first_time) {
        const std::int64_t n = a_.n_states, begin = b * block_, end = std::min(n_epochs_, begin + block_);
        std::copy_n(heads_ + b * n, n, rows_);
        for (std::int64_t t = begin + 1; t < end; ++t) {
            const double shift = likelihoods(t);
            if (is_first_time) log_sum_ += shift;
            advance(row(t - 1), row(t));
            if (!normalise(row(t), mass_[static_cast<Index>(t)])) return false;
        }
        return true;
    }

    // True if the sums are right: what underflow took from a state's mass, at most 1e-320 over the epoch's mass, times what
    // lies beyond that state, is nothing beside all paths.
    bool backward(double* marginals) {
        Numbers before(beyond_.size());
        for (double& value : beyond_) value = A::combine(value, A::inverse(total_));
        double farthest = 0.0;
        bool is_safe = true;
        for (std::int64_t t = n_epochs_ - 1;; --t) {
            if (marginals) farthest = larger(gather(row(t), marginals + t * a_.n_stages), farthest);
            const double inverse = 1.0 / mass_[static_cast<Index>(t)];
            if constexpr (A::rescales) {
                double sum = 0.0;
                for (double value : beyond_) sum += value;
                is_safe &= inverse * sum < kMostBeyond;  // false too where it is no number
            }
            if (t == 0) break;
            if (t % block_ == 0) fill(t / block_ - 1, false);  // the row before this block's first
            likelihoods(t);
            retreat(before, inverse);
            beyond_.swap(before);
        }
        return !A::rescales || (is_safe && farthest < kMostDrift);
    }

    // One epoch's marginals; returns how far from 1 they summed, infinity if that is no number.
    double gather(const double* scores, double* marginals) const {
        std::fill_n(marginals, a_.n_stages, 0.0);
        for (std::int64_t j = 0; j < a_.n_states; ++j)
            marginals[a_.stage[j]] += A::probability(A::combine(scores[j], beyond_[static_cast<Index>(j)]));
        double sum = 0.0;
        for (std::int64_t s = 0; s < a_.n_stages; ++s) sum += marginals[s];
        for (std::int64_t s = 0; s < a_.n_stages; ++s) marginals[s] /= sum;
        const double drift = std::fabs(sum - 1.0);
        return drift <= 1.0 ? drift : std::numeric_limits<double>::infinity();
    }

    // One epoch back: `before` becomes what lies beyond each state of the epoch before.
    void retreat(Numbers& before, double inverse) const {
        std::fill(before.begin(), before.end(), A::impossible);
        for (std::int64_t j = 0; j < a_.n_states; ++j) {
            double arriving = A::combine(beyond_[static_cast<Index>(j)], likelihood_[stage(j)]);
            if constexpr (A::rescales) arriving *= inverse;
            if (arriving == A::impossible) continue;
            for (std::int32_t e = a_.first[j]; e < a_.first[j + 1]; ++e) {
                double& value = before[static_cast<Index>(a_.source[e])];
                value = A::add(value, A::combine(weight_[static_cast<Index>(e)], arriving));
            }
        }
    }

    // Epoch by epoch from the last, all draws together, so that an epoch's scores are read once.
    void draw_all(const std::uint64_t* streams, std::int64_t n_draws, std::int8_t* labels) {
        std::vector<Uniforms> uniforms(streams, streams + n_draws);
        std::vector<std::int64_t> state(static_cast<Index>(n_draws));
        if (n_blocks_ > 1) fill(n_blocks_ - 1, false);
        for (Index i = 0; i < state.size(); ++i) state[i] = draw_last(uniforms[i].next());
        for (std::int64_t t = n_epochs_ - 1;; --t) {
            for (Index i = 0; i < state.size(); ++i)
                labels[static_cast<std::int64_t>(i) * n_epochs_ + t] = static_cast<std::int8_t>(a_.stage[state[i]]);
            if (t == 0) return;
            if (t % block_ == 0) fill(t / block_ - 1, false);
            const double* scores = row(t - 1);
            for (Index i = 0; i < state.size(); ++i) state[i] = draw_source(scores, state[i], uniforms[i]);
        }
    }

    std::int64_t draw_last(double u) const {
        const double aim = A::rescales ? u * total_ : u;
        double reached = 0.0;
        std::int64_t state = 0;
        for (std::int64_t j = 0; j < a_.n_states; ++j) {
            const double score = last_[static_cast<Index>(j)];
            const double chance = A::rescales ? score : A::probability(score - total_);
            if (!(chance > 0.0)) continue;
            state = j;
            reached += chance;
            if (aim < reached) break;
        }
        return state;
    }

    // The state before this one. A state that can be reached in one way takes no random number.
    std::int64_t draw_source(const double* before, std::int64_t state, Uniforms& uniforms) const {
        const std::int32_t begin = a_.first[state], end = a_.first[state + 1];
        if (end - begin == 1) return a_.source[begin];
        double total = A::impossible;
        for (std::int32_t e = begin; e < end; ++e) total = A::add(total, way(before, e));
        const double u = uniforms.next(), aim = A::rescales ? u * total : u;
        double reached = 0.0;
        std::int32_t chosen = begin;
        for (std::int32_t e = begin; e < end; ++e) {
            const double chance = A::rescales ? way(before, e) : A::probability(way(before, e) - total);
            if (!(chance > 0.0)) continue;
            chosen = e;
            reached += chance;
            if (aim < reached) break;
        }
        return a_.source[chosen];
    }
    double way(const double* before, std::int32_t e) const {
        return A::combine(before[a_.source[e]], weight_[static_cast<Index>(e)]);
    }

    const Automaton& a_;
    Workspace& work_;
    const Numbers weight_;                     // (n_edges,)
    Numbers mass_, likelihood_, last_, beyond_;  // (T,), (n_stages,), (n_states,) and what lies beyond each state
    const double* evidence_ = nullptr;
    double* rows_ = nullptr;   // (block, n_states)
    double* heads_ = nullptr;  // (n_blocks, n_states) each block's first row
    std::int64_t n_epochs_ = 0, block_ = 0, n_blocks_ = 0;
    double total_ = 0.0, log_sum_ = 0.0;
};

}  // namespace STAGEGUARD_VARIANT

Sum smooth_automaton(const Automaton& a, Workspace& work, bool products, const double* evidence, std::int64_t n_epochs,
                     double* marginals) {
    return products ? sums::AutomatonSums<sums::Product>(a, work).smooth(evidence, n_epochs, marginals)
                    : sums::AutomatonSums<sums::Logarithmic>(a, work).smooth(evidence, n_epochs, marginals);
}

Sum draw_automaton(const Automaton& a, Workspace& work, bool products, const double* evidence, std::int64_t n_epochs,
                   const std::uint64_t* streams, std::int64_t n_draws, std::int8_t* labels) {
    return products ? sums::AutomatonSums<sums::Product>(a, work).draw(evidence, n_epochs, streams, n_draws, labels)
                    : sums::AutomatonSums<sums::Logarithmic>(a, work).draw(evidence, n_epochs, streams, n_draws, labels);
}

}  // namespace stageguard
