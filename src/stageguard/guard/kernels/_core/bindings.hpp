// What the bindings share: pieces in, arrays out, pieces spread over threads.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "automaton.hpp"
#include "rules.hpp"
#include "threads.hpp"

namespace nb = nanobind;

namespace stageguard {

using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Room = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
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

// Where pieces are copied to before they are read, so that whoever owns them may change them; an empty list is nowhere.
struct Copies {
    std::vector<double*> rooms;

    Copies(const nb::list& list, const Batch& batch) {
        if (list.size() != 0 && list.size() != batch.pieces.size()) throw std::invalid_argument("room for each piece, or None, expected");
        rooms.reserve(list.size());
        for (nb::handle item : list) {
            if (item.is_none()) {
                rooms.push_back(nullptr);
                continue;
            }
            const Room room = nb::cast<Room>(item);  // whose owner is the list
            const bool fits = static_cast<std::int64_t>(room.shape(0)) == batch.pieces[rooms.size()].n_epochs;
            if (!fits || static_cast<std::int64_t>(room.shape(1)) != batch.n_stages) throw std::invalid_argument("room of the piece's shape expected");
            rooms.push_back(room.data());
        }
    }

    // Copies a piece, if it has a room, and returns where it is to be read.
    const double* settle(const Batch& batch, std::size_t piece) const {
        const Piece& own = batch.pieces[piece];
        if (rooms.empty() || !rooms[piece]) return own.evidence;
        std::memcpy(rooms[piece], own.evidence, static_cast<std::size_t>(own.n_epochs * batch.n_stages) * sizeof(double));
        return rooms[piece];
    }
};

// What the clock says of the first epochs of each piece; an empty list is no clock.
struct Clocks {
    std::vector<Matrix> owners;

    Clocks(const nb::list& list, const Batch& batch) {
        if (list.size() != 0 && list.size() != batch.pieces.size()) throw std::invalid_argument("a clock per piece expected");
        owners.reserve(list.size());
        for (nb::handle item : list) {
            owners.push_back(nb::cast<Matrix>(item));
            const Matrix& m = owners.back();
            const bool fits = static_cast<std::int64_t>(m.shape(0)) <= batch.pieces[owners.size() - 1].n_epochs;
            if (!fits || static_cast<std::int64_t>(m.shape(1)) != batch.n_stages) throw std::invalid_argument("a clock is no longer than its piece");
        }
    }
    const double* rows(std::size_t piece) const { return owners.empty() ? nullptr : owners[piece].data(); }
    std::int64_t n_rows(std::size_t piece) const { return owners.empty() ? 0 : static_cast<std::int64_t>(owners[piece].shape(0)); }
};

template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> owned(T* data, std::size_t n) {
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {n}, owner);
}

// Labels that nobody writes to once they are handed out; `owner` keeps them alive.
inline nb::object frozen(const std::int8_t* labels, std::int64_t n, const nb::object& owner) {
    return nb::cast(nb::ndarray<nb::numpy, const std::int8_t, nb::ndim<1>>(labels, {static_cast<std::size_t>(n)}, owner));
}

// As `for_each_item`, without the interpreter lock.
inline void spread_items(std::size_t n, int n_threads, const std::function<void(std::size_t)>& run) {
    nb::gil_scoped_release release;
    for_each_item(n, n_threads, run);
}

// The same over pieces, each with its part of the labels; returns what `run(i, piece, labels)` gave for each.
template <class Result, class Run>
std::vector<Result> spread(const Batch& batch, int n_threads, std::int8_t* labels, Run run) {
    std::vector<Result> results(batch.pieces.size());
    spread_items(results.size(), n_threads, [&](std::size_t i) {
        const Piece& piece = batch.pieces[i];
        results[i] = run(i, piece, labels ? labels + piece.offset : nullptr);
    });
    return results;
}

template <class T, class Result, class Field>
nb::object column(const std::vector<Result>& results, Field field) {
    auto* data = new T[results.size()];
    for (std::size_t i = 0; i < results.size(); ++i) data[i] = field(results[i]);
    return nb::cast(owned(data, results.size()));
}

// What is per piece, as a list: for one night an array would take longer to make than the night to decode.
template <class Result, class Field>
nb::list listed(const std::vector<Result>& results, Field field) {
    nb::list values;
    for (const Result& result : results) values.append(nb::cast(field(result)));
    return values;
}

// The row of a table that a piece uses; one row serves all.
template <class Table>
std::size_t row_of(const Table& table, std::size_t piece) {
    return table.shape(0) == 1 ? 0 : piece;
}

template <class T>
nb::object matrix(T* data, std::size_t n_rows, std::size_t n_columns) {
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<2>>(data, {n_rows, n_columns}, owner));
}

// `weight` has a row per piece, or one for all; `stay` and `change` have a row per table, and `table` says which one a piece uses.
struct RuleTables {
    const Tables &weight, &stay, &change;
    const Indices &minimum, &table;
    bool censored;
    double clip = 0.0;
    const Clocks* clocks = nullptr;

    BoutRules operator()(std::size_t piece) const {
        const std::size_t i = static_cast<std::size_t>(table.data()[row_of(table, piece)]), k = stay.shape(1);
        return {weight.data() + row_of(weight, piece) * k, stay.data() + i * k, change.data() + i * k * k, minimum.data(), censored, clip,
                clocks ? clocks->rows(piece) : nullptr, clocks ? clocks->n_rows(piece) : 0, static_cast<int>(k)};
    }
    int longest_minimum() const {
        int longest = 1;
        for (std::size_t s = 0; s < minimum.shape(0); ++s) longest = std::max(longest, static_cast<int>(minimum.data()[s]));
        return longest;
    }
};

// An automaton's tables: `weight`, `initial` and `final_weight` have a row per table, `table` says which one a piece uses.
struct AutomatonTables {
    const Indices &stage, &first, &source, &table;
    const Tables &weight, &initial, &final_weight;

    Automaton operator()(std::size_t piece, std::int64_t n_stages) const {
        const std::size_t i = static_cast<std::size_t>(table.data()[row_of(table, piece)]);
        const std::size_t n_states = stage.shape(0), n_edges = source.shape(0);
        return {static_cast<std::int64_t>(n_states), n_stages, stage.data(), first.data(), source.data(),
                weight.data() + i * n_edges, initial.data() + i * n_states, final_weight.data() + i * n_states};
    }
};

// Further bindings, each in a file of its own.
void bind_sums(nb::module_& m);
void bind_stream(nb::module_& m);
void bind_text(nb::module_& m);

}  // namespace stageguard
