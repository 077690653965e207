// Python bindings: lists of pieces (contiguous float64 matrices) in, flat labels out, the interpreter lock released.
#include <cstring>
#include <numeric>
#include <optional>
#include <tuple>

#include <nanobind/stl/tuple.h>

#include "bindings.hpp"
#include "clock.hpp"
#include "labels.hpp"

using namespace nb::literals;

namespace stageguard {

bool has_avx2() {
#if defined(STAGEGUARD_HAS_AVX2)
    return __builtin_cpu_supports("avx2");
#else
    return false;
#endif
}

namespace {

using Labels = nb::ndarray<const std::int8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const std::int64_t, nb::shape<-1, 3>, nb::c_contig, nb::device::cpu>;

// (labels, scores, switches)
template <class Run>
nb::tuple decode(const Batch& batch, int n_threads, Run run) {
    auto* labels = new std::int8_t[static_cast<std::size_t>(batch.n_labels)];
    nb::object owner = nb::cast(owned(labels, static_cast<std::size_t>(batch.n_labels)));
    const auto outcomes = spread<Outcome>(batch, n_threads, labels, run);
    return nb::make_tuple(owner, listed(outcomes, [](const Outcome& o) { return o.score; }),
                          listed(outcomes, [](const Outcome& o) { return o.switches; }));
}

// (labels, switches, bad)
nb::tuple argmax(const nb::list& pieces, const Tables& weight, int n_threads, const nb::list& clock, const nb::list& rooms) {
    const Batch batch(pieces);
    const Clocks clocks(clock, batch);
    const Copies copies(rooms, batch);
    if (batch.n_stages < 2 || batch.n_stages > kMostLabels) throw std::invalid_argument("2 to 127 stages expected");
    const int n_stages = static_cast<int>(batch.n_stages);
    const ArgmaxKernel kernel = picked(avx2::argmax_kernel, plain::argmax_kernel, n_stages);
    auto* labels = new std::int8_t[static_cast<std::size_t>(batch.n_labels)];
    nb::object owner = nb::cast(owned(labels, static_cast<std::size_t>(batch.n_labels)));
    const auto choices = spread<Choice>(batch, n_threads, labels, [&](std::size_t i, const Piece& p, std::int8_t* out) {
        const double* own = weight.data() + row_of(weight, i) * static_cast<std::size_t>(n_stages);
        return kernel(copies.settle(batch, i), p.n_epochs, n_stages, own, clocks.rows(i), clocks.n_rows(i), out);
    });
    return nb::make_tuple(owner, listed(choices, [](const Choice& c) { return c.switches; }),
                          listed(choices, [](const Choice& c) { return c.bad_rows; }));
}

// What is known of a piece that was checked: the stager's own choice, and the best path if that choice can be trusted.
struct Opened {
    Choice own;
    Outcome path;
    std::int64_t changed;  // epochs in which the two differ
};

Opened opened(const NightRows& night, bool is_bad, const Outcome& path) {
    const Choice own{n_differing(night.own, night.own + 1, night.n_epochs - 1), is_bad};
    if (is_bad) return {own, {kImpossibleScore, 0}, 0};
    return {own, path, n_differing(night.own, night.path, night.n_epochs)};
}

// Pieces that are decoded at once: four of about the same length, or one.
struct Together {
    std::size_t n;
    std::size_t pieces[kLanes];
};

std::vector<Together> by_length(const Batch& batch, std::size_t most) {
    const std::size_t n = batch.pieces.size();
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (most > 1)
        std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return batch.pieces[a].n_epochs < batch.pieces[b].n_epochs; });
    std::vector<Together> groups;
    for (std::size_t i = 0; i < n; i += groups.back().n) {
        Together group{n - i < most ? 1 : most, {}};
        std::copy_n(order.begin() + static_cast<std::ptrdiff_t>(i), group.n, group.pieces);
        groups.push_back(group);
    }
    return groups;
}

nb::tuple tuple_of(const Onsets& onsets) {
    nb::list values;
    for (const std::int64_t onset : onsets) values.append(onset);
    return nb::tuple(values);
}

nb::tuple read_onsets(const Labels& labels, int wake, double restart_epochs, std::int64_t start, std::int64_t stop) {
    if (start < 0 || stop > static_cast<std::int64_t>(labels.shape(0))) throw std::invalid_argument("epochs of the night expected");
    return tuple_of(sleep_onsets(labels.data(), start, stop, wake, restart_epochs));
}

nb::object factors_of(const Tables& rows, int wake, const std::vector<std::int64_t>& onsets, std::int64_t start, std::int64_t stop) {
    const ClockRules clock{rows.data(), static_cast<std::int64_t>(rows.shape(0)), static_cast<std::int64_t>(rows.shape(1)), wake};
    bool is_fine = clock.n_rows > 0 && !onsets.empty() && 0 <= start && start <= onsets[0] && onsets.back() < stop;
    for (std::size_t i = 1; i < onsets.size(); ++i) is_fine &= onsets[i - 1] < onsets[i];
    if (!is_fine) throw std::invalid_argument("onsets in order, within the night, expected");
    Scratch<double>& scratch = workspace().factors;
    const auto n_rows = static_cast<std::size_t>(clock_factors(clock, onsets, start, stop, scratch));
    auto* factors = new double[n_rows * rows.shape(1)];
    std::copy_n(scratch.data(), n_rows * rows.shape(1), factors);
    return matrix(factors, n_rows, rows.shape(1));
}

// (labels of the stager, labels of the paths, a tuple per piece)
nb::tuple check_and_decode(const nb::list& pieces, const Indices& table, const Tables& weight, const Tables& stay, const Tables& change,
               const Indices& minimum, bool censored, int n_threads, const nb::list& rooms) {
    const Batch batch(pieces);
    const Copies copies(rooms, batch);
    const RuleTables rules{weight, stay, change, minimum, table, censored};
    const int n_stages = static_cast<int>(batch.n_stages), longest = rules.longest_minimum();
    const ArgmaxKernel choose = picked(avx2::argmax_kernel, plain::argmax_kernel, n_stages);
    const StructuredKernel kernel = picked(avx2::structured_kernel, plain::structured_kernel, n_stages, longest, true);
    if (!kernel) throw std::invalid_argument("2 to 5 stages and minimum bouts of 1 to 8 epochs expected");
    const NightsKernel nights = table.shape(0) == 1 && weight.shape(0) == 1 ? picked(avx2::nights_kernel, plain::nights_kernel, n_stages, longest) : nullptr;
    double ones[kMostStages];
    std::fill_n(ones, kMostStages, 1.0);
    auto* labels = new std::int8_t[static_cast<std::size_t>(2 * batch.n_labels)];
    nb::capsule owner(labels, [](void* p) noexcept { delete[] static_cast<std::int8_t*>(p); });
    const std::vector<Together> groups = by_length(batch, nights ? kLanes : 1);
    std::vector<Opened> all(batch.pieces.size());
    spread_items(groups.size(), n_threads, [&](std::size_t index) {
        const Together& group = groups[index];
        NightRows rows[kLanes];
        for (std::size_t lane = 0; lane < group.n; ++lane) {
            const Piece& p = batch.pieces[group.pieces[lane]];
            rows[lane] = {copies.settle(batch, group.pieces[lane]), p.n_epochs, labels + p.offset, labels + batch.n_labels + p.offset};
        }
        bool bad[kLanes];
        Outcome outcomes[kLanes] = {};
        if (group.n == kLanes) {
            nights(rules(0), workspace(), rows, bad, outcomes);
        } else {
            bad[0] = choose(rows[0].probabilities, rows[0].n_epochs, n_stages, ones, nullptr, 0, rows[0].own).bad_rows;
            if (!bad[0]) outcomes[0] = kernel(rules(group.pieces[0]), workspace(), rows[0].probabilities, rows[0].n_epochs, rows[0].path);
        }
        for (std::size_t lane = 0; lane < group.n; ++lane) {
            const std::size_t piece = group.pieces[lane];
            all[piece] = opened(rows[lane], bad[lane], outcomes[lane]);
        }
    });
    nb::list rows;
    for (const Opened& o : all) {
        const auto& [own, path, changed] = o;
        rows.append(nb::make_tuple(own.switches, own.bad_rows, path.score, path.switches, changed));
    }
    return nb::make_tuple(frozen(labels, batch.n_labels, owner), frozen(labels + batch.n_labels, batch.n_labels, owner), rows);
}

// Pieces that follow each other and are the same night under other transition weights.
struct Trials {
    std::size_t first, n;
};

// `is_alike(i, first)` tells whether two pieces of the same evidence differ in their transition weights alone.
template <class IsAlike>
std::vector<Trials> trials_of(const Batch& batch, IsAlike is_alike) {
    std::vector<Trials> groups;
    for (std::size_t i = 0; i < batch.pieces.size(); ++i) {
        const Piece &own = batch.pieces[i], *first = groups.empty() ? nullptr : &batch.pieces[groups.back().first];
        if (first && groups.back().n < kLanes && own.evidence == first->evidence && own.n_epochs == first->n_epochs &&
            is_alike(i, groups.back().first))
            ++groups.back().n;
        else
            groups.push_back({i, 1});
    }
    return groups;
}

// (labels, scores, switches) of trials, a group at a time: `run(trials, piece, labels, outcomes)` does one of them.
template <class Run>
nb::tuple decode_trials(const Batch& batch, const std::vector<Trials>& groups, int n_threads, Run run) {
    auto* labels = new std::int8_t[static_cast<std::size_t>(batch.n_labels)];
    nb::object owner = nb::cast(owned(labels, static_cast<std::size_t>(batch.n_labels)));
    std::vector<Outcome> outcomes(batch.pieces.size());
    spread_items(groups.size(), n_threads, [&](std::size_t group) {
        const Trials& trials = groups[group];
        std::int8_t* out[kLanes];
        Outcome found[kLanes];
        std::vector<std::int8_t> spare;  // for lanes without a trial of their own
        const Piece& p = batch.pieces[trials.first];
        if (trials.n < kLanes) spare.resize(static_cast<std::size_t>(p.n_epochs));
        for (std::size_t lane = 0; lane < kLanes; ++lane)
            out[lane] = lane < trials.n ? labels + batch.pieces[trials.first + lane].offset : spare.data();
        run(trials, p, out, found);
        std::copy_n(found, trials.n, outcomes.begin() + static_cast<std::ptrdiff_t>(trials.first));
    });
    return nb::make_tuple(owner, listed(outcomes, [](const Outcome& o) { return o.score; }),
                          listed(outcomes, [](const Outcome& o) { return o.switches; }));
}

nb::tuple structured(const nb::list& pieces, bool products, const Indices& table, const Tables& weight, const Tables& stay,
                     const Tables& change, const Indices& minimum, bool censored, int n_threads, const nb::list& clock) {
    const Batch batch(pieces);
    const Clocks clocks(clock, batch);
    const RuleTables rules{weight, stay, change, minimum, table, censored, 0.0, &clocks};
    const StructuredKernel kernel = picked(avx2::structured_kernel, plain::structured_kernel, static_cast<int>(batch.n_stages), rules.longest_minimum(), products);
    if (!kernel) throw std::invalid_argument("2 to 5 stages and minimum bouts of 1 to 8 epochs expected");
    const LanesKernel lanes = picked(avx2::lanes_kernel, plain::lanes_kernel, static_cast<int>(batch.n_stages), rules.longest_minimum());
    const auto bytes = static_cast<std::size_t>(batch.n_stages) * sizeof(double);
    const auto is_alike = [&](std::size_t i, std::size_t first) {
        return rules(i).clock == rules(first).clock && std::memcmp(rules(i).weight, rules(first).weight, bytes) == 0;
    };
    const std::vector<Trials> groups = products && lanes ? trials_of(batch, is_alike) : std::vector<Trials>{};
    if (groups.size() == batch.pieces.size() || groups.empty())
        return decode(batch, n_threads, [&](std::size_t i, const Piece& p, std::int8_t* labels) {
            return kernel(rules(i), workspace(), p.evidence, p.n_epochs, labels);
        });
    return decode_trials(batch, groups, n_threads, [&](const Trials& trials, const Piece& p, std::int8_t* const* labels, Outcome* outcomes) {
        BoutRules own[kLanes];
        for (std::size_t lane = 0; lane < kLanes; ++lane) own[lane] = rules(trials.first + std::min(lane, trials.n - 1));
        lanes(own, workspace(), p.evidence, p.n_epochs, labels, outcomes);
    });
}

nb::tuple greedy(const nb::list& pieces, bool products, const Indices& table, const Tables& weight, const Tables& stay,
                 const Tables& change, const Indices& minimum, bool censored, double penalty_nats, int window_epochs, int n_threads) {
    const Batch batch(pieces);
    const RuleTables rules{weight, stay, change, minimum, table, censored};
    const FlipFlop flip_flop{penalty_nats, window_epochs};
    const GreedyKernel kernel = picked(avx2::greedy_kernel, plain::greedy_kernel, static_cast<int>(batch.n_stages), products);
    if (!kernel) throw std::invalid_argument("2 to 5 stages expected");
    return decode(batch, n_threads, [&](std::size_t i, const Piece& p, std::int8_t* labels) {
        return kernel(rules(i), flip_flop, workspace(), p.evidence, p.n_epochs, labels);
    });
}

nb::tuple automaton(const nb::list& pieces, const Indices& table, const Indices& stage, const Indices& first,
                    const Indices& source, const Tables& weight, const Tables& initial, const Tables& final_weight,
                    int n_threads) {
    const Batch batch(pieces);
    const AutomatonTables tables{stage, first, source, table, weight, initial, final_weight};
    const auto groups = trials_of(batch, [](std::size_t, std::size_t) { return true; });
    return decode_trials(batch, groups, n_threads, [&](const Trials& trials, const Piece& p, std::int8_t* const* labels, Outcome* outcomes) {
        Automaton own[kLanes];
        for (std::size_t lane = 0; lane < kLanes; ++lane) own[lane] = tables(trials.first + std::min(lane, trials.n - 1), batch.n_stages);
        picked(avx2::automaton_kernel, plain::automaton_kernel, trials.n > 1)(own, workspace(), p.evidence, p.n_epochs, labels, outcomes);
    });
}

// What is to be kept of each piece: its labels, and in which regions they are pinned, a row (piece, first, end) each.
struct Kept {
    std::vector<std::vector<Region>> regions;  // of each piece
    std::vector<std::size_t> offset;           // of each piece's first region among all
    const std::int8_t* labels;                 // flat, as the pieces are

    Kept(const Batch& batch, const Labels& all, const Rows& rows) : regions(batch.pieces.size()), labels(all.data()) {
        if (static_cast<std::int64_t>(all.shape(0)) != batch.n_labels) throw std::invalid_argument("a label per epoch expected");
        for (std::size_t i = 0; i < rows.shape(0); ++i) {
            const std::int64_t *row = rows.data() + 3 * i, *before = i > 0 ? row - 3 : nullptr;
            const bool is_known = row[0] >= 0 && row[0] < static_cast<std::int64_t>(batch.pieces.size());
            const bool is_after = !before || row[0] > before[0] || (row[0] == before[0] && row[1] >= before[2]);
            if (!is_known || !is_after || row[1] < 0 || row[2] <= row[1] ||
                row[2] > batch.pieces[static_cast<std::size_t>(row[0])].n_epochs)
                throw std::invalid_argument("regions in order, within their pieces, expected");
            regions[static_cast<std::size_t>(row[0])].push_back({row[1], row[2]});
        }
        std::size_t n = 0;
        for (const auto& own : regions) offset.push_back(n), n += own.size();
    }
};

// (scores of the pieces, scores of the regions): the best path of a piece, and the best that keeps a region's labels.
// `run(i, piece, labels, regions, base, kept)` does one piece.
template <class Run>
nb::tuple keep_with(const Batch& batch, const Kept& kept, std::size_t n_regions, int n_threads, Run run) {
    auto* scores = new double[n_regions];
    nb::object owner = nb::cast(owned(scores, n_regions));
    const auto bases = spread<double>(batch, n_threads, nullptr, [&](std::size_t i, const Piece& p, std::int8_t*) {
        double base = 0.0;
        run(i, p, kept.labels + p.offset, kept.regions[i], base, scores + kept.offset[i]);
        return base;
    });
    return nb::make_tuple(column<double>(bases, [](double base) { return base; }), owner);
}

nb::tuple keep_greedy(const nb::list& pieces, const Labels& labels, const Rows& regions, const Indices& table,
                      const Tables& stay, const Tables& change, const Indices& minimum, bool censored, double penalty_nats,
                      int window_epochs, int n_threads) {
    const Batch batch(pieces);
    const Kept kept(batch, labels, regions);
    const RuleTables rules{stay, stay, change, minimum, table, censored};
    const FlipFlop flip_flop{penalty_nats, window_epochs};
    const KeepGreedyKernel kernel = picked(avx2::keep_greedy_kernel, plain::keep_greedy_kernel, static_cast<int>(batch.n_stages));
    if (!kernel) throw std::invalid_argument("2 to 5 stages expected");
    return keep_with(batch, kept, regions.shape(0), n_threads,
                     [&](std::size_t i, const Piece& p, const std::int8_t* own, const std::vector<Region>& regions_of,
                         double& base, double* scores) {
                         kernel(rules(i), flip_flop, p.evidence, p.n_epochs, own, regions_of, base, scores);
                     });
}

nb::tuple keep_states(const nb::list& pieces, const Labels& labels, const Rows& regions, const Indices& table,
                         const Indices& stage, const Indices& first, const Indices& source, const Tables& weight,
                         const Tables& initial, const Tables& final_weight, int n_threads) {
    const Batch batch(pieces);
    const Kept kept(batch, labels, regions);
    const AutomatonTables tables{stage, first, source, table, weight, initial, final_weight};
    return keep_with(batch, kept, regions.shape(0), n_threads,
                     [&](std::size_t i, const Piece& p, const std::int8_t* own, const std::vector<Region>& regions_of,
                         double& base, double* scores) {
                         keep_automaton(tables(i, batch.n_stages), workspace(), p.evidence, p.n_epochs, own, regions_of, base, scores);
                     });
}

}  // namespace
}  // namespace stageguard

NB_MODULE(_native, m) {
    using namespace stageguard;
    // a vector asked for more than there can be is out of memory too
    nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
        try {
            std::rethrow_exception(thrown);
        } catch (const std::length_error&) {
            PyErr_NoMemory();
        }
    });
    m.attr("NAME") = "compiled";
    m.attr("LONGEST_MINIMUM") = kLongestMinimum;
    m.attr("MOST_STAGES") = kMostStages;
    m.attr("LANES") = kLanes;
    m.attr("SIMD") = has_avx2() ? "AVX2" : "none";
    m.def("argmax", &argmax, "pieces"_a, "weight"_a, "n_threads"_a, "clock"_a = nb::list(), "rooms"_a = nb::list());
    m.def("check_and_decode", &check_and_decode, "pieces"_a, "table"_a, "weight"_a, "stay"_a, "change"_a, "minimum"_a, "censored"_a, "n_threads"_a,
          "rooms"_a = nb::list());
    m.def("sleep_onsets", &read_onsets, "labels"_a, "wake"_a, "restart_epochs"_a, "start"_a, "stop"_a);
    m.def("clock_factors", &factors_of, "rows"_a, "wake"_a, "onsets"_a, "start"_a, "stop"_a);
    m.def("structured", &structured, "pieces"_a, "products"_a, "table"_a, "weight"_a, "stay"_a, "change"_a, "minimum"_a,
          "censored"_a, "n_threads"_a, "clock"_a = nb::list());
    m.def("greedy", &greedy, "pieces"_a, "products"_a, "table"_a, "weight"_a, "stay"_a, "change"_a, "minimum"_a, "censored"_a, "penalty_nats"_a,
          "window_epochs"_a, "n_threads"_a);
    m.def("automaton", &automaton, "pieces"_a, "table"_a, "stage"_a, "first"_a, "source"_a, "weight"_a, "initial"_a,
          "final_weight"_a, "n_threads"_a);
    m.def("keep_greedy", &keep_greedy, "pieces"_a, "labels"_a, "regions"_a, "table"_a, "stay"_a, "change"_a, "minimum"_a,
          "censored"_a, "penalty_nats"_a, "window_epochs"_a, "n_threads"_a);
    m.def("keep_automaton", &keep_states, "pieces"_a, "labels"_a, "regions"_a, "table"_a, "stage"_a, "first"_a, "source"_a,
          "weight"_a, "initial"_a, "final_weight"_a, "n_threads"_a);
    bind_sums(m);
    bind_stream(m);
    bind_text(m);
}
