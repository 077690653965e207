// Python bindings of what is summed over all paths: log-sums, marginals, edge counts, draws.
#include "bindings.hpp"
#include "draws.hpp"

using namespace nb::literals;

namespace stageguard {
namespace {

using Streams = nb::ndarray<const std::uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;  // (n_pieces, n_draws)

// The kernel, if there is one: what products cannot hold is summed over an automaton.
template <class Kernel>
Kernel for_products(Kernel kernel, bool products) {
    if (!kernel || !products) throw std::invalid_argument("products of 2 to 5 stages and minimum bouts of 1 to 8 epochs expected");
    return kernel;
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
    const auto sums = spread<Sum>(batch, n_threads, nullptr, [&](std::size_t i, const Piece& p, std::int8_t*) {
        return run(i, p, marginals + static_cast<std::size_t>(p.offset) * k);
    });
    return nb::make_tuple(log_sums(sums), owner, certified(sums));
}

nb::tuple smooth(const nb::list& pieces, bool products, double clip, const Indices& table, const Tables& weight,
                 const Tables& stay, const Tables& change, const Indices& minimum, bool censored, int n_threads) {
    const Batch batch(pieces);
    const RuleTables rules{weight, stay, change, minimum, table, censored, clip};
    const int k = static_cast<int>(batch.n_stages);
    const SmoothKernel kernel = for_products(picked(avx2::smooth_kernel, plain::smooth_kernel, k, rules.longest_minimum()), products);
    return smooth_with(batch, n_threads, [&](std::size_t i, const Piece& p, double* marginals) {
        return kernel(rules(i), workspace(), p.evidence, p.n_epochs, marginals);
    });
}

nb::tuple smooth_states(const nb::list& pieces, bool products, const Indices& table, const Indices& stage,
                           const Indices& first, const Indices& source, const Tables& weight, const Tables& initial,
                           const Tables& final_weight, int n_threads) {
    const Batch batch(pieces);
    const AutomatonTables tables{stage, first, source, table, weight, initial, final_weight};
    return smooth_with(batch, n_threads, [&](std::size_t i, const Piece& p, double* marginals) {
        return smooth_automaton(tables(i, batch.n_stages), workspace(), products, p.evidence, p.n_epochs, marginals, nullptr);
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
        double* own = want_edges ? counts + i * n_edges : nullptr;
        return smooth_automaton(tables(i, batch.n_stages), workspace(), true, p.evidence, p.n_epochs, marginals, own);
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
    std::vector<Sum> found(shares.size());
    spread_items(shares.size(), n_threads, [&](std::size_t item) {
        const Share& share = shares[item];
        const Piece& p = batch.pieces[share.piece];
        const std::uint64_t* own = streams.data() + static_cast<std::int64_t>(share.piece) * n_draws + share.first;
        found[item] = run(share.piece, p, own, share.n_draws, labels + n_draws * p.offset + share.first * p.n_epochs);
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
    const int k = static_cast<int>(batch.n_stages);
    const DrawKernel kernel = for_products(picked(avx2::draw_kernel, plain::draw_kernel, k, rules.longest_minimum()), products);
    return draw_with(batch, streams, n_threads,
                     [&](std::size_t i, const Piece& p, const std::uint64_t* own, std::int64_t n_draws, std::int8_t* labels) {
                         return kernel(rules(i), workspace(), p.evidence, p.n_epochs, own, n_draws, labels);
                     });
}

nb::tuple draw_states(const nb::list& pieces, bool products, const Indices& table, const Indices& stage,
                         const Indices& first, const Indices& source, const Tables& weight, const Tables& initial,
                         const Tables& final_weight, const Streams& streams, int n_threads) {
    const Batch batch(pieces);
    const AutomatonTables tables{stage, first, source, table, weight, initial, final_weight};
    return draw_with(batch, streams, n_threads,
                     [&](std::size_t i, const Piece& p, const std::uint64_t* own, std::int64_t n_draws, std::int8_t* labels) {
                         return draw_automaton(tables(i, batch.n_stages), workspace(), products, p.evidence,
                                                           p.n_epochs, own, n_draws, labels);
                     });
}

nb::object draw_each(const nb::list& pieces, const Streams& streams, int n_threads) {
    const Batch batch(pieces);
    return draw_with(batch, streams, n_threads,
                     [&](std::size_t, const Piece& p, const std::uint64_t* own, std::int64_t n_draws, std::int8_t* labels) {
                         draw_epochs(workspace(), p.evidence, p.n_epochs, batch.n_stages, own, n_draws, labels);
                         return Sum{0.0, true};
                     })[0];
}

}  // namespace

void bind_sums(nb::module_& m) {
    m.def("smooth", &smooth, "pieces"_a, "products"_a, "clip"_a, "table"_a, "weight"_a, "stay"_a, "change"_a, "minimum"_a,
          "censored"_a, "n_threads"_a);
    m.def("smooth_automaton", &smooth_states, "pieces"_a, "products"_a, "table"_a, "stage"_a, "first"_a, "source"_a,
          "weight"_a, "initial"_a, "final_weight"_a, "n_threads"_a);
    m.def("forward_backward", &forward_backward, "pieces"_a, "table"_a, "stage"_a, "first"_a, "source"_a, "weight"_a,
          "initial"_a, "final_weight"_a, "want_edges"_a, "n_threads"_a);
    m.def("draw", &draw, "pieces"_a, "products"_a, "clip"_a, "table"_a, "weight"_a, "stay"_a, "change"_a, "minimum"_a,
          "censored"_a, "streams"_a, "n_threads"_a);
    m.def("draw_automaton", &draw_states, "pieces"_a, "products"_a, "table"_a, "stage"_a, "first"_a, "source"_a,
          "weight"_a, "initial"_a, "final_weight"_a, "streams"_a, "n_threads"_a);
    m.def("draw_each", &draw_each, "pieces"_a, "streams"_a, "n_threads"_a);
}

}  // namespace stageguard
