// Numbers of a text, read to the last bit as Python reads them.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <system_error>

#include "bindings.hpp"

namespace stageguard {
namespace {

#if defined(__cpp_lib_to_chars)
// The end of the plain finite number that a text begins with, or null.
const char* read_number(const char* text, const char* end, double& value) {
    const std::from_chars_result read = std::from_chars(text, end, value);
    return read.ec == std::errc() && std::isfinite(value) ? read.ptr : nullptr;
}
#endif

// None where a cell is anything but a plain finite number, such as +1, inf, 1e999 or a word: Python reads those.
nb::object read_numbers(const nb::tuple& cells) {
#if defined(__cpp_lib_to_chars)
    const std::size_t n = cells.size();
    std::unique_ptr<double[]> values(new double[n]);
    for (std::size_t i = 0; i < n; ++i) {
        Py_ssize_t length = 0;
        const char* text = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(cells.ptr(), static_cast<Py_ssize_t>(i)), &length);
        if (!text) {  // no text, or one that UTF-8 has no letters for
            PyErr_Clear();
            return nb::none();
        }
        if (read_number(text, text + length, values[i]) != text + length) return nb::none();
    }
    return nb::cast(owned(values.release(), n));
#else
    return nb::none();
#endif
}

// The same of a whole table, whose rows all have `width` cells: (n_rows, width), or None.
nb::object read_rows(const nb::str& table, const nb::str& delimiter, std::size_t width) {
#if defined(__cpp_lib_to_chars)
    Py_ssize_t length = 0, marks = 0;
    const char* text = PyUnicode_AsUTF8AndSize(table.ptr(), &length);
    const char* mark = text ? PyUnicode_AsUTF8AndSize(delimiter.ptr(), &marks) : nullptr;
    if (!mark || marks != 1 || width == 0) {
        PyErr_Clear();
        return nb::none();
    }
    const char* const end = text + length;
    const auto n_rows = static_cast<std::size_t>(std::count(text, end, '\n')) + 1;
    // a cell takes a digit and a mark: no more memory is asked for than the text can fill
    if (n_rows > (static_cast<std::size_t>(length) + 1) / 2 / width) return nb::none();
    std::unique_ptr<double[]> values(new double[n_rows * width]);
    for (std::size_t i = 0; i < n_rows * width; ++i) {
        text = read_number(text, end, values[i]);
        if (!text) return nb::none();
        const bool is_last = i + 1 == n_rows * width;
        if (is_last != (text == end)) return nb::none();
        if (!is_last && *text++ != ((i + 1) % width ? *mark : '\n')) return nb::none();
    }
    return matrix(values.release(), n_rows, width);
#else
    return nb::none();
#endif
}

}  // namespace

void bind_text(nb::module_& m) {
    using namespace nb::literals;
    m.def("read_numbers", &read_numbers, "cells"_a);
    m.def("read_rows", &read_rows, "text"_a, "delimiter"_a, "width"_a);
}

}  // namespace stageguard
