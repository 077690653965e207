// Viterbi one epoch at a time: an epoch is given out as soon as all paths in the running agree on it, or at the lag limit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "automaton.hpp"
#include "lineage.hpp"

namespace stageguard {

enum class Pushed { kTaken, kBadRow, kNoPath };  // where it was not taken, nothing has changed

// How a row of probabilities becomes evidence: temperature and biases, renormalise, clip, prior, quality.
struct RowRules {
    double clip, sum_tolerance, rounding;
    double temperature;          // 0 where the profile does not calibrate
    std::vector<double> biases;  // (n_stages,)
    std::vector<double> added;   // (n_stages,) nats
};

struct StreamTables {
    std::vector<std::int32_t> stage, first, source;
    std::vector<double> weight, initial, final_weight;
};

// Everything that changes while rows come in.
struct StreamState {
    std::int64_t n_epochs = 0;       // pushed
    std::int64_t n_committed = 0;    // given out
    std::int64_t n_missing = 0;      // rows without evidence at the end that the paths do not reach to
    std::int64_t n_missing_run = 0;  // rows without evidence at the end
    bool is_running = false;         // a stretch has begun
    std::vector<double> scores;      // (n_states,)
    std::vector<std::int32_t> own;   // (n_states,) the bout each path ends in
    std::vector<Bout> bouts;         // in the order of Lineage::restore; empty but in copies
};

class Stream {
  public:
    // `max_lag` < 0: wait as long as it takes. Runs of up to `most_bridged` rows without evidence are bridged.
    Stream(StreamTables tables, RowRules rows, std::int64_t max_lag, std::int64_t most_bridged)
        : a_(std::move(tables)), rows_(std::move(rows)), max_lag_(max_lag), most_bridged_(most_bridged),
          evidence_(rows_.added.size()), uniform_(rows_.added.size(), -std::log(static_cast<double>(rows_.added.size()))),
          next_(n_states()), following_(n_states()), goes_on_(endless()) {
        reset();
    }

    const std::vector<std::int8_t>& given_out() const { return out_; }
    const StreamState& counts() const { return s_; }
    std::size_t n_states() const { return a_.stage.size(); }
    std::size_t n_stages() const { return evidence_.size(); }
    std::size_t capacity() const { return tree_.capacity(); }

    void reset() {
        s_ = StreamState();
        s_.scores.assign(n_states(), kImpossibleScore);
        s_.own.assign(n_states(), kNobody);
        tree_.begin(0);
    }

    // One epoch; what is given out is in given_out() until the next call.
    Pushed push(const double* row, double quality) {
        out_.clear();
        const auto n_nan = std::count_if(row, row + n_stages(), [](double p) { return std::isnan(p); });
        if (n_nan == static_cast<std::ptrdiff_t>(n_stages())) return push_missing();
        if (n_nan > 0 || !read(row, quality)) return Pushed::kBadRow;
        if (s_.n_missing > 0 && !is_possible(s_.n_missing + 1, false)) return Pushed::kNoPath;
        bridge();
        if (!step(evidence_)) return Pushed::kNoPath;
        ++s_.n_epochs;
        s_.n_missing_run = 0;
        settle();
        keep_lag();
        return Pushed::kTaken;
    }

    // The rest; the stream is as new afterwards.
    Pushed finish() {
        out_.clear();
        if (s_.is_running) {
            if (!is_possible(s_.n_missing, true)) return Pushed::kNoPath;
            bridge();
            close();
        }
        commit(-1, s_.n_epochs);
        reset();
        return Pushed::kTaken;
    }

    StreamState state() const {
        StreamState copy = s_;
        std::vector<std::int32_t> number(tree_.capacity(), kNobody), chain;
        const auto add = [&](std::int32_t i) {
            Bout bout = tree_[i];
            if (bout.parent != kNobody) bout.parent = number[static_cast<std::size_t>(bout.parent)];
            number[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(copy.bouts.size());
            copy.bouts.push_back(bout);
        };
        add(tree_.root());
        for (std::int32_t& own : copy.own) {
            for (std::int32_t i = own; i != kNobody && number[static_cast<std::size_t>(i)] == kNobody; i = tree_[i].parent)
                chain.push_back(i);
            for (; !chain.empty(); chain.pop_back()) add(chain.back());
            if (own != kNobody) own = number[static_cast<std::size_t>(own)];
        }
        return copy;
    }

    // The caller has checked it.
    void restore(StreamState state) {
        tree_.restore(state.bouts);
        state.bouts.clear();
        s_ = std::move(state);
        for (std::int32_t own : s_.own)
            if (own != kNobody) tree_.use(own);
    }

  private:
    static constexpr double kFarBelow = -1048576.0;  // where digits get scarce, scores are brought back to 0

    std::int64_t n_solved() const { return s_.n_epochs - s_.n_missing; }  // epochs the paths reach to

    Pushed push_missing() {
        const bool is_gap = s_.n_missing_run + 1 > most_bridged_;
        if (is_gap && s_.is_running) {
            if (!is_possible(0, true)) return Pushed::kNoPath;
            close();  // too long to bridge: the stretch ended before it
        }
        ++s_.n_epochs, ++s_.n_missing, ++s_.n_missing_run;
        if (is_gap) {
            commit(-1, s_.n_epochs);
            s_.n_missing = 0;
        }
        keep_lag();
        return Pushed::kTaken;
    }

    // This row's evidence; false if it is no distribution.
    bool read(const double* row, double quality) {
        double sum = 0.0;
        for (std::size_t s = 0; s < n_stages(); ++s) {
            if (!(row[s] >= -rows_.rounding)) return false;
            sum += row[s];
        }
        if (!(std::fabs(sum - 1.0) <= rows_.sum_tolerance)) return false;
        if (rows_.temperature > 0.0) {
            calibrate(row);
        } else {
            for (std::size_t s = 0; s < n_stages(); ++s) evidence_[s] = std::log(std::max(row[s] / sum, rows_.clip));
        }
        for (std::size_t s = 0; s < n_stages(); ++s)
            evidence_[s] = (1.0 - quality) * (evidence_[s] + rows_.added[s]) + quality * uniform_[s];
        return true;
    }

    void calibrate(const double* row) {
        for (std::size_t s = 0; s < n_stages(); ++s)
            evidence_[s] = std::log(std::max(row[s], 0.0)) / rows_.temperature + rows_.biases[s];
        const double top = *std::max_element(evidence_.begin(), evidence_.end()), lowest = std::log(rows_.clip);
        double total = 0.0;
        for (double e : evidence_) total += std::exp(e - top);
        const double shift = top + std::log(total);
        for (double& e : evidence_) e = std::max(e - shift, lowest);
    }

    // Whether some path can be taken so many epochs further, and end there. Evidence is finite, so it has no say.
    bool is_possible(std::int64_t n_steps, bool ends) const {
        std::vector<char> alive(n_states()), next(n_states());
        for (std::size_t j = 0; j < n_states(); ++j)
            alive[j] = (s_.is_running ? s_.scores[j] : a_.initial[j]) > kImpossibleScore;
        for (n_steps -= s_.is_running ? 0 : 1; n_steps > 0; --n_steps) {
            for (std::size_t j = 0; j < n_states(); ++j) {
                next[j] = 0;
                for (std::int32_t e = a_.first[j]; e < a_.first[j + 1]; ++e)
                    next[j] |= alive[static_cast<std::size_t>(a_.source[e])] && a_.weight[e] > kImpossibleScore;
            }
            alive.swap(next);
        }
        for (std::size_t j = 0; j < n_states(); ++j)
            if (alive[j] && (!ends || a_.final_weight[j] > kImpossibleScore)) return true;
        return false;
    }

    // Takes the paths over the rows without evidence.
    void bridge() {
        for (; s_.n_missing > 0; --s_.n_missing) step(uniform_);
    }

    // Takes the paths one epoch on, or begins a stretch; false, and nothing changes, if none can go on.
    bool step(const std::vector<double>& evidence) {
        const std::int64_t epoch = n_solved();
        double best = kImpossibleScore;
        for (std::size_t j = 0; j < n_states(); ++j) {
            double score = a_.initial[j];
            if (s_.is_running) score = arrive(j);
            next_[j] = score + evidence[static_cast<std::size_t>(a_.stage[j])];
            best = std::max(best, next_[j]);
        }
        if (best == kImpossibleScore) return false;
        if (!s_.is_running) {
            tree_.begin(epoch);
            std::fill(s_.own.begin(), s_.own.end(), kNobody);
        }
        for (std::size_t j = 0; j < n_states(); ++j) {
            std::int32_t bout = kNobody;
            if (next_[j] > kImpossibleScore) {
                const std::int32_t from = s_.is_running ? following_[j] : kNobody;
                bout = from == kNobody ? tree_.root() : s_.own[static_cast<std::size_t>(from)];
                if (from == kNobody || a_.stage[static_cast<std::size_t>(from)] != a_.stage[j])
                    bout = tree_.follow(bout, a_.stage[j], epoch);
                tree_.use(bout);
            }
            own_[j] = bout;
        }
        for (std::int32_t bout : s_.own) tree_.release(bout);
        s_.own.swap(own_);
        s_.scores.swap(next_);
        s_.is_running = true;
        if (best < kFarBelow)
            for (double& score : s_.scores) score -= best;
        return true;
    }

    // The best score with which a state is reached; following_ remembers from where. The first of equals wins.
    double arrive(std::size_t j) {
        double best = kImpossibleScore;
        for (std::int32_t e = a_.first[j]; e < a_.first[j + 1]; ++e) {
            const double score = s_.scores[static_cast<std::size_t>(a_.source[e])] + a_.weight[static_cast<std::size_t>(e)];
            if (score > best) {
                best = score;
                following_[j] = a_.source[e];
            }
        }
        return best;
    }

    void commit(std::int32_t stage, std::int64_t until) {
        for (; s_.n_committed < until; ++s_.n_committed) out_.push_back(static_cast<std::int8_t>(stage));
    }

    // Gives out what all paths agree on.
    void settle() {
        for (;;) {
            bool in_root = false, parted = false;
            std::int32_t branch = kNobody;
            std::int64_t earliest = n_solved();
            for (std::int32_t own : s_.own) {
                if (own == kNobody) continue;
                const std::int32_t after_root = tree_[own].branch;
                if (after_root == kNobody) {
                    in_root = true;
                } else {
                    parted |= branch != kNobody && branch != after_root;
                    branch = after_root;
                    earliest = std::min(earliest, tree_[branch].start);
                }
            }
            commit(tree_[tree_.root()].stage, earliest);
            if (in_root || parted || branch == kNobody) return;
            const std::int32_t shared = tree_.common(s_.own, chain_);
            lay(chain_, tree_[shared].start);
            tree_.move_root(shared, s_.own);
        }
    }

    // Gives out a line of bouts, the youngest first, up to an epoch.
    void lay(const std::vector<std::int32_t>& line, std::int64_t until) {
        for (std::size_t i = line.size(); i-- > 0;)
            commit(tree_[line[i]].stage, i > 0 ? tree_[line[i - 1]].start : until);
    }

    // Where more epochs wait than may, the best path as of now decides on the oldest, and paths that differ there drop out.
    void keep_lag() {
        while (max_lag_ >= 0 && s_.n_epochs - s_.n_committed > max_lag_) {
            if (!s_.is_running) {  // nothing was seen of this stretch yet
                commit(-1, s_.n_committed + 1);
                --s_.n_missing;
            } else if (s_.n_committed < n_solved()) {
                decide_oldest();
                settle();
            } else if (step(uniform_)) {
                --s_.n_missing;
                settle();
            } else {
                leave();
            }
        }
    }

    void decide_oldest() {
        const std::int32_t chosen = oldest_branch(s_.own[best_lasting_state()]);
        for (std::size_t j = 0; j < n_states(); ++j) {
            if (s_.own[j] == kNobody || oldest_branch(s_.own[j]) == chosen) continue;
            tree_.release(s_.own[j]);
            s_.own[j] = kNobody;
            s_.scores[j] = kImpossibleScore;
        }
    }

    // The bout that follows the root at the oldest epoch that waits, or nobody where the root goes on.
    std::int32_t oldest_branch(std::int32_t own) const {
        const std::int32_t branch = tree_[own].branch;
        return branch != kNobody && tree_[branch].start == s_.n_committed ? branch : kNobody;
    }

    // The best if the recording ended now; the first of equals.
    std::size_t best_state() const {
        std::size_t state = 0;
        double best = kImpossibleScore;
        for (const bool ends : {true, false}) {
            for (std::size_t j = 0; j < n_states(); ++j) {
                const double score = ends ? s_.scores[j] + a_.final_weight[j] : s_.scores[j];
                if (score > best) best = score, state = j;
            }
            if (best > kImpossibleScore) break;
        }
        return state;
    }

    // The same among those that need not end; a choice for good must not lead into a dead end.
    std::size_t best_lasting_state() const {
        std::size_t state = n_states();
        double best = kImpossibleScore;
        for (std::size_t j = 0; j < n_states(); ++j) {
            const double score = goes_on_[j] ? s_.scores[j] + a_.final_weight[j] : kImpossibleScore;
            if (score > best) best = score, state = j;
        }
        return state < n_states() ? state : best_state();
    }

    // The states that some path can go on from for ever: bout lengths and forbidden switches may leave others.
    std::vector<char> endless() const {
        std::vector<char> lasting(n_states(), 1);
        std::vector<std::int32_t> n_ways(n_states(), 0), ending;
        for (std::size_t e = 0; e < a_.source.size(); ++e)
            n_ways[static_cast<std::size_t>(a_.source[e])] += a_.weight[e] > kImpossibleScore;
        for (std::size_t j = 0; j < n_states(); ++j)
            if (n_ways[j] == 0) ending.push_back(static_cast<std::int32_t>(j));
        while (!ending.empty()) {
            const auto j = static_cast<std::size_t>(ending.back());
            ending.pop_back();
            lasting[j] = 0;
            for (std::int32_t e = a_.first[j]; e < a_.first[j + 1]; ++e) {
                const std::int32_t before = a_.source[static_cast<std::size_t>(e)];
                if (a_.weight[static_cast<std::size_t>(e)] > kImpossibleScore && --n_ways[static_cast<std::size_t>(before)] == 0)
                    ending.push_back(before);
            }
        }
        return lasting;
    }

    // Gives out the best path to its end; the next row begins a stretch.
    void close() {
        chain_.clear();
        for (std::int32_t i = s_.own[best_state()]; i != kNobody; i = tree_[i].parent) chain_.push_back(i);
        lay(chain_, n_solved());
        leave();
    }

    void leave() {
        s_.is_running = false;
        std::fill(s_.own.begin(), s_.own.end(), kNobody);
        std::fill(s_.scores.begin(), s_.scores.end(), kImpossibleScore);
        tree_.begin(n_solved());
    }

    const StreamTables a_;
    const RowRules rows_;
    const std::int64_t max_lag_, most_bridged_;
    StreamState s_;
    Lineage tree_;
    std::vector<std::int8_t> out_;
    std::vector<double> evidence_, uniform_, next_;
    std::vector<std::int32_t> chain_, following_, own_ = std::vector<std::int32_t>(n_states());
    const std::vector<char> goes_on_;  // (n_states,)
};

}  // namespace stageguard
