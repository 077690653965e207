// The kernels for any processor.
#define STAGEGUARD_VARIANT plain
#include "kernels.hpp"
#include "sum_kernels.hpp"

namespace stageguard {
namespace plain {

// Logarithms and exponentials take nearly all the time here, so that one variant and one length are enough.
constexpr int kLength = kLongestMinimum;

SmoothKernel smooth_logarithms_kernel(int n_stages, int longest) {
    return for_stages<SmoothKernel>(longest <= kLength ? n_stages : 0, [](auto k) -> SmoothKernel {
        return run_smooth<k.value, kLength, Logarithmic, PlainPack<k.value>>;
    });
}
DrawKernel draw_logarithms_kernel(int n_stages, int longest) {
    return for_stages<DrawKernel>(longest <= kLength ? n_stages : 0, [](auto k) -> DrawKernel {
        return run_draw<k.value, kLength, Logarithmic, PlainPack<k.value>>;
    });
}

}  // namespace plain
}  // namespace stageguard
