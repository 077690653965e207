// The paper's greedy flip-flop: the penalty is read off each survivor's own past during the forward pass.
// Kept for fidelity; optimal for neither objective. The exact window is an automaton (automaton.hpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "algebra.hpp"
#include "greedy_lanes.hpp"
#include "rules.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

// Survivors are kept apart by (stage, age of the bout) up to `depth` = max(longest minimum, window): beyond it no stage
// other than the bout's own is left in the window, so older bouts of a stage are interchangeable and merge. No bout gets
// older than the piece, so that memory is bounded by its epochs however long a minimum is.
template <int K, class A>
class Greedy {
#if defined(__AVX2__)
    using P = std::conditional_t<(K > 2), AvxPack<K>, PlainPack<K>>;
#else
    using P = PlainPack<K>;
#endif
    static constexpr int kStride = P::kStride;

  public:
    Greedy(const BoutRules& rules, const FlipFlop& flip_flop, std::int64_t n_epochs)
        : rules_(rules), n_epochs_(n_epochs), window_epochs_(flip_flop.window_epochs), depth_(flip_flop.window_epochs) {
        for (int s = 0; s < K; ++s) depth_ = std::max<std::int64_t>(depth_, rules.minimum[s]);
        depth_ = std::min(depth_, n_epochs + 1);
        young_.assign(static_cast<std::size_t>(std::min(8 * depth_, n_epochs + 1)), Cohort{});
        for (int r = 0; r < K; ++r)
            for (int s = 0; s < K; ++s) {
                const double change = r == s ? A::impossible : rules.change[r * K + s];
                change_[r][s] = change;
                penalised_[r][s] = A::combine(change, A::of_nats(-flip_flop.penalty_nats));
            }
    }

    Outcome run(Workspace& work, const double* evidence, std::int8_t* labels) {
        origin_ = work.lanes.need(n_epochs_ * K);
        stayed_ = work.stayed.need(n_epochs_);
        begin(row_of(evidence));
        for (std::int64_t t = 1; t < n_epochs_; ++t) {
            step(row_of(evidence + t * K), t);
            if (A::rescales && t % kGreedyRescaleEvery == 0 && !rescale()) return {kImpossibleScore, 0};
        }
        return backtrace(labels);
    }

    // Scores of the greedy pass with the given labels pinned from region.first up to region.end, for each region; the score
    // of the pass without pins in `base`. Pass and pinned pass go on together until they differ by a constant and by nothing
    // else, which is then the difference of their scores. Logarithms alone.
    void keep(const double* evidence, const std::int8_t* labels, const std::vector<Region>& regions, double& base, double* kept) {
        std::size_t i = 0;
        for (std::int64_t t = 0; t < n_epochs_; ++t) {
            if (i < regions.size() && regions[i].first == t) {
                Greedy free = *this, pinned = *this;
                kept[i] = free.difference(pinned, evidence, labels, regions[i]);
                ++i;
            }
            go(P::load(evidence + t * K), t);
        }
        base = best_score();
        for (i = 0; i < regions.size(); ++i) kept[i] += base;
    }

  private:
    static constexpr double kSameNats = 1e-9;  // what rounding may part two equal differences by
    static constexpr double kNever = -1e18;

    // The bouts that began in the same epoch, one a stage, and when their paths last saw each other stage.
    struct Cohort {
        double score[kStride];
        double last_seen[K][kStride];  // [stage of the bout][other stage]
        Cohort() {
            std::fill_n(score, kStride, A::impossible);
            std::fill_n(last_seen[0], K * kStride, kNever);
        }
    };

    // Cohorts lie oldest first in young_[oldest_ .. newest_]; both ends move right and are carried back now and then.
    Cohort& aged(std::int64_t age) { return young_[static_cast<std::size_t>(newest_ + 1 - age)]; }
    std::int64_t n_young() const { return newest_ - oldest_ + 1; }

    P row_of(const double* row) const { return A::evidence(P::load(row), P::load(rules_.weight)); }

    void begin(P row) {
        (rules_.censored ? row : P::all(A::impossible)).store(merged_);  // a cut bout is as old as it needs to be
        (rules_.censored ? P::all(A::impossible) : row).store(young_[0].score);
        if (stayed_) stayed_[0] = 0;
    }

    void step(P row, std::int64_t t) {
        Cohort next;
        enter_best(t, next);
        const P stay = P::load(rules_.stay), grown = A::combine(stay, row);
        const bool matures = n_young() == depth_ - 1;  // the oldest cohort reaches age `depth` now and merges
        const P old = A::combine(P::load(merged_), stay);
        const P fresh = matures ? A::combine(P::load(young_[static_cast<std::size_t>(oldest_)].score), stay) : P::all(A::impossible);
        if (stayed_) stayed_[t] = static_cast<std::uint8_t>(at_least(old, fresh));
        A::combine(larger(old, fresh), row).store(merged_);
        if (matures) ++oldest_;
        for (std::int64_t i = oldest_; i <= newest_; ++i) {
            double* score = young_[static_cast<std::size_t>(i)].score;
            A::combine(P::load(score), grown).store(score);
        }
        A::combine(P::load(next.score), row).store(next.score);
        if (newest_ + 1 == static_cast<std::int64_t>(young_.size())) {
            std::copy(young_.begin() + oldest_, young_.end(), young_.begin());
            newest_ -= oldest_;
            oldest_ = 0;
        }
        young_[static_cast<std::size_t>(++newest_)] = next;
    }

    // The best survivor to leave for each stage at t. Ties go to the earlier stage, then to the older bout.
    void enter_best(std::int64_t t, Cohort& next) {
        P best = P::all(A::impossible), chosen = P::all(-1.0);
        const P before_window = P::all(static_cast<double>(t - window_epochs_ - 1));
        const Cohort* newest = &young_[static_cast<std::size_t>(newest_)];
        const auto leave = [&](P candidate, double survivor) {
            chosen = where_more(candidate, best, P::all(survivor), chosen);
            best = larger(candidate, best);
        };
        for (int from = 0; from < K; ++from) {
            const P change = P::load(change_[from]), penalised = P::load(penalised_[from]);
            leave(A::combine(P::all(merged_[from]), change), from);
            for (std::int64_t age = n_young(); age >= rules_.minimum[from]; --age) {
                const Cohort& bout = newest[1 - age];
                const P score = where_more(P::load(bout.last_seen[from]), before_window, penalised, change);
                leave(A::combine(P::all(bout.score[from]), score), static_cast<double>(from + kAge * age));
            }
        }
        best.store(next.score);
        double survivors[kStride];
        chosen.store(survivors);
        for (int s = 0; s < K; ++s) {
            const auto survivor = static_cast<std::int32_t>(survivors[s]);
            if (origin_) origin_[t * K + s] = static_cast<std::uint32_t>(survivor);
            if (survivor < 0) continue;
            const int from = survivor % kAge, age = survivor / kAge;
            if (age > 0) std::memcpy(next.last_seen[s], aged(age).last_seen[from], sizeof next.last_seen[s]);
            next.last_seen[s][from] = static_cast<double>(t - 1);
        }
    }

    bool rescale() {
        P most = P::load(merged_);
        for (std::int64_t i = oldest_; i <= newest_; ++i) most = larger(most, P::load(young_[static_cast<std::size_t>(i)].score));
        const double top = most.top();
        if (!(top > 0.0)) return false;
        const P scale = P::all(unit_scale(top, exponent_));
        (P::load(merged_) * scale).store(merged_);
        for (std::int64_t i = oldest_; i <= newest_; ++i) {
            double* score = young_[static_cast<std::size_t>(i)].score;
            (P::load(score) * scale).store(score);
        }
        return true;
    }

    Outcome backtrace(std::int8_t* labels) {
        double best = A::impossible;
        int s = -1;
        std::int64_t start = -1;
        for (int stage = 0; stage < K; ++stage) {
            if (merged_[stage] > best) {
                best = merged_[stage];
                s = stage;
                start = -1;
            }
            for (std::int64_t age = n_young(); age >= 1; --age)
                if (aged(age).score[stage] > best) {
                    best = aged(age).score[stage];
                    s = stage;
                    start = n_epochs_ - age;
                }
        }
        if (s < 0) return {kImpossibleScore, 0};
        const std::int64_t end = n_epochs_ - 1;
        const auto merged = [this](std::int64_t t, int stage) { return merged_start(t, stage); };
        if (start < 0) start = merged(end, s);
        const std::int64_t switches = write_bouts<K>(labels, end, s, start, origin_, merged);
        return {A::log_score(best, exponent_), switches};
    }

    void go(P row, std::int64_t t) { t == 0 ? begin(row) : step(row, t); }

    double best_score() {
        double best = kImpossibleScore;
        for (int s = 0; s < K; ++s) {
            best = std::max(best, merged_[s]);
            for (std::int64_t age = n_young(); age >= 1; --age) best = std::max(best, aged(age).score[s]);
        }
        return best;
    }

    // What a pinned pass scores less than this one; both are where the region begins.
    double difference(Greedy& pinned, const double* evidence, const std::int8_t* labels, const Region& region) {
        double row[K], shift = 0.0;
        for (std::int64_t t = region.first; t < n_epochs_; ++t) {
            const double* own = evidence + t * K;
            const bool is_pinned = t < region.end;
            for (int s = 0; s < K; ++s) row[s] = !is_pinned || s == labels[t] ? own[s] : kImpossibleScore;
            go(P::load(own), t);
            pinned.go(P::load(row), t);
            if (pinned.best_score() == kImpossibleScore) return kImpossibleScore;
            if (!is_pinned && differs_by_constant(pinned, t, shift)) return shift;
        }
        return pinned.best_score() - best_score();
    }

    // Whether every survivor of the other pass has this one's past, as far as the window will ask, and its score plus `shift`.
    bool differs_by_constant(Greedy& other, std::int64_t t, double& shift) {
        bool is_known = false;
        const auto same = [&](double own, double theirs) {
            if (own == kImpossibleScore || theirs == kImpossibleScore) return own == theirs;
            if (!is_known) shift = theirs - own, is_known = true;
            return std::fabs(theirs - own - shift) <= kSameNats;
        };
        const auto before_asked = static_cast<double>(t - window_epochs_);
        for (int s = 0; s < K; ++s)
            if (!same(merged_[s], other.merged_[s])) return false;
        for (std::int64_t age = n_young(); age >= 1; --age) {
            const Cohort &own = aged(age), &theirs = other.aged(age);
            for (int s = 0; s < K; ++s) {
                if (!same(own.score[s], theirs.score[s])) return false;
                if (own.score[s] == kImpossibleScore) continue;
                for (int r = 0; r < K; ++r)
                    if (std::max(own.last_seen[s][r], before_asked) != std::max(theirs.last_seen[s][r], before_asked)) return false;
            }
        }
        return true;
    }

    std::int64_t merged_start(std::int64_t t, int s) const {
        while (t > 0 && (stayed_[t] >> s & 1u)) --t;
        const std::int64_t start = t - depth_ + 1;
        return start > 0 ? start : 0;
    }

    const BoutRules& rules_;
    const std::int64_t n_epochs_, window_epochs_;
    std::int64_t depth_, exponent_ = 0;
    std::vector<Cohort> young_;
    std::int64_t oldest_ = 0, newest_ = 0;
    double merged_[kStride];
    double change_[K][kStride] = {}, penalised_[K][kStride] = {};  // [from][to], without and with the penalty for flipping back
    std::uint32_t* origin_ = nullptr;  // (T, K) which survivor a bout that begins here continues; none while scores alone are asked for
    std::uint8_t* stayed_ = nullptr;  // (T,)
};

template <int K, class A>
Outcome run_greedy(const BoutRules& rules, const FlipFlop& flip_flop, Workspace& work, const double* evidence,
                   std::int64_t n_epochs, std::int8_t* labels) {
    if (GreedyLanes<K, A>::takes(rules, flip_flop)) return GreedyLanes<K, A>(rules, flip_flop).run(work, evidence, n_epochs, labels);
    return Greedy<K, A>(rules, flip_flop, n_epochs).run(work, evidence, labels);
}

template <int K>
void keep_greedy(const BoutRules& rules, const FlipFlop& flip_flop, const double* evidence, std::int64_t n_epochs,
                 const std::int8_t* labels, const std::vector<Region>& regions, double& base, double* kept) {
    Greedy<K, Logarithmic>(rules, flip_flop, n_epochs).keep(evidence, labels, regions, base, kept);
}

GreedyKernel greedy_kernel(int n_stages, bool products) {
    switch (n_stages) {
        case 2: return products ? run_greedy<2, Product> : run_greedy<2, Logarithmic>;
        case 3: return products ? run_greedy<3, Product> : run_greedy<3, Logarithmic>;
        case 4: return products ? run_greedy<4, Product> : run_greedy<4, Logarithmic>;
        case 5: return products ? run_greedy<5, Product> : run_greedy<5, Logarithmic>;
        case 6: return products ? run_greedy<6, Product> : run_greedy<6, Logarithmic>;
        case 7: return products ? run_greedy<7, Product> : run_greedy<7, Logarithmic>;
        case 8: return products ? run_greedy<8, Product> : run_greedy<8, Logarithmic>;
        default: return nullptr;
    }
}

KeepGreedyKernel keep_greedy_kernel(int n_stages) {
    switch (n_stages) {
        case 2: return keep_greedy<2>;
        case 3: return keep_greedy<3>;
        case 4: return keep_greedy<4>;
        case 5: return keep_greedy<5>;
        case 6: return keep_greedy<6>;
        case 7: return keep_greedy<7>;
        case 8: return keep_greedy<8>;
        default: return nullptr;
    }
}

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
