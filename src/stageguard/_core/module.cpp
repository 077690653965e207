// Python bindings: lists of pieces (contiguous float64 matrices) in, flat labels out, the interpreter lock released.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "automaton.hpp"
#include "forward_backward.hpp"
#include "greedy.hpp"
#include "rules.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace stageguard {
namespace {

using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Tables = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;   // (n_tables, width)
using Vector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Indices = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

struct Piece {
    const double* evidence;
    std::int64_t n_epochs;
    std::int64_t offset;  // into the flat labels
};

struct Batch {
    std::vector<Matrix> owners;
    std::vector<Piece> pieces;
    std::int64_t n_stages = 0, n_labels = 0;

    explicit Batch(const nb::list& list) {
        pieces.reserve(list.size());
        owners.reserve(list.size());
        for (nb::handle item : list) {
            owners.push_back(nb::cast<Matrix>(item));
            const Matrix& m = owners.back();
            if (m.shape(0) == 0) throw std::invalid_argument("a piece has no epochs");
            if (pieces.empty()) n_stages = static_cast<std::int64_t>(m.shape(1));
            if (static_cast<std::int64_t>(m.shape(1)) != n_stages) throw std::invalid_argument("pieces differ in stages");
            pieces.push_back({m.data(), static_cast<std::int64_t>(m.shape(0)), n_labels});
            n_labels += static_cast<std::int64_t>(m.shape(0));
        }
        if (pieces.empty()) throw std::invalid_argument("no pieces");
    }
};

template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> owned(T* data, std::size_t n) {
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {n}, owner);
}

Workspace& workspace() {
    thread_local Workspace own;
    return own;
}

// Runs a worker on every piece, on up to n_threads threads. Pieces share nothing, so the result does not depend on how
// they were spread; `make_worker` gives each thread a worker of its own.
template <class Result, class MakeWorker>
std::vector<Result> spread(const Batch& batch, int n_threads, std::int8_t* labels, MakeWorker make_worker) {
    const std::size_t n = batch.pieces.size();
    std::vector<Result> results(n);
    nb::gil_scoped_release release;
    std::atomic<std::size_t> next{0};
    auto loop = [&] {
        auto worker = make_worker();
        for (std::size_t i; (i = next.fetch_add(1)) < n;) {
            const Piece& piece = batch.pieces[i];
            results[i] = worker(i, piece, labels ? labels + piece.offset : nullptr);
        }
        workspace().trim();
    };
    const std::size_t wanted = n_threads > 1 ? static_cast<std::size_t>(n_threads) : 1;
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < std::min(wanted, n); ++i) others.emplace_back(loop);
    loop();
    for (std::thread& thread : others) thread.join();
    return results;
}

template <class T, class Result, class Field>
nb::object column(const std::vector<Result>& results, Field field) {
    auto* data = new T[results.size()];
    for (std::size_t i = 0; i < results.size(); ++i) data[i] = field(results[i]);
    return nb::cast(owned(data, results.size()));
}

// (labels, scores, switches)
template <class MakeWorker>
nb::tuple decode(const Batch& batch, int n_threads, MakeWorker make_worker) {
    auto* labels = new std::int8_t[static_cast<std::size_t>(batch.n_labels)];
    nb::object owner = nb::cast(owned(labels, static_cast<std::size_t>(batch.n_labels)));
    const auto outcomes = spread<Outcome>(batch, n_threads, labels, make_worker);
    return nb::make_tuple(owner, column<double>(outcomes, [](const Outcome& o) { return o.score; }),
                          column<std::int64_t>(outcomes, [](const Outcome& o) { return o.switches; }));
}

// Calls f with the number of stages as a compile-time constant.
template <class F>
nb::tuple with_stages(std::int64_t n_stages, F f) {
    switch (n_stages) {
        case 2: return f(std::integral_constant<int, 2>{});
        case 3: return f(std::integral_constant<int, 3>{});
        case 4: return f(std::integral_constant<int, 4>{});
        case 5: return f(std::integral_constant<int, 5>{});
        case 6: return f(std::integral_constant<int, 6>{});
        case 7: return f(std::integral_constant<int, 7>{});
        case 8: return f(std::integral_constant<int, 8>{});
        default: throw std::invalid_argument("2 to 8 stages expected");
    }
}

bool has_avx2() {
#if defined(STAGEGUARD_HAS_AVX2)
    return __builtin_cpu_supports("avx2");
#else
    return false;
#endif
}

StructuredKernel structured_kernel(int n_stages, int longest_minimum, bool products) {
#if defined(STAGEGUARD_HAS_AVX2)
    if (has_avx2()) return avx2::structured_kernel(n_stages, longest_minimum, products);
#endif
    return plain::structured_kernel(n_stages, longest_minimum, products);
}

ArgmaxKernel argmax_kernel(int n_stages) {
#if defined(STAGEGUARD_HAS_AVX2)
    if (has_avx2()) return avx2::argmax_kernel(n_stages);
#endif
    return plain::argmax_kernel(n_stages);
}

// (labels, switches, bad)
nb::tuple argmax(const nb::list& pieces, const Tables& weight, int n_threads) {
    const Batch batch(pieces);
    const ArgmaxKernel kernel = argmax_kernel(static_cast<int>(batch.n_stages));
    if (!kernel) throw std::invalid_argument("2 to 8 stages expected");
    auto* labels = new std::int8_t[static_cast<std::size_t>(batch.n_labels)];
    nb::object owner = nb::cast(owned(labels, static_cast<std::size_t>(batch.n_labels)));
    const auto choices = spread<Choice>(batch, n_threads, labels, [&] {
        return [&](std::size_t i, const Piece& p, std::int8_t* out) {
            return kernel(p.evidence, p.n_epochs, weight.data() + i * static_cast<std::size_t>(batch.n_stages), out);
        };
    });
    return nb::make_tuple(owner, column<std::int64_t>(choices, [](const Choice& c) { return c.switches; }),
                          column<bool>(choices, [](const Choice& c) { return c.bad_rows; }));
}

// `weight` has a row per piece; `stay` and `change` have a row per table, and `table` says which one a piece uses.
struct RuleTables {
    const Tables &weight, &stay, &change;
    const Indices &minimum, &table;
    bool censored;

    BoutRules operator()(std::size_t piece) const {
        const std::size_t i = static_cast<std::size_t>(table.data()[piece]), k = stay.shape(1);
        return {weight.data() + piece * k, stay.data() + i * k, change.data() + i * k * k, minimum.data(), censored};
    }
};

nb::tuple structured(const nb::list& pieces, bool products, const Indices& table, const Tables& weight, const Tables& stay,
                     const Tables& change, const Indices& minimum, bool censored, int n_threads) {
    const Batch batch(pieces);
    const RuleTables rules{weight, stay, change, minimum, table, censored};
    int longest = 1;
    for (std::size_t s = 0; s < minimum.shape(0); ++s) longest = std::max(longest, static_cast<int>(minimum.data()[s]));
    const StructuredKernel kernel = structured_kernel(static_cast<int>(batch.n_stages), longest, products);
    if (!kernel) throw std::invalid_argument("2 to 8 stages and minimum bouts of 1 to 8 epochs expected");
    return decode(batch, n_threads, [&] {
        return [&](std::size_t i, const Piece& p, std::int8_t* labels) {
            return kernel(rules(i), workspace(), p.evidence, p.n_epochs, labels);
        };
    });
}

nb::tuple greedy(const nb::list& pieces, const Indices& table, const Tables& stay, const Tables& change,
                 const Indices& minimum, bool censored, double penalty_nats, int window_epochs, int n_threads) {
    const Batch batch(pieces);
    const RuleTables rules{stay, stay, change, minimum, table, censored};
    const FlipFlop flip_flop{penalty_nats, window_epochs};
    return with_stages(batch.n_stages, [&](auto k) {
        return decode(batch, n_threads, [&] {
            return [&](std::size_t i, const Piece& p, std::int8_t* labels) {
                const BoutRules own = rules(i);
                return Greedy<decltype(k)::value>(own, flip_flop).run(p.evidence, p.n_epochs, labels);
            };
        });
    });
}

// An automaton's tables: `weight`, `initial` and `final_weight` have a row per table, `table` says which one a piece uses.
struct AutomatonTables {
    const Indices &stage, &first, &source, &table;
    const Tables &weight, &initial, &final_weight;

    Automaton operator()(std::size_t piece, std::int64_t n_stages) const {
        const std::size_t i = static_cast<std::size_t>(table.data()[piece]);
        const std::size_t n_states = stage.shape(0), n_edges = source.shape(0);
        return {static_cast<std::int64_t>(n_states), n_stages, stage.data(), first.data(), source.data(),
                weight.data() + i * n_edges, initial.data() + i * n_states, final_weight.data() + i * n_states};
    }
};

nb::tuple automaton(const nb::list& pieces, const Indices& table, const Indices& stage, const Indices& first,
                    const Indices& source, const Tables& weight, const Tables& initial, const Tables& final_weight,
                    int n_threads) {
    const Batch batch(pieces);
    const AutomatonTables tables{stage, first, source, table, weight, initial, final_weight};
    return decode(batch, n_threads, [&] {
        return [&](std::size_t i, const Piece& p, std::int8_t* labels) {
            const Automaton a = tables(i, batch.n_stages);
            return AutomatonViterbi(a, workspace()).run(p.evidence, p.n_epochs, labels);
        };
    });
}

template <class T>
nb::object matrix(T* data, std::size_t n_rows, std::size_t n_columns) {
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<2>>(data, {n_rows, n_columns}, owner));
}

// (log_partition, marginals, edge_counts)
nb::tuple forward_backward(const nb::list& pieces, const Indices& table, const Indices& stage, const Indices& first,
                           const Indices& source, const Tables& weight, const Tables& initial, const Tables& final_weight,
                           bool want_edges, int n_threads) {
    const Batch batch(pieces);
    const AutomatonTables tables{stage, first, source, table, weight, initial, final_weight};
    const std::size_t n = batch.pieces.size(), n_edges = source.shape(0), k = static_cast<std::size_t>(batch.n_stages);
    const auto n_rows = static_cast<std::size_t>(batch.n_labels);
    auto* marginals = new double[n_rows * k];
    nb::object marginals_owner = matrix(marginals, n_rows, k);
    auto* counts = new double[n * n_edges]();
    nb::object counts_owner = matrix(counts, n, n_edges);
    const auto sums = spread<double>(batch, n_threads, nullptr, [&] {
        return [&](std::size_t i, const Piece& p, std::int8_t*) {
            const Automaton a = tables(i, batch.n_stages);
            double* own = marginals + static_cast<std::size_t>(p.offset) * k;
            return ForwardBackward(a, workspace(), own, want_edges ? counts + i * n_edges : nullptr).run(p.evidence, p.n_epochs);
        };
    });
    return nb::make_tuple(column<double>(sums, [](double sum) { return sum; }), marginals_owner, counts_owner);
}

}  // namespace
}  // namespace stageguard

NB_MODULE(_native, m) {
    using namespace stageguard;
    m.attr("NAME") = "compiled";
    m.attr("LONGEST_MINIMUM") = kLongestMinimum;
    m.attr("MOST_STAGES") = kMostStages;
    m.attr("SIMD") = has_avx2() ? "AVX2" : "none";
    m.def("argmax", &argmax, "pieces"_a, "weight"_a, "n_threads"_a);
    m.def("structured", &structured, "pieces"_a, "products"_a, "table"_a, "weight"_a, "stay"_a, "change"_a, "minimum"_a,
          "censored"_a, "n_threads"_a);
    m.def("greedy", &greedy, "pieces"_a, "table"_a, "stay"_a, "change"_a, "minimum"_a, "censored"_a, "penalty_nats"_a,
          "window_epochs"_a, "n_threads"_a);
    m.def("forward_backward", &forward_backward, "pieces"_a, "table"_a, "stage"_a, "first"_a, "source"_a, "weight"_a,
          "initial"_a, "final_weight"_a, "want_edges"_a, "n_threads"_a);
    m.def("automaton", &automaton, "pieces"_a, "table"_a, "stage"_a, "first"_a, "source"_a, "weight"_a, "initial"_a,
          "final_weight"_a, "n_threads"_a);
}
