#include "draws.hpp"

#include "random.hpp"

namespace stageguard {
namespace {

// The state of the last epoch: stage by stage, the oldest bout first. Age 0 is mature.
template <int K>
void draw_last(const BoutSums& sums, double aim, int& stage, int& age) {
    double reached = 0.0;
    for (int s = 0; s < K; ++s)
        for (int i = 0; i <= sums.rules.minimum[s] - 1; ++i) {
            const double chance = sums.last[s * sums.most_ages + i] * (1.0 / sums.total);
            if (!(chance > 0.0)) continue;
            stage = s;
            age = i == 0 ? 0 : sums.rules.minimum[s] - i;
            reached += chance;
            if (aim < reached) return;
        }
}

// The stage left by a bout of s that begins after the epoch with these scores.
template <int K>
int draw_origin(const BoutSums& sums, const double* v, int s, double u) {
    double ways[K], total = 0.0, reached = 0.0;
    for (int r = 0; r < K; ++r) total += ways[r] = v[r] * sums.change[r * K + s];
    const double aim = u * total;
    int from = s == 0 ? 1 : 0;
    for (int r = 0; r < K; ++r) {
        if (!(ways[r] > 0.0)) continue;
        from = r;
        reached += ways[r];
        if (aim < reached) break;
    }
    return from;
}

template <int K>
void draw_path(const BoutSums& sums, std::int64_t n_epochs, Uniforms uniforms, std::int8_t* labels) {
    const double *mature = sums.mature, *stays = sums.stays;
    const std::int64_t stride = sums.stride;
    int s = 0, age = 0;
    draw_last<K>(sums, uniforms.next(), s, age);
    std::int64_t t = n_epochs - 1;
    if (age > 0) {
        const std::int64_t start = n_epochs - age;
        for (; t >= start; --t) labels[t] = static_cast<std::int8_t>(s);
        if (start == 0) return;
        s = draw_origin<K>(sums, mature + t * stride, s, uniforms.next());
    }
    for (;;) {
        // One number decides how far back a mature bout reaches: it goes on while the chance of that lies above it.
        const double u = uniforms.next();
        double chance = 1.0;
        for (; t > 0; --t) {
            chance *= stays[t * stride + s];
            if (!(u < chance)) break;
            labels[t] = static_cast<std::int8_t>(s);
        }
        const std::int64_t start = t > 0 ? t - sums.rules.minimum[s] + 1 : 0;
        for (; t >= start; --t) labels[t] = static_cast<std::int8_t>(s);
        if (start <= 0) return;
        s = draw_origin<K>(sums, mature + t * stride, s, uniforms.next());
    }
}

}  // namespace

void draw_bouts(const BoutSums& sums, std::int64_t n_epochs, const std::uint64_t* streams, std::int64_t n_draws, std::int8_t* labels) {
    using Draw = void (*)(const BoutSums&, std::int64_t, Uniforms, std::int8_t*);
    constexpr Draw by_states[] = {draw_path<2>, draw_path<3>, draw_path<4>, draw_path<5>, draw_path<6>};
    static_assert(kMostStates == 6);
    const Draw draw = by_states[sums.n_stages - 2];
    for (std::int64_t i = 0; i < n_draws; ++i) draw(sums, n_epochs, Uniforms(streams[i]), labels + i * n_epochs);
}

void draw_epochs(Workspace& work, const double* evidence, std::int64_t n_epochs, std::int64_t n_stages,
                 const std::uint64_t* streams, std::int64_t n_draws, std::int8_t* labels) {
    const std::int64_t k = n_stages - 1;
    double* reached = work.scores.need(n_epochs * k);  // (T, K - 1) chance of this stage or an earlier one
    for (std::int64_t t = 0; t < n_epochs; ++t) {
        const double* row = evidence + t * n_stages;
        double total = 0.0;
        for (std::int64_t s = 0; s < n_stages; ++s) total += row[s];
        double sum = 0.0;
        for (std::int64_t s = 0; s < k; ++s) reached[t * k + s] = (sum += row[s]) / total;
    }
    for (std::int64_t i = 0; i < n_draws; ++i) {
        Uniforms uniforms(streams[i]);
        for (std::int64_t t = 0; t < n_epochs; ++t) {
            const double u = uniforms.next();
            int stage = 0;
            for (std::int64_t s = 0; s < k; ++s) stage += u >= reached[t * k + s];
            labels[i * n_epochs + t] = static_cast<std::int8_t>(stage);
        }
    }
}

}  // namespace stageguard
