// Python bindings of what is summed over all paths: log-sums, marginals, edge counts, draws.
#define STAGEGUARD_VARIANT plain  // compiled with the same flags as kernels_plain.cpp
#include "automaton_sums.hpp"
#include "bindings.hpp"

using namespace nb::literals;

namespace stageguard {
namespace {

using Streams = nb::ndarray<const std::uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;  // (n_pieces, n_draws)
constexpr const char* kRange = "2 to 8 stages and minimum bouts of 1 to 8 epochs expected";

SmoothKernel smooth_kernel(std::int64_t n_stages, int longest_minimum, bool products) {
    const int k = static_cast<int>(n_stages);
    return products ? picked(avx2::smooth_kernel, plain::smooth_kernel, k, longest_minimum) : plain::smooth_logarithms_kernel(k, longest_minimum);
}

DrawKernel draw_kernel(std::int64_t n_stages, int longest_minimum, bool products) {
    const int k = static_cast<int>(n_stages);
    return products ? picked(avx2::draw_kernel, plain::draw_kernel, k, longest_minimum) : plain::draw_logarithms_kernel(k, longest_minimum);
}

nb::object log_sums(const std::vector<Sum>& sums) {
    return column<double>(sums, [](const Sum& sum) { return sum.log_sum; });
}
nb::object certified(const std::vector<Sum>& sums) {
    return column<bool>(sums, [](const Sum& sum) { return sum.certified; });
}

// (log_sums, marginals, certified); `run(i, piece, marginals)` sums over the paths of one piece.
template <class Run>
nb::tuple smooth_with(const Batch& batch, int n_threads, Run run) {
    const auto n_rows = static_cast<std::size_t>(batch.n_labels), k = static_cast<std::size_t>(batch.n_stages);
    auto* marginals = new double[n_rows * k];
    nb::object owner = matrix(marginals, n_rows, k);
    const auto sums = spread<Sum>(batch, n_threads, nullptr, [&] {
        return [&](std::size_t i, const Piece& p, std::int8_t*) {
            return run(i, p, marginals + static_cast<std::size_t>(p.offset) * k);
        };
    });
    return nb::make_tuple(log_sums(sums), owner, certified(sums));
}

nb::tuple smooth(const nb::list& pieces, bool products, double clip, const Indices& table, const Tables& weight,
                 const Tables& stay, const Tables& change, const Indices& minimum, bool censored, int n_threads) {
    const Batch batch(pieces);
    const RuleTables rules{weight, stay, change, minimum, table, censored, clip};
    const SmoothKernel kernel = smooth_kernel(batch.n_stages, rules.longest_minimum(), products);
    if (!kernel) throw std::invalid_argument(kRange);
    return smooth_with(batch, n_threads, [&](std::size_t i, const Piece& p, double* marginals) {
        return kernel(rules(i), workspace(), p.evidence, p.n_epochs, marginals);
    });
}

template <class A>
Sum smooth_one(const Automaton& a, const Piece& p, double* marginals, double* edge_counts = nullptr) {
    return plain::AutomatonSums<A>(a, workspace()).smooth(p.evidence, p.n_epochs, marginals, edge_counts);
}

nb::tuple smooth_automaton(const nb::list& pieces, bool products, const Indices& table, const Indices& stage,
                           const Indices& first, const Indices& source, const Tables& weight, const Tables& initial,
                           const Tables& final_weight, int n_threads) {
    const Batch batch(pieces);
    const AutomatonTables tables{stage, first, source, table, weight, initial, final_weight};
    return smooth_with(batch, n_threads, [&](std::size_t i, const Piece& p, double* marginals) {
        const Automaton a = tables(i, batch.n_stages);
        return products ? smooth_one<plain::Product>(a, p, marginals) : smooth_one<plain::Logarithmic>(a, p, marginals);
    });
}

// (log_partition, marginals, edge_counts)
nb::tuple forward_backward(const nb::list& pieces, const Indices& table, const Indices& stage, const Indices& first,
                           const Indices& source, const Tables& weight, const Tables& initial, const Tables& final_weight,
                           bool want_edges, int n_threads) {
    const Batch batch(pieces);
    const AutomatonTables tables{stage, first, source, table, weight, initial, final_weight};
    const std::size_t n = batch.pieces.size(), n_edges = source.shape(0);
    auto* counts = new double[n * n_edges]();
    nb::object owner = matrix(counts, n, n_edges);
    const nb::tuple sums = smooth_with(batch, n_threads, [&](std::size_t i, const Piece& p, double* marginals) {
        const Automaton a = tables(i, batch.n_stages);
        return smooth_one<plain::Product>(a, p, marginals, want_edges ? counts + i * n_edges : nullptr);
    });
    return nb::make_tuple(sums[0], sums[1], owner);
}

// One piece's draws, or some of them.
struct Share {
    std::size_t piece;
    std::int64_t first, n_draws;
};

// (labels, log_sums, certified): a piece's labels are (n_draws, n_epochs), those of all pieces one after the other. With fewer
// pieces than threads the draws of a piece are shared out, each share summing over the paths once more.
template <class Run>
nb::tuple draw_with(const Batch& batch, const Streams& streams, int n_threads, Run run) {
    if (streams.shape(0) != batch.pieces.size()) throw std::invalid_argument("a row of streams per piece expected");
    const auto n_draws = static_cast<std::int64_t>(streams.shape(1));
    const std::size_t n_pieces = batch.pieces.size();
    const auto wanted = std::max<std::int64_t>(1, n_threads / static_cast<std::int64_t>(n_pieces));
    std::vector<Share> shares;
    for (std::size_t i = 0; i < n_pieces; ++i)
        for (std::int64_t j = 0; j < wanted; ++j) {
            const std::int64_t first = n_draws * j / wanted, end = n_draws * (j + 1) / wanted;
            if (first < end || j == 0) shares.push_back({i, first, end - first});
        }
    const auto n_labels = static_cast<std::size_t>(n_draws * batch.n_labels);
    auto* labels = new std::int8_t[n_labels];
    nb::object owner = nb::cast(owned(labels, n_labels));
    const auto found = spread_items<Sum>(shares.size(), n_threads, [&] {
        return [&](std::size_t item) {
            const Share& share = shares[item];
            const Piece& p = batch.pieces[share.piece];
            const std::uint64_t* own = streams.data() + static_cast<std::int64_t>(share.piece) * n_draws + share.first;
            return run(share.piece, p, own, share.n_draws, labels + n_draws * p.offset + share.first * p.n_epochs);
        };
    });
    std::vector<Sum> sums(n_pieces);
    for (std::size_t item = 0; item < shares.size(); ++item) sums[shares[item].piece] = found[item];
    return nb::make_tuple(owner, log_sums(sums), certified(sums));
}

nb::tuple draw(const nb::list& pieces, bool products, double clip, const Indices& table, const Tables& weight,
               const Tables& stay, const Tables& change, const Indices& minimum, bool censored, const Streams& streams,
               int n_threads) {
    const Batch batch(pieces);
    const RuleTables rules{weight, stay, change, minimum, table, censored, clip};
    const DrawKernel kernel = draw_kernel(batch.n_stages, rules.longest_minimum(), products);
    if (!kernel) throw std::invalid_argument(kRange);
    return draw_with(batch, streams, n_threads,
                     [&](std::size_t i, const Piece& p, const std::uint64_t* own, std::int64_t n_draws, std::int8_t* labels) {
                         return kernel(rules(i), workspace(), p.evidence, p.n_epochs, own, n_draws, labels);
                     });
}

nb::tuple draw_automaton(const nb::list& pieces, bool products, const Indices& table, const Indices& stage,
                         const Indices& first, const Indices& source, const Tables& weight, const Tables& initial,
                         const Tables& final_weight, const Streams& streams, int n_threads) {
    const Batch batch(pieces);
    const AutomatonTables tables{stage, first, source, table, weight, initial, final_weight};
    return draw_with(batch, streams, n_threads,
                     [&](std::size_t i, const Piece& p, const std::uint64_t* own, std::int64_t n_draws, std::int8_t* labels) {
                         const Automaton a = tables(i, batch.n_stages);
                         if (products)
                             return plain::AutomatonSums<plain::Product>(a, workspace())
                                 .draw(p.evidence, p.n_epochs, own, n_draws, labels);
                         return plain::AutomatonSums<plain::Logarithmic>(a, workspace())
                             .draw(p.evidence, p.n_epochs, own, n_draws, labels);
                     });
}

// Every epoch by itself, from likelihoods: one number an epoch, in order of time.
Sum draw_epochs(const Piece& p, std::int64_t n_stages, const std::uint64_t* streams, std::int64_t n_draws,
                std::int8_t* labels) {
    const std::int64_t k = n_stages - 1;
    double* reached = workspace().scores.need(p.n_epochs * k);  // (T, K - 1) chance of this stage or an earlier one
    for (std::int64_t t = 0; t < p.n_epochs; ++t) {
        const double* row = p.evidence + t * n_stages;
        double total = 0.0;
        for (std::int64_t s = 0; s < n_stages; ++s) total += row[s];
        double sum = 0.0;
        for (std::int64_t s = 0; s < k; ++s) reached[t * k + s] = (sum += row[s]) / total;
    }
    for (std::int64_t i = 0; i < n_draws; ++i) {
        plain::Uniforms uniforms(streams[i]);
        for (std::int64_t t = 0; t < p.n_epochs; ++t) {
            const double u = uniforms.next();
            int stage = 0;
            for (std::int64_t s = 0; s < k; ++s) stage += u >= reached[t * k + s];
            labels[i * p.n_epochs + t] = static_cast<std::int8_t>(stage);
        }
    }
    return {0.0, true};
}

nb::object draw_each(const nb::list& pieces, const Streams& streams, int n_threads) {
    const Batch batch(pieces);
    return draw_with(batch, streams, n_threads,
                     [&](std::size_t, const Piece& p, const std::uint64_t* own, std::int64_t n_draws, std::int8_t* labels) {
                         return draw_epochs(p, batch.n_stages, own, n_draws, labels);
                     })[0];
}

}  // namespace

void bind_sums(nb::module_& m) {
    m.def("smooth", &smooth, "pieces"_a, "products"_a, "clip"_a, "table"_a, "weight"_a, "stay"_a, "change"_a, "minimum"_a,
          "censored"_a, "n_threads"_a);
    m.def("smooth_automaton", &smooth_automaton, "pieces"_a, "products"_a, "table"_a, "stage"_a, "first"_a, "source"_a,
          "weight"_a, "initial"_a, "final_weight"_a, "n_threads"_a);
    m.def("forward_backward", &forward_backward, "pieces"_a, "table"_a, "stage"_a, "first"_a, "source"_a, "weight"_a,
          "initial"_a, "final_weight"_a, "want_edges"_a, "n_threads"_a);
    m.def("draw", &draw, "pieces"_a, "products"_a, "clip"_a, "table"_a, "weight"_a, "stay"_a, "change"_a, "minimum"_a,
          "censored"_a, "streams"_a, "n_threads"_a);
    m.def("draw_automaton", &draw_automaton, "pieces"_a, "products"_a, "table"_a, "stage"_a, "first"_a, "source"_a,
          "weight"_a, "initial"_a, "final_weight"_a, "streams"_a, "n_threads"_a);
    m.def("draw_each", &draw_each, "pieces"_a, "streams"_a, "n_threads"_a);
}

}  // namespace stageguard
