// The paper's greedy flip-flop: the penalty is read off each survivor's own past during the forward pass.
// Kept for fidelity; optimal for neither objective. The exact window is an automaton (automaton.hpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "rules.hpp"

namespace stageguard {

struct FlipFlop {
    double penalty_nats;
    std::int32_t window_epochs;
};

// Survivors are kept apart by (stage, age of the bout) up to `depth` = max(longest minimum, window): beyond it no stage
// other than the bout's own is left in the window, so older bouts of a stage are interchangeable and merge. No bout gets
// older than the piece, so that memory is bounded by its epochs however long a minimum is.
template <int K>
class Greedy {
  public:
    Greedy(const BoutRules& rules, const FlipFlop& flip_flop, std::int64_t n_epochs)
        : rules_(rules), flip_(flip_flop), n_epochs_(n_epochs), depth_(flip_flop.window_epochs) {
        for (int s = 0; s < K; ++s) depth_ = std::max<std::int64_t>(depth_, rules.minimum[s]);
        depth_ = std::min(depth_, n_epochs + 1);
        penalty_[1] = flip_flop.penalty_nats;
        young_.assign(static_cast<std::size_t>(std::min(8 * depth_, n_epochs + 1)), Cohort{});
    }

    Outcome run(const double* evidence, std::int8_t* labels) {
        origin_.resize(static_cast<std::size_t>(n_epochs_ * K));
        stayed_.resize(static_cast<std::size_t>(n_epochs_));
        begin(evidence);
        for (std::int64_t t = 1; t < n_epochs_; ++t) step(evidence + t * K, t);
        return backtrace(labels);
    }

    // Scores of the greedy pass with the given labels pinned from region.first up to region.end, for each region; the score
    // of the pass without pins in `base`. Pass and pinned pass go on together until they differ by a constant and by nothing
    // else, which is then the difference of their scores.
    void keep(const double* evidence, const std::int8_t* labels, const std::vector<Region>& regions, double& base, double* kept) {
        std::size_t i = 0;
        for (std::int64_t t = 0; t < n_epochs_; ++t) {
            if (i < regions.size() && regions[i].first == t) {
                Greedy free = *this, pinned = *this;
                kept[i] = free.difference(pinned, evidence, labels, regions[i]);
                ++i;
            }
            go(evidence + t * K, t);
        }
        base = best_score();
        for (i = 0; i < regions.size(); ++i) kept[i] += base;
    }

  private:
    static constexpr double kSameNats = 1e-9;  // what rounding may part two equal differences by
    static constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::min() / 2;

    // The bouts that began in the same epoch, one a stage, and when their paths last saw each other stage.
    struct Cohort {
        double score[K];
        std::int32_t last_seen[K][K];  // [stage of the bout][other stage]
        Cohort() {
            for (int s = 0; s < K; ++s) {
                score[s] = kImpossibleScore;
                for (int r = 0; r < K; ++r) last_seen[s][r] = kNever;
            }
        }
    };
    struct Origin {  // which survivor a bout that begins here continues
        std::int8_t stage;
        std::int32_t age;  // 0 = merged
    };

    // Cohorts lie oldest first in young_[oldest_ .. newest_]; both ends move right and are carried back now and then.
    Cohort& aged(std::int64_t age) { return young_[static_cast<std::size_t>(newest_ + 1 - age)]; }
    std::int64_t n_young() const { return newest_ - oldest_ + 1; }

    void begin(const double* row) {
        Cohort& now = young_[0];
        for (int s = 0; s < K; ++s) {
            merged_[s] = rules_.censored ? row[s] : kImpossibleScore;  // a cut bout is as old as it needs to be
            now.score[s] = rules_.censored ? kImpossibleScore : row[s];
        }
        if (!stayed_.empty()) stayed_[0] = 0;
    }

    void step(const double* row, std::int64_t t) {
        Cohort next;
        for (int s = 0; s < K; ++s) enter_best(s, t, next);
        unsigned stayed = 0;
        const bool matures = n_young() == depth_ - 1;  // the oldest cohort reaches age `depth` now and merges
        for (int s = 0; s < K; ++s) {
            const double old = merged_[s] + rules_.stay[s];
            const double fresh = matures ? young_[static_cast<std::size_t>(oldest_)].score[s] + rules_.stay[s] : kImpossibleScore;
            stayed |= static_cast<unsigned>(old >= fresh) << s;
            merged_[s] = std::max(old, fresh) + row[s];
        }
        if (!stayed_.empty()) stayed_[static_cast<std::size_t>(t)] = static_cast<std::uint8_t>(stayed);
        if (matures) ++oldest_;
        for (std::int64_t i = oldest_; i <= newest_; ++i)
            for (int s = 0; s < K; ++s) young_[static_cast<std::size_t>(i)].score[s] += rules_.stay[s] + row[s];
        for (int s = 0; s < K; ++s) next.score[s] += row[s];
        if (newest_ + 1 == static_cast<std::int64_t>(young_.size())) {
            std::copy(young_.begin() + oldest_, young_.end(), young_.begin());
            newest_ -= oldest_;
            oldest_ = 0;
        }
        young_[static_cast<std::size_t>(++newest_)] = next;
    }

    // The best survivor to leave for stage s at t. Ties go to the earlier stage, then to the older bout.
    void enter_best(int s, std::int64_t t, Cohort& next) {
        double best = kImpossibleScore;
        std::int64_t chosen = -1;  // from + K * age, so that one conditional move keeps both
        const auto window_start = static_cast<std::int32_t>(t - flip_.window_epochs);
        const Cohort* newest = &young_[static_cast<std::size_t>(newest_)];
        for (int from = 0; from < K; ++from) {
            if (from == s) continue;
            const double change = rules_.change[from * K + s];
            const double from_merged = merged_[from] + change;
            chosen = from_merged > best ? from : chosen;
            best = std::max(best, from_merged);
            for (std::int64_t age = n_young(); age >= rules_.minimum[from]; --age) {
                const Cohort& bout = newest[1 - age];
                const double penalty = penalty_[bout.last_seen[from][s] >= window_start];
                const double candidate = bout.score[from] + change - penalty;
                chosen = candidate > best ? from + K * age : chosen;
                best = std::max(best, candidate);
            }
        }
        const Origin origin{static_cast<std::int8_t>(chosen < 0 ? -1 : chosen % K),
                            static_cast<std::int32_t>(chosen < 0 ? 0 : chosen / K)};
        if (!origin_.empty()) origin_[static_cast<std::size_t>(t * K + s)] = origin;
        next.score[s] = best;
        if (origin.stage < 0) return;
        if (origin.age > 0)
            std::memcpy(next.last_seen[s], aged(origin.age).last_seen[static_cast<int>(origin.stage)], sizeof next.last_seen[s]);
        next.last_seen[s][static_cast<int>(origin.stage)] = static_cast<std::int32_t>(t - 1);
    }

    Outcome backtrace(std::int8_t* labels) {
        double best = kImpossibleScore;
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
        std::int64_t end = n_epochs_ - 1, switches = 0;
        if (start < 0) start = merged_start(end, s);
        for (;;) {
            std::memset(labels + start, s, static_cast<std::size_t>(end - start + 1));
            if (start == 0) break;
            const Origin origin = origin_[static_cast<std::size_t>(start * K + s)];
            end = start - 1;
            s = origin.stage;
            start = origin.age > 0 ? end - origin.age + 1 : merged_start(end, s);
            ++switches;
        }
        return {best, switches};
    }

    void go(const double* row, std::int64_t t) { t == 0 ? begin(row) : step(row, t); }

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
            go(own, t);
            pinned.go(row, t);
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
        const auto oldest_asked = static_cast<std::int32_t>(t + 1 - flip_.window_epochs);
        for (int s = 0; s < K; ++s)
            if (!same(merged_[s], other.merged_[s])) return false;
        for (std::int64_t age = n_young(); age >= 1; --age) {
            const Cohort &own = aged(age), &theirs = other.aged(age);
            for (int s = 0; s < K; ++s) {
                if (!same(own.score[s], theirs.score[s])) return false;
                if (own.score[s] == kImpossibleScore) continue;
                for (int r = 0; r < K; ++r)
                    if (std::max(own.last_seen[s][r], oldest_asked - 1) != std::max(theirs.last_seen[s][r], oldest_asked - 1))
                        return false;
            }
        }
        return true;
    }

    std::int64_t merged_start(std::int64_t t, int s) const {
        while (t > 0 && (stayed_[static_cast<std::size_t>(t)] >> s & 1u)) --t;
        const std::int64_t start = t - depth_ + 1;
        return start > 0 ? start : 0;
    }

    const BoutRules& rules_;
    const FlipFlop& flip_;
    const std::int64_t n_epochs_;
    std::int64_t depth_;
    std::vector<Cohort> young_;
    std::int64_t oldest_ = 0, newest_ = 0;
    double merged_[K];
    double penalty_[2] = {0.0, 0.0};  // [does this switch flip back?]
    std::vector<Origin> origin_;  // (T, K)
    std::vector<std::uint8_t> stayed_;
};

}  // namespace stageguard
