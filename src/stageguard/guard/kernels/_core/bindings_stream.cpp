// Python binding of the stream: one row in, the labels given out.
#include "bindings.hpp"
#include "stream.hpp"

using namespace nb::literals;

namespace stageguard {
namespace {

using Starts = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T, class Array>
std::vector<T> copied(const Array& array) {
    return std::vector<T>(array.data(), array.data() + array.shape(0));
}

template <class T>
nb::object array_of(const std::vector<T>& values) {
    auto* data = new T[values.size()];
    std::copy(values.begin(), values.end(), data);
    return nb::cast(owned(data, values.size()));
}

// What was given out, as a tuple of labels (-1 unscored); where a row was not taken, why: 1 bad row, 2 no path.
nb::object answer(const Stream& stream, Pushed pushed) {
    if (pushed != Pushed::kTaken) return nb::int_(static_cast<int>(pushed));
    const auto& labels = stream.given_out();
    nb::list list;
    for (std::int8_t label : labels) list.append(nb::int_(static_cast<int>(label)));
    return nb::tuple(list);
}

nb::object push(Stream& stream, const Vector& row, double quality) {
    if (row.shape(0) != stream.n_stages()) return nb::int_(static_cast<int>(Pushed::kBadRow));
    return answer(stream, stream.push(row.data(), quality));
}

nb::object finish(Stream& stream) { return answer(stream, stream.finish()); }

// (counts, scores, bout of each state, and the bouts' parents, stages and starts)
nb::tuple state(const Stream& stream) {
    const StreamState s = stream.state();
    std::vector<std::int32_t> parent, stage;
    std::vector<std::int64_t> start;
    for (const Bout& bout : s.bouts) {
        parent.push_back(bout.parent);
        stage.push_back(bout.stage);
        start.push_back(bout.start);
    }
    const std::vector<std::int64_t> counts{s.n_epochs, s.n_committed, s.n_missing, s.n_missing_run, s.is_running};
    return nb::make_tuple(array_of(counts), array_of(s.scores), array_of(s.own), array_of(parent), array_of(stage),
                          array_of(start));
}

void restore(Stream& stream, const Starts& counts, const Vector& scores, const Indices& own, const Indices& parent,
             const Indices& stage, const Starts& start) {
    StreamState s;
    const std::int64_t* c = counts.data();
    s.n_epochs = c[0], s.n_committed = c[1], s.n_missing = c[2], s.n_missing_run = c[3], s.is_running = c[4] != 0;
    s.scores = copied<double>(scores);
    s.own = copied<std::int32_t>(own);
    for (std::size_t i = 0; i < parent.shape(0); ++i)
        s.bouts.push_back({start.data()[i], stage.data()[i], parent.data()[i], kNobody, 0, 0, 0});
    stream.restore(std::move(s));
}

}  // namespace

void bind_stream(nb::module_& m) {
    nb::class_<Stream>(m, "Stream")
        .def("__init__",
             [](Stream* self, const Indices& stage, const Indices& first, const Indices& source, const Vector& weight,
                const Vector& initial, const Vector& final_weight, double clip, double sum_tolerance, double rounding,
                double temperature, const Vector& biases, const Vector& added, std::int64_t max_lag,
                std::int64_t most_bridged) {
                 new (self) Stream({copied<std::int32_t>(stage), copied<std::int32_t>(first), copied<std::int32_t>(source),
                                    copied<double>(weight), copied<double>(initial), copied<double>(final_weight)},
                                   {clip, sum_tolerance, rounding, temperature, copied<double>(biases), copied<double>(added)},
                                   max_lag, most_bridged);
             },
             "stage"_a, "first"_a, "source"_a, "weight"_a, "initial"_a, "final_weight"_a, "clip"_a, "sum_tolerance"_a,
             "rounding"_a, "temperature"_a, "biases"_a, "added"_a, "max_lag"_a, "most_bridged"_a)
        .def("push", &push, "row"_a, "quality"_a)
        .def("finish", &finish)
        .def("state", &state)
        .def("restore", &restore, "counts"_a, "scores"_a, "own"_a, "parent"_a, "stage"_a, "start"_a)
        .def_prop_ro("n_epochs", [](const Stream& s) { return s.counts().n_epochs; })
        .def_prop_ro("n_committed", [](const Stream& s) { return s.counts().n_committed; })
        .def_prop_ro("n_kept", [](const Stream& s) { return s.capacity(); });  // bouts there is memory for
}

}  // namespace stageguard
