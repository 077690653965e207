// Four decodings at once, a lane each: one night under four transition weights, so that a search over weights takes hardly
// longer than one trial, or four nights under one. Lane by lane the operations of structured.hpp on products, in its order, so
// that both give the same bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "algebra.hpp"
#include "four_rows.hpp"
#include "rules.hpp"
#include "structured.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

// The evidence of one night, the same in every lane.
template <int K>
class OneNight {
  public:
    OneNight(const BoutRules& rules, const double* evidence) : rules_(rules), evidence_(evidence) {}

    void read(std::int64_t t, Lanes* e) const {
        const double* row = evidence_ + t * K;
        const double* clock = t < rules_.n_timed ? rules_.clock + t * K : nullptr;
        double total = row[0];
        STAGEGUARD_UNROLL
        for (int s = 1; s < K; ++s) total += row[s];
        const double inverse = 1.0 / total;
        STAGEGUARD_UNROLL
        for (int s = 0; s < K; ++s) {
            const double share = larger(row[s] * inverse, kClip) * rules_.weight[s];
            e[s] = Lanes::all(clock ? share * clock[s] : share);
        }
    }
    void finish(std::int64_t) {}

  private:
    const BoutRules& rules_;
    const double* evidence_;
};

#if defined(__AVX2__)
// The evidence of four nights, whose rows are checked and whose own choices are written on the way, as argmax.hpp does.
template <int K>
class FourNights {
  public:
    FourNights(const BoutRules& rules, Workspace& work, const NightRows* nights, std::int64_t most_epochs)
        : rules_(rules), nights_(nights), spare_(work.spare.need(most_epochs)) {
        for (int lane = 0; lane < kLanes; ++lane) row_[lane] = nights[lane].probabilities, own_[lane] = nights[lane].own;
        for (int s = 0; s < K; ++s) uniform_[s] = 1.0 / K;
    }

    void read(std::int64_t t, Lanes* e) {
        rows_.load(row_[0], row_[1], row_[2], row_[3]);
        const auto chosen = static_cast<std::uint32_t>(rows_.best());
        STAGEGUARD_UNROLL
        for (int lane = 0; lane < kLanes; ++lane) {
            own_[lane][t] = static_cast<std::int8_t>(chosen >> (8 * lane));
            row_[lane] += step_[lane];
        }
        const Lanes inverse = Lanes::all(1.0) / rows_.sum;
        STAGEGUARD_UNROLL
        for (int s = 0; s < K; ++s) e[s] = larger(rows_.x[s] * inverse, Lanes::all(kClip)) * Lanes::all(rules_.weight[s]);
    }

    // From here on, lanes whose night has ended read the same harmless row again and again.
    void finish(std::int64_t n_epochs) {
        for (int lane = 0; lane < kLanes; ++lane)
            if (nights_[lane].n_epochs == n_epochs) row_[lane] = uniform_, step_[lane] = 0, own_[lane] = spare_;
    }

    void bad_rows(bool* bad) const { rows_.bad_rows(bad); }

  private:
    const BoutRules& rules_;
    const NightRows* nights_;
    std::int8_t *spare_, *own_[kLanes];
    const double* row_[kLanes];
    std::int64_t step_[kLanes] = {K, K, K, K};
    double uniform_[K];
    FourRows<K> rows_;
};
#endif

// What a forward pass of `StructuredLanes` leaves behind, and the best path of each lane: the same code for every M and `Rows`.
template <int K>
class LanesPath {
  protected:
    LanesPath(const BoutRules* rules, Workspace& work, int m) : rules_(rules), work_(work), m_(m) {
        for (int s = 0; s < K; ++s) entry_[s] = m - rules[0].minimum[s];
    }

    double scores_of(int r, int s, int lane) const { return r == s ? 0.0 : rules_[lane].change[r * K + s]; }

    STAGEGUARD_APART Outcome backtrace(int lane, std::int64_t n_epochs, std::int8_t* labels) const {
        double best = 0.0;
        int s = -1;
        std::int64_t start = -1;
        const double* v = mature_ + (n_epochs - 1) * K * kLanes + lane;
        for (int stage = 0; stage < K; ++stage) {
            if (v[stage * kLanes] > best) best = v[stage * kLanes], s = stage, start = -1;
            for (int slot = m_ - 2; slot >= entry_[stage]; --slot)
                if (young_[stage][slot][lane] > best) {
                    best = young_[stage][slot][lane];
                    s = stage;
                    start = n_epochs - 1 - (slot - entry_[stage]);
                }
        }
        if (s < 0) return {kImpossibleScore, 0};
        std::int64_t end = n_epochs - 1, switches = 0;
        if (start < 0) start = bout_start(lane, end, s);
        for (;;) {
            std::memset(labels + start, s, static_cast<std::size_t>(end - start + 1));
            if (start == 0) break;
            end = start - 1;
            s = came_from(lane, end, s);
            start = bout_start(lane, end, s);
            ++switches;
        }
        return {Product::log_score(best, ended_[lane].exponent), switches};
    }

    const BoutRules* rules_;
    Workspace& work_;
    const int m_;
    std::uint32_t* bits_ = nullptr;  // (T,) bit kLanes * s + lane: the mature bout of s at t was mature at t-1 already
    double* mature_ = nullptr;       // (T, K, kLanes)
    double young_[K][kLongestMinimum][kLanes];
    int entry_[K];
    struct End {
        bool failed;
        std::int64_t exponent;
    } ended_[kLanes];

  private:
    std::int64_t bout_start(int lane, std::int64_t t, int s) const {
        const std::uint32_t bit = 1u << (kLanes * s + lane);
        while (t > 0 && (bits_[t] & bit)) --t;
        const std::int64_t start = t - rules_[0].minimum[s] + 1;
        return start > 0 ? start : 0;
    }

    int came_from(int lane, std::int64_t t, int s) const {
        const double* v = mature_ + t * K * kLanes + lane;
        int from = s == 0 ? 1 : 0;
        double best = v[from * kLanes] * scores_of(from, s, lane);
        for (int r = from + 1; r < K; ++r) {
            const double candidate = v[r * kLanes] * scores_of(r, s, lane);
            if (r != s && candidate > best) best = candidate, from = r;
        }
        return from;
    }
};

// K stages; every minimum is at most M epochs. `Rows` has the evidence; rules differ in `stay` and `change` alone.
template <int K, int M, class Rows>
class StructuredLanes : LanesPath<K> {
    static constexpr int kLast = M - 1;
    static constexpr int kSlots = M > 1 ? M - 1 : 1;
    using Path = LanesPath<K>;
    using Path::rules_, Path::work_, Path::bits_, Path::mature_, Path::young_, Path::entry_, Path::ended_;

  public:
    StructuredLanes(const BoutRules* rules, Workspace& work) : Path(rules, work, M) {}

    void run(Rows& rows, const std::int64_t* n_epochs, std::int8_t* const* labels, Outcome* outcomes) {
        const std::int64_t most = *std::max_element(n_epochs, n_epochs + kLanes);
        bits_ = work_.lanes.need(most);
        mature_ = work_.scores.need(most * K * kLanes);
        forward(rows, n_epochs);
        for (int lane = 0; lane < kLanes; ++lane)
            outcomes[lane] = ended_[lane].failed ? Outcome{kImpossibleScore, 0} : Path::backtrace(lane, n_epochs[lane], labels[lane]);
    }

  private:
    void forward(Rows& rows, const std::int64_t* n_epochs) {
        const BoutRules& rule = rules_[0];
        Lanes change[K][K], stay[K], v[K], young[K][kSlots];
        const Lanes none = Lanes::all(0.0);
        for (int s = 0; s < K; ++s) {
            double each[kLanes];
            for (int lane = 0; lane < kLanes; ++lane) each[lane] = rules_[lane].stay[s];
            stay[s] = Lanes::load(each);
            for (int r = 0; r < K; ++r) {
                for (int lane = 0; lane < kLanes; ++lane) each[lane] = Path::scores_of(r, s, lane);
                change[r][s] = Lanes::load(each);
            }
        }
        Lanes e[K];
        rows.read(0, e);
        for (int s = 0; s < K; ++s) {
            const Lanes first = e[s];
            v[s] = rule.censored || entry_[s] == kLast ? first : none;
            for (int slot = 0; slot < kSlots; ++slot)
                young[s][slot] = !rule.censored && M > 1 && entry_[s] == slot ? first : none;
            v[s].store(mature_ + s * kLanes);
        }
        bits_[0] = 0;
        std::int64_t ends[kLanes], t = 1;
        std::copy_n(n_epochs, kLanes, ends);
        std::sort(ends, ends + kLanes);
        for (const std::int64_t end : ends) {
            for (; t < end; ++t) {
                rows.read(t, e);
                Lanes enter[K];
                STAGEGUARD_UNROLL
                for (int s = 0; s < K; ++s) {
                    enter[s] = v[s == 0 ? 1 : 0] * change[s == 0 ? 1 : 0][s];
                    STAGEGUARD_UNROLL
                    for (int r = s == 0 ? 2 : 1; r < K; ++r)
                        if (r != s) enter[s] = larger(v[r] * change[r][s], enter[s]);
                }
                std::uint32_t bits = 0;
                double* row = mature_ + t * K * kLanes;
                STAGEGUARD_UNROLL
                for (int s = 0; s < K; ++s) {
                    const Lanes now = e[s], old = v[s] * stay[s];
                    Lanes fresh = enter[s];
                    if constexpr (M > 1)
                        if (entry_[s] != kLast) fresh = young[s][kLast - 1] * stay[s];
                    bits |= static_cast<std::uint32_t>(at_least(old, fresh)) << (kLanes * s);  // ties stay
                    v[s] = larger(old, fresh) * now;
                    if constexpr (M > 1) {
                        STAGEGUARD_UNROLL
                        for (int slot = kLast - 1; slot > 0; --slot)
                            young[s][slot] = (entry_[s] == slot ? enter[s] : young[s][slot - 1] * stay[s]) * now;
                        young[s][0] = (entry_[s] == 0 ? enter[s] : none) * now;
                    }
                }
                bits_[t] = bits;
                if (t % kRescaleEvery == 0) rescale(v, young);
                STAGEGUARD_UNROLL
                for (int s = 0; s < K; ++s) v[s].store(row + s * kLanes);
            }
            for (int lane = 0; lane < kLanes; ++lane)
                if (n_epochs[lane] == end) keep_end(lane, young);
            rows.finish(end);
        }
    }

    // What the last epoch of a lane's night leaves behind.
    void keep_end(int lane, Lanes (*young)[kSlots]) {
        double each[kLanes];
        ended_[lane] = {failed_[lane], exponent_[lane]};
        for (int s = 0; s < K; ++s)
            for (int slot = 0; slot < kSlots; ++slot) young[s][slot].store(each), young_[s][slot][lane] = each[lane];
    }

    void rescale(Lanes* v, Lanes (*young)[kSlots]) {
        Lanes most = v[0];
        STAGEGUARD_UNROLL
        for (int s = 0; s < K; ++s) {
            most = larger(most, v[s]);
            if constexpr (M > 1)
                STAGEGUARD_UNROLL
                for (int slot = 0; slot < kSlots; ++slot) most = larger(most, young[s][slot]);
        }
        double top[kLanes], scale[kLanes];
        most.store(top);
        for (int lane = 0; lane < kLanes; ++lane) {
            failed_[lane] |= !(top[lane] > 0.0);
            scale[lane] = failed_[lane] ? 1.0 : unit_scale(top[lane], exponent_[lane]);
        }
        const Lanes by = Lanes::load(scale);
        STAGEGUARD_UNROLL
        for (int s = 0; s < K; ++s) {
            v[s] = v[s] * by;
            if constexpr (M > 1)
                STAGEGUARD_UNROLL
                for (int slot = 0; slot < kSlots; ++slot) young[s][slot] = young[s][slot] * by;
        }
    }

    bool failed_[kLanes] = {};
    std::int64_t exponent_[kLanes] = {};
};

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
