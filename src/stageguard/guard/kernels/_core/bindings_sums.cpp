// Python bindings of what is summed over all paths: log-sums, marginals, draws.
#include "bindings.hpp"
#include "draws.hpp"

using namespace nb::literals;

namespace stageguard {
namespace {

using Streams = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;  // (n_draws,)

// (marginals, log-sum, whether nothing underflowed); `run(marginals)` sums over the paths of a stretch.
template <class Run>
nb::tuple smooth_with(const Matrix& rows, Run run) {
    auto* marginals = new double[rows.shape(0) * rows.shape(1)];
    nb::object owner = matrix(marginals, rows.shape(0), rows.shape(1));
    Sum sum;
    {
        nb::gil_scoped_release release;
        sum = run(marginals);
        workspace().trim();
    }
    return nb::make_tuple(owner, sum.log_sum, sum.certified);
}

nb::tuple smooth(const Matrix& rows, double clip, const Vector& weight, const Matrix& stay, const Matrix& change, const Indices& minimum,
                 bool censored, const std::optional<Matrix>& clock) {
    const BoutTables tables{weight, stay, change, minimum, censored};
    tables.check(rows, clock);
    const SmoothKernel kernel = picked(avx2::smooth_kernel, plain::smooth_kernel, n_stages_of(rows), tables.longest());
    if (!kernel) throw std::invalid_argument(kStructured);
    BoutRules rules = tables.timed(0, clock, 0, n_epochs_of(rows));
    rules.clip = clip;
    return smooth_with(rows, [&](double* marginals) { return kernel(rules, workspace(), rows.data(), n_epochs_of(rows), marginals); });
}

nb::tuple smooth_states(const Matrix& rows, bool products, const Indices& stage, const Indices& first, const Indices& source,
                        const Vector& weight, const Vector& initial, const Vector& final_weight) {
    const Automaton a = AutomatonTables{stage, first, source, weight, initial, final_weight}(rows);
    return smooth_with(rows, [&](double* marginals) {
        return smooth_automaton(a, workspace(), products, rows.data(), n_epochs_of(rows), marginals);
    });
}

// (labels (n_draws, T), log-sum, whether nothing underflowed). The draws are shared out over threads, each share summing over
// the paths once more; `run(streams, n, labels)` draws some of them.
template <class Run>
nb::tuple draw_with(const Matrix& rows, const Streams& streams, int n_threads, Run run) {
    const std::size_t n_draws = streams.shape(0), n_shares = std::max<std::size_t>(1, std::min<std::size_t>(n_draws, static_cast<std::size_t>(std::max(1, n_threads))));
    auto* labels = new std::int8_t[n_draws * rows.shape(0)];
    nb::object owner = matrix(labels, n_draws, rows.shape(0));
    std::vector<Sum> found(n_shares);
    spread_items(n_shares, n_threads, [&](std::size_t share) {
        const std::size_t first = n_draws * share / n_shares, end = n_draws * (share + 1) / n_shares;
        found[share] = run(streams.data() + first, static_cast<std::int64_t>(end - first), labels + first * rows.shape(0));
    });
    return nb::make_tuple(owner, found.back().log_sum, found.back().certified);
}

nb::tuple draw(const Matrix& rows, double clip, const Vector& weight, const Matrix& stay, const Matrix& change, const Indices& minimum,
               bool censored, const Streams& streams, int n_threads, const std::optional<Matrix>& clock) {
    const BoutTables tables{weight, stay, change, minimum, censored};
    tables.check(rows, clock);
    const DrawKernel kernel = picked(avx2::draw_kernel, plain::draw_kernel, n_stages_of(rows), tables.longest());
    if (!kernel) throw std::invalid_argument(kStructured);
    BoutRules rules = tables.timed(0, clock, 0, n_epochs_of(rows));
    rules.clip = clip;
    return draw_with(rows, streams, n_threads, [&](const std::uint64_t* own, std::int64_t n_draws, std::int8_t* labels) {
        return kernel(rules, workspace(), rows.data(), n_epochs_of(rows), own, n_draws, labels);
    });
}

// (labels (n_draws, T), the draws in which something underflowed); each draw has factors of the stages and a table of its own.
nb::tuple draw_tables(const Matrix& rows, const Matrix& weight, const Matrix& stay, const Matrix& change, const Indices& minimum, bool censored,
                      const Streams& streams, int n_threads) {
    const std::size_t n_draws = streams.shape(0), n_epochs = rows.shape(0), k = rows.shape(1);
    const bool fits = weight.shape(0) == n_draws && weight.shape(1) == k && stay.shape(0) == n_draws && stay.shape(1) == k &&
                      change.shape(0) == n_draws && change.shape(1) == k * k && minimum.shape(0) == k;
    if (!fits || n_draws == 0 || n_epochs == 0) throw std::invalid_argument("a table per draw for the stages of a night expected");
    const DrawKernel kernel = picked(avx2::draw_kernel, plain::draw_kernel, n_stages_of(rows), *std::max_element(minimum.data(), minimum.data() + k));
    if (!kernel) throw std::invalid_argument(kStructured);
    auto* labels = new std::int8_t[n_draws * n_epochs];
    nb::object owner = matrix(labels, n_draws, n_epochs);
    std::vector<char> certified(n_draws);
    spread_items(n_draws, n_threads, [&](std::size_t i) {
        const BoutRules rules{weight.data() + i * k, stay.data() + i * k, change.data() + i * k * k, minimum.data(), censored, static_cast<int>(k)};
        certified[i] = kernel(rules, workspace(), rows.data(), n_epochs_of(rows), streams.data() + i, 1, labels + i * n_epochs).certified;
    });
    std::vector<std::size_t> lost;
    for (std::size_t i = 0; i < n_draws; ++i)
        if (!certified[i]) lost.push_back(i);
    return nb::make_tuple(owner, lost);
}

nb::tuple draw_states(const Matrix& rows, bool products, const Indices& stage, const Indices& first, const Indices& source,
                      const Vector& weight, const Vector& initial, const Vector& final_weight, const Streams& streams, int n_threads) {
    const Automaton a = AutomatonTables{stage, first, source, weight, initial, final_weight}(rows);
    return draw_with(rows, streams, n_threads, [&](const std::uint64_t* own, std::int64_t n_draws, std::int8_t* labels) {
        return draw_automaton(a, workspace(), products, rows.data(), n_epochs_of(rows), own, n_draws, labels);
    });
}

nb::object draw_each(const Matrix& rows, const Streams& streams, int n_threads) {
    return draw_with(rows, streams, n_threads, [&](const std::uint64_t* own, std::int64_t n_draws, std::int8_t* labels) {
        draw_epochs(workspace(), rows.data(), n_epochs_of(rows), n_stages_of(rows), own, n_draws, labels);
        return Sum{0.0, true};
    })[0];
}

}  // namespace

void bind_sums(nb::module_& m) {
    m.def("smooth", &smooth, "rows"_a, "clip"_a, "weight"_a, "stay"_a, "change"_a, "minimum"_a, "censored"_a, "clock"_a = nb::none());
    m.def("smooth_automaton", &smooth_states, "rows"_a, "products"_a, "stage"_a, "first"_a, "source"_a, "weight"_a, "initial"_a,
          "final_weight"_a);
    m.def("draw", &draw, "rows"_a, "clip"_a, "weight"_a, "stay"_a, "change"_a, "minimum"_a, "censored"_a, "streams"_a, "n_threads"_a,
          "clock"_a = nb::none());
    m.def("draw_tables", &draw_tables, "rows"_a, "weight"_a, "stay"_a, "change"_a, "minimum"_a, "censored"_a, "streams"_a, "n_threads"_a);
    m.def("draw_automaton", &draw_states, "rows"_a, "products"_a, "stage"_a, "first"_a, "source"_a, "weight"_a, "initial"_a,
          "final_weight"_a, "streams"_a, "n_threads"_a);
    m.def("draw_each", &draw_each, "rows"_a, "streams"_a, "n_threads"_a);
}

}  // namespace stageguard
