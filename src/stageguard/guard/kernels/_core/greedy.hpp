// The paper's greedy flip-flop: the penalty is read off each survivor's own past during the forward pass.
// Kept for fidelity; optimal for neither objective. The exact window is an automaton (automaton.hpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "algebra.hpp"
#include "for_stages.hpp"
#include "rules.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

constexpr int kAge = 8;  // more than there are stages: a survivor is named by its stage + kAge * its age, the age of merged ones being 0
constexpr int kGreedyRescaleEvery = 4;  // as in solver.py

// Survivors are kept apart by (stage, age of the bout) up to `depth` = max(longest minimum, window): beyond it no stage
// other than the bout's own is left in the window, so older bouts of a stage are interchangeable and merge. No bout gets
// older than the piece, so that memory is bounded by its epochs however long a minimum is.
template <int K, class A>
class Greedy {
#if defined(__AVX2__)
    using P = AvxPack<K>;
#else
    using P = PlainPack<K>;
#endif
    static constexpr int kStride = P::kStride;

  public:
    Greedy(const BoutRules& rules, const FlipFlop& flip_flop, std::int64_t n_epochs)
        : rules_(rules), n_epochs_(n_epochs), window_epochs_(flip_flop.window_epochs), depth_(flip_flop.window_epochs) {
        for (int s = 0; s < K; ++s) depth_ = std::max<std::int64_t>(depth_, rules.minimum[s]);
        depth_ = std::min(depth_, n_epochs + 1);
        bouts_.assign(static_cast<std::size_t>(depth_ + std::min(8 * depth_, n_epochs + 1)), Cohort{});
        next_ = depth_;
        for (int r = 0; r < K; ++r)
            for (int s = 0; s < K; ++s) {
                const double change = r == s ? A::impossible : rules.change[r * K + s];
                change_[r][s] = change;
                penalised_[r][s] = A::combine(change, A::of_nats(-flip_flop.penalty_nats));
                only_[r][s] = r == s ? 0.0 : 2.0 * kNever;
            }
    }

    double run(Workspace& work, const double* evidence, std::int8_t* labels) {
        origin_ = work.origin.need(n_epochs_ * K);
        stayed_ = work.stayed.need(n_epochs_);
        const Rows rows(*this);
        const P weight = P::load(rules_.weight);
        begin(A::evidence(P::load(evidence), weight));
        for (std::int64_t t = 1; t < n_epochs_; ++t) {
            step(rows, A::evidence(P::load(evidence + t * K), weight), t);
            if (A::rescales && t % kGreedyRescaleEvery == 0 && !rescale()) return kImpossibleScore;
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

    // What is the same at every epoch, in variables of its own: the compiler need not expect that scores are written over it.
    struct Rows {
        P stay, change[K], penalised[K], only[K];
        std::int64_t minimum[K];
        explicit Rows(const Greedy& own) : stay(P::load(own.rules_.stay)) {
            for (int r = 0; r < K; ++r) {
                change[r] = P::stored(own.change_[r]), penalised[r] = P::stored(own.penalised_[r]), only[r] = P::stored(own.only_[r]);
                minimum[r] = own.rules_.minimum[r];
            }
        }
    };

    // bouts_[0] has the merged bouts, which saw no other stage in the window. The young ones, depth - 1 cohorts, lie oldest
    // first before bouts_[next_]; they move right and are carried back now and then.
    Cohort& merged() { return bouts_[0]; }
    Cohort& young(std::int64_t age) { return bouts_[static_cast<std::size_t>(next_ - age)]; }
    std::int64_t n_young() const { return depth_ - 1; }

    void begin(P row) {
        row.store((rules_.censored ? merged() : young(1)).score);  // a cut bout is as old as it needs to be
        if (stayed_) stayed_[0] = 0;
    }

    void step(const Rows& rows, P row, std::int64_t t) {
        if (next_ == static_cast<std::int64_t>(bouts_.size())) {
            std::copy(bouts_.end() - n_young(), bouts_.end(), bouts_.begin() + 1);
            next_ = depth_;
        }
        Cohort *const merged = bouts_.data(), *const next = merged + next_, *oldest = next - n_young();
        const P entering = enter_best(rows, t, merged, oldest, next);
        const P old = A::combine(P::stored(merged->score), rows.stay), fresh = A::combine(P::stored(oldest->score), rows.stay);
        if (stayed_) stayed_[t] = at_least(old, fresh);
        A::combine(larger(old, fresh), row).store(merged->score);
        const P grown = A::combine(rows.stay, row);
        while (++oldest < next) A::combine(P::stored(oldest->score), grown).store(oldest->score);
        A::combine(entering, row).store(next->score);
        ++next_;
    }

    // The score of the best survivor to leave for each stage at t; what its path saw last goes to `next`. Ties go to the
    // earlier stage, then to the older bout.
    P enter_best(const Rows& rows, std::int64_t t, const Cohort* merged, const Cohort* oldest, Cohort* next) {
        P best = P::all(A::impossible), chosen = P::all(0.0);
        const P before_window = P::all(static_cast<double>(t - window_epochs_ - 1)), now = P::all(static_cast<double>(t - 1));
        const P older = P::all(static_cast<double>(kAge * n_young())), younger = P::all(-static_cast<double>(kAge));
        const auto leave = [&](P candidate, P survivor) {
            chosen = where_more(candidate, best, survivor, chosen);
            best = larger(candidate, best);
        };
        STAGEGUARD_UNROLL
        for (int from = 0; from < K; ++from) {
            leave(A::combine(P::all(merged->score[from]), rows.change[from]), P::all(from));
            P survivor = P::all(from) + older;
            const Cohort* const youngest = next - rows.minimum[from];
            for (const Cohort* bout = oldest; bout <= youngest; ++bout) {
                const P score = where_more(P::stored(bout->last_seen[from]), before_window, rows.penalised[from], rows.change[from]);
                leave(A::combine(P::all(bout->score[from]), score), survivor);
                survivor = survivor + younger;
            }
        }
        alignas(32) double survivors[kStride];
        chosen.store(survivors);
        std::uint32_t* const origin = origin_ ? origin_ + t * K : unused_;
        const std::size_t begins = static_cast<std::size_t>(next - merged);
        STAGEGUARD_UNROLL
        for (int s = 0; s < K; ++s) {
            const auto survivor = static_cast<std::uint32_t>(static_cast<std::int32_t>(survivors[s]));
            origin[s] = survivor;
            const std::uint32_t from = survivor % kAge, age = survivor / kAge;
            const std::size_t began = (begins - age) & -static_cast<std::size_t>(age > 0);  // 0: merged
            larger(P::stored(merged[began].last_seen[from]), now + rows.only[from]).store(next->last_seen[s]);
        }
        return best;
    }

    bool rescale() {
        P most = P::stored(merged().score);
        for (std::int64_t age = n_young(); age >= 1; --age) most = larger(most, P::stored(young(age).score));
        const double top = most.top();
        if (!(top > 0.0)) return false;
        const P scale = P::all(unit_scale(top, exponent_));
        (P::stored(merged().score) * scale).store(merged().score);
        for (std::int64_t age = n_young(); age >= 1; --age) (P::stored(young(age).score) * scale).store(young(age).score);
        return true;
    }

    double backtrace(std::int8_t* labels) {
        double best = A::impossible;
        int s = -1;
        std::int64_t start = -1;
        for (int stage = 0; stage < K; ++stage) {
            if (merged().score[stage] > best) best = merged().score[stage], s = stage, start = -1;
            for (std::int64_t age = n_young(); age >= 1; --age)
                if (young(age).score[stage] > best) best = young(age).score[stage], s = stage, start = n_epochs_ - age;
        }
        if (s < 0) return kImpossibleScore;
        std::int64_t end = n_epochs_ - 1;
        if (start < 0) start = merged_start(end, s);
        for (;;) {
            std::memset(labels + start, s, static_cast<std::size_t>(end - start + 1));
            if (start == 0) return A::log_score(best, exponent_);
            const std::uint32_t survivor = origin_[start * K + s];
            end = start - 1;
            s = static_cast<int>(survivor % kAge);
            start = survivor >= kAge ? end - survivor / kAge + 1 : merged_start(end, s);
        }
    }

    STAGEGUARD_APART void go(P row, std::int64_t t) { t == 0 ? begin(row) : step(Rows(*this), row, t); }

    double best_score() {
        double best = kImpossibleScore;
        for (int s = 0; s < K; ++s) {
            best = std::max(best, merged().score[s]);
            for (std::int64_t age = n_young(); age >= 1; --age) best = std::max(best, young(age).score[s]);
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
            if (!same(merged().score[s], other.merged().score[s])) return false;
        for (std::int64_t age = n_young(); age >= 1; --age) {
            const Cohort &own = young(age), &theirs = other.young(age);
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
    std::vector<Cohort> bouts_;
    std::int64_t next_;
    double change_[K][kStride] = {}, penalised_[K][kStride] = {};  // [from][to], without and with the penalty for flipping back
    double only_[K][kStride] = {};  // [stage] added to a moment: that of this stage, and never of any other
    std::uint32_t unused_[K];  // of scores alone
    std::uint32_t* origin_ = nullptr;  // (T, K) which survivor a bout that begins here continues; none while scores alone are asked for
    std::uint32_t* stayed_ = nullptr;  // (T,)
};

template <int K, class A>
double run_greedy(const BoutRules& rules, const FlipFlop& flip_flop, Workspace& work, const double* evidence,
                   std::int64_t n_epochs, std::int8_t* labels) {
    return filled<K, A>(rules, evidence, n_epochs, [&](const BoutRules& all, const double* rows) {
        return Greedy<K, A>(all, flip_flop, n_epochs).run(work, rows, labels);
    });
}

template <int K>
void keep_greedy(const BoutRules& rules, const FlipFlop& flip_flop, const double* evidence, std::int64_t n_epochs,
                 const std::int8_t* labels, const std::vector<Region>& regions, double& base, double* kept) {
    filled<K, Logarithmic>(rules, evidence, n_epochs, [&](const BoutRules& all, const double* rows) {
        Greedy<K, Logarithmic>(all, flip_flop, n_epochs).keep(rows, labels, regions, base, kept);
    });
}

KeepGreedyKernel keep_greedy_kernel(int n_stages) {
    return for_stages<KeepGreedyKernel>(n_stages, [](auto k) -> KeepGreedyKernel { return keep_greedy<k.value>; });
}

GreedyKernel greedy_kernel(int n_stages, bool products) {
    return for_stages<GreedyKernel>(n_stages, [=](auto k) -> GreedyKernel {
        return products ? run_greedy<k.value, Product> : run_greedy<k.value, Logarithmic>;
    });
}

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
