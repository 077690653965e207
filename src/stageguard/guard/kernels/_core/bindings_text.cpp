// Numbers of a text, read to the last bit as Python reads them.
#include <charconv>
#include <cmath>
#include <memory>
#include <system_error>

#include "bindings.hpp"

namespace stageguard {
namespace {

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
        const std::from_chars_result read = std::from_chars(text, text + length, values[i]);
        if (read.ec != std::errc() || read.ptr != text + length || !std::isfinite(values[i])) return nb::none();
    }
    return nb::cast(owned(values.release(), n));
#else
    return nb::none();
#endif
}

}  // namespace

void bind_text(nb::module_& m) {
    using namespace nb::literals;
    m.def("read_numbers", &read_numbers, "cells"_a);
}

}  // namespace stageguard
