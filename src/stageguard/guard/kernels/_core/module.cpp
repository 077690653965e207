// Python bindings of the decoders: arrays of one night in, labels and scores out, the interpreter lock released.
#include <numeric>

#include "bindings.hpp"
#include "clock.hpp"

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

using Regions = nb::ndarray<const std::int64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;

// (labels, score): `run(labels)` decodes.
template <class Run>
nb::tuple decode(const Matrix& rows, Run run) {
    auto* labels = new std::int8_t[rows.shape(0)];
    nb::object owner = owned(labels, rows.shape(0));
    double score = 0.0;
    {
        nb::gil_scoped_release release;
        score = run(labels);
        workspace().trim();
    }
    return nb::make_tuple(owner, score);
}

// (labels, whether some row is not a distribution)
nb::tuple argmax(const Matrix& rows, const Vector& weight, const std::optional<Matrix>& clock) {
    const int k = n_stages_of(rows);
    if (k < 2 || k > kMostLabels) throw std::invalid_argument("2 to 127 stages expected");
    if (weight.shape(0) != rows.shape(1)) throw std::invalid_argument("a weight per stage expected");
    if (clock && (clock->shape(0) > rows.shape(0) || clock->shape(1) != rows.shape(1))) throw std::invalid_argument("a clock is no longer than its night");
    const ArgmaxKernel kernel = picked(avx2::argmax_kernel, plain::argmax_kernel, k);
    bool is_bad = false;
    const nb::tuple found = decode(rows, [&](std::int8_t* labels) {
        is_bad = kernel(rows.data(), n_epochs_of(rows), k, weight.data(), clock ? clock->data() : nullptr, clock ? n_epochs_of(*clock) : 0, labels);
        return 0.0;
    });
    return nb::make_tuple(found[0], is_bad);
}

void check_spans(const Spans& spans, const Matrix& rows) {
    for (const auto& [first, end] : spans)
        if (first < 0 || end <= first || end > n_epochs_of(rows)) throw std::invalid_argument("stretches within the night expected");
}

// (stage changes, epochs in each stage) at each transition weight, without labels: what a strength rule asks. -1 changes: no path.
nb::tuple curve(const Matrix& rows, const Spans& spans, bool products, const Vector& weight, const Matrix& stay, const Matrix& change,
                const Indices& minimum, bool censored) {
    const BoutTables tables{weight, stay, change, minimum, censored};
    tables.check(rows);
    check_spans(spans, rows);
    const int k = n_stages_of(rows), longest = tables.longest();
    const PathKernel single = picked(avx2::path_kernel, plain::path_kernel, k, longest, products);
    const CurveKernel four = products ? picked(avx2::curve_kernel, plain::curve_kernel, k, longest) : nullptr;
    if (!single) throw std::invalid_argument(kStructured);
    const std::size_t n_weights = stay.shape(0), width = four ? kLanes : 1;
    std::vector<Outcome> totals(n_weights, Outcome{0.0});
    {
        nb::gil_scoped_release release;
        for (std::size_t begin = 0; begin < n_weights; begin += width) {
            const std::size_t n = std::min(width, n_weights - begin);
            BoutRules rules[kLanes];
            for (std::size_t lane = 0; lane < width; ++lane) rules[lane] = tables(begin + std::min(lane, n - 1));
            for (const auto& [first, end] : spans) {
                Outcome found[kLanes];
                const double* from = rows.data() + first * k;
                if (n == 1) found[0] = single(rules[0], workspace(), from, end - first, nullptr);
                else four(rules, workspace(), from, end - first, found);
                for (std::size_t lane = 0; lane < n; ++lane) totals[begin + lane] += found[lane];
            }
        }
        workspace().trim();
    }
    std::vector<std::int64_t> switches;
    std::vector<std::vector<std::int64_t>> counts;
    for (const Outcome& total : totals) {
        switches.push_back(total.score > kImpossibleScore ? total.switches : -1);
        counts.emplace_back(total.counts, total.counts + k);
    }
    return nb::make_tuple(switches, counts);
}

// (labels, score) at one transition weight; labels are -1 outside of the stretches.
nb::tuple path(const Matrix& rows, const Spans& spans, bool products, const Vector& weight, const Matrix& stay, const Matrix& change,
               const Indices& minimum, bool censored, const std::optional<Matrix>& clock) {
    const BoutTables tables{weight, stay, change, minimum, censored};
    tables.check(rows, clock);
    check_spans(spans, rows);
    const PathKernel kernel = picked(avx2::path_kernel, plain::path_kernel, n_stages_of(rows), tables.longest(), products);
    if (!kernel) throw std::invalid_argument(kStructured);
    return decode(rows, [&](std::int8_t* labels) {
        std::fill_n(labels, rows.shape(0), std::int8_t{-1});
        double score = 0.0;
        for (const auto& [first, end] : spans)
            score += kernel(tables.timed(0, clock, first, end - first), workspace(), rows.data() + first * n_stages_of(rows), end - first, labels + first).score;
        return score;
    });
}

nb::tuple greedy(const Matrix& rows, bool products, const Vector& weight, const Matrix& stay, const Matrix& change, const Indices& minimum,
                 bool censored, double penalty_nats, int window_epochs) {
    const BoutTables tables{weight, stay, change, minimum, censored};
    tables.check(rows);
    const GreedyKernel kernel = picked(avx2::greedy_kernel, plain::greedy_kernel, n_stages_of(rows), products);
    if (!kernel) throw std::invalid_argument("2 to 5 stages expected");
    return decode(rows, [&](std::int8_t* labels) {
        return kernel(tables(0), FlipFlop{penalty_nats, window_epochs}, workspace(), rows.data(), n_epochs_of(rows), labels);
    });
}

nb::tuple automaton(const Matrix& rows, const Indices& stage, const Indices& first, const Indices& source, const Vector& weight,
                    const Vector& initial, const Vector& final_weight) {
    const Automaton a = AutomatonTables{stage, first, source, weight, initial, final_weight}(rows);
    return decode(rows, [&](std::int8_t* labels) { return decode_automaton(a, workspace(), rows.data(), n_epochs_of(rows), labels); });
}

// (score, score of each region): the best path, and the best that has these labels in a region; `run(regions, base, kept)` does it.
template <class Run>
nb::tuple keep(const Matrix& rows, const Labels& labels, const Regions& given, Run run) {
    if (labels.shape(0) != rows.shape(0)) throw std::invalid_argument("a label per epoch expected");
    std::vector<Region> regions;
    for (std::size_t i = 0; i < given.shape(0); ++i) {
        const std::int64_t *row = given.data() + 2 * i, after = regions.empty() ? 0 : regions.back().end;
        if (row[0] < after || row[1] <= row[0] || row[1] > n_epochs_of(rows)) throw std::invalid_argument("regions in order, within the night, expected");
        regions.push_back({row[0], row[1]});
    }
    auto* kept = new double[regions.size()];
    nb::object owner = owned(kept, regions.size());
    double base = 0.0;
    {
        nb::gil_scoped_release release;
        run(regions, base, kept);
        workspace().trim();
    }
    return nb::make_tuple(base, owner);
}

nb::tuple keep_greedy(const Matrix& rows, const Labels& labels, const Regions& regions, const Matrix& stay, const Matrix& change,
                      const Indices& minimum, bool censored, double penalty_nats, int window_epochs) {
    const double ones[kMostStages] = {1.0, 1.0, 1.0, 1.0, 1.0};
    const KeepGreedyKernel kernel = picked(avx2::keep_greedy_kernel, plain::keep_greedy_kernel, n_stages_of(rows));
    if (!kernel) throw std::invalid_argument("2 to 5 stages expected");
    const BoutRules rules{ones, stay.data(), change.data(), minimum.data(), censored, n_stages_of(rows)};
    return keep(rows, labels, regions, [&](const std::vector<Region>& own, double& base, double* kept) {
        kernel(rules, FlipFlop{penalty_nats, window_epochs}, rows.data(), n_epochs_of(rows), labels.data(), own, base, kept);
    });
}

nb::tuple keep_states(const Matrix& rows, const Labels& labels, const Regions& regions, const Indices& stage, const Indices& first,
                      const Indices& source, const Vector& weight, const Vector& initial, const Vector& final_weight) {
    const Automaton a = AutomatonTables{stage, first, source, weight, initial, final_weight}(rows);
    return keep(rows, labels, regions, [&](const std::vector<Region>& own, double& base, double* kept) {
        keep_automaton(a, workspace(), rows.data(), n_epochs_of(rows), labels.data(), own, base, kept);
    });
}

nb::tuple read_onsets(const Labels& labels, int wake, double restart_epochs, std::int64_t start, std::int64_t stop) {
    if (start < 0 || stop > static_cast<std::int64_t>(labels.shape(0))) throw std::invalid_argument("epochs of the night expected");
    return nb::tuple(nb::cast(sleep_onsets(labels.data(), start, stop, wake, restart_epochs)));
}

nb::object factors_of(const Matrix& rows, int wake, const std::vector<std::int64_t>& onsets, std::int64_t start, std::int64_t stop) {
    const ClockRules clock{rows.data(), n_epochs_of(rows), static_cast<std::int64_t>(rows.shape(1)), wake};
    bool is_fine = clock.n_rows > 0 && !onsets.empty() && 0 <= start && start <= onsets[0] && onsets.back() < stop;
    for (std::size_t i = 1; i < onsets.size(); ++i) is_fine &= onsets[i - 1] < onsets[i];
    if (!is_fine) throw std::invalid_argument("onsets in order, within the night, expected");
    const std::int64_t n_timed = std::min(stop, onsets.back() + clock.n_rows);
    auto* factors = new double[static_cast<std::size_t>(n_timed) * rows.shape(1)];
    nb::object owner = matrix(factors, static_cast<std::size_t>(n_timed), rows.shape(1));
    clock_factors(clock, onsets, start, stop, factors, n_timed);
    return owner;
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
    m.attr("SIMD") = has_avx2() ? "AVX2" : "none";
    m.def("argmax", &argmax, "rows"_a, "weight"_a, "clock"_a = nb::none());
    m.def("curve", &curve, "rows"_a, "spans"_a, "products"_a, "weight"_a, "stay"_a, "change"_a, "minimum"_a, "censored"_a);
    m.def("path", &path, "rows"_a, "spans"_a, "products"_a, "weight"_a, "stay"_a, "change"_a, "minimum"_a, "censored"_a, "clock"_a = nb::none());
    m.def("greedy", &greedy, "rows"_a, "products"_a, "weight"_a, "stay"_a, "change"_a, "minimum"_a, "censored"_a, "penalty_nats"_a,
          "window_epochs"_a);
    m.def("automaton", &automaton, "rows"_a, "stage"_a, "first"_a, "source"_a, "weight"_a, "initial"_a, "final_weight"_a);
    m.def("keep_greedy", &keep_greedy, "rows"_a, "labels"_a, "regions"_a, "stay"_a, "change"_a, "minimum"_a, "censored"_a, "penalty_nats"_a,
          "window_epochs"_a);
    m.def("keep_automaton", &keep_states, "rows"_a, "labels"_a, "regions"_a, "stage"_a, "first"_a, "source"_a, "weight"_a, "initial"_a,
          "final_weight"_a);
    m.def("sleep_onsets", &read_onsets, "labels"_a, "wake"_a, "restart_epochs"_a, "start"_a, "stop"_a);
    m.def("clock_factors", &factors_of, "rows"_a, "wake"_a, "onsets"_a, "start"_a, "stop"_a);
    bind_sums(m);
    bind_text(m);
}
