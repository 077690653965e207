// What the bindings share: arrays in, arrays out, work spread over threads with the interpreter lock released.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "automaton.hpp"
#include "rules.hpp"
#include "threads.hpp"

namespace nb = nanobind;

namespace stageguard {

using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Indices = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Labels = nb::ndarray<const std::int8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Spans = std::vector<std::pair<std::int64_t, std::int64_t>>;  // [first, end) of each stretch that is decoded by itself

constexpr const char* kStructured = "2 to 5 stages (6 states for sums) and minimum bouts of 1 to 8 epochs expected";

template <class T>
nb::object owned(T* data, std::size_t n) {
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {n}, owner));
}

template <class T>
nb::object matrix(T* data, std::size_t n_rows, std::size_t n_columns) {
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<2>>(data, {n_rows, n_columns}, owner));
}

// As `for_each_item`, without the interpreter lock.
inline void spread_items(std::size_t n, int n_threads, const std::function<void(std::size_t)>& run) {
    nb::gil_scoped_release release;
    for_each_item(n, n_threads, run);
}

inline std::int64_t n_epochs_of(const Matrix& rows) { return static_cast<std::int64_t>(rows.shape(0)); }
inline int n_stages_of(const Matrix& rows) { return static_cast<int>(rows.shape(1)); }

// Rules of minimum bouts; `stay` and `change` have a row per transition weight.
struct BoutTables {
    const Vector& weight;  // (K,)
    const Matrix &stay, &change;  // (n, K), (n, K * K)
    const Indices& minimum;  // (K,)
    bool censored;

    void check(const Matrix& rows, const std::optional<Matrix>& clock = {}) const {
        const std::size_t k = rows.shape(1), n = stay.shape(0);
        const bool fits = weight.shape(0) == k && stay.shape(1) == k && change.shape(0) == n && change.shape(1) == k * k && minimum.shape(0) == k;
        if (!fits || n == 0) throw std::invalid_argument("tables for the stages of the night expected");
        if (rows.shape(0) == 0) throw std::invalid_argument("a night has no epochs");
        if (clock && (clock->shape(0) > rows.shape(0) || clock->shape(1) != k)) throw std::invalid_argument("a clock is no longer than its night");
    }
    int longest() const { return *std::max_element(minimum.data(), minimum.data() + minimum.shape(0)); }

    BoutRules operator()(std::size_t row) const {
        const std::size_t k = stay.shape(1);
        return {weight.data(), stay.data() + row * k, change.data() + row * k * k, minimum.data(), censored, static_cast<int>(k)};
    }

    // The same for a stretch of n epochs from `first` on, with what the clock says of them.
    BoutRules timed(std::size_t row, const std::optional<Matrix>& clock, std::int64_t first, std::int64_t n) const {
        BoutRules rules = (*this)(row);
        if (clock) rules.n_timed = std::clamp<std::int64_t>(n_epochs_of(*clock) - first, 0, n);
        if (rules.n_timed > 0) rules.clock = clock->data() + first * rules.n_stages;
        return rules;
    }
};

// The arrays of an automaton.
struct AutomatonTables {
    const Indices &stage, &first, &source;
    const Vector &weight, &initial, &final_weight;

    Automaton operator()(const Matrix& rows) const {
        if (rows.shape(0) == 0) throw std::invalid_argument("a night has no epochs");
        return {static_cast<std::int64_t>(stage.shape(0)), static_cast<std::int64_t>(rows.shape(1)), stage.data(), first.data(), source.data(),
                weight.data(), initial.data(), final_weight.data()};
    }
};

// Further bindings, each in a file of its own.
void bind_sums(nb::module_& m);
void bind_text(nb::module_& m);

}  // namespace stageguard
