// The kernels for any processor.
#define STAGEGUARD_VARIANT plain
#include "kernels.hpp"
#include "sum_kernels.hpp"

namespace stageguard {
namespace plain {

// Logarithms and exponentials take nearly all the time here, so that one variant is enough.
SmoothKernel smooth_logarithms_kernel(int n_stages, int longest) {
    return sum_kernel<ByLogarithms, SmoothKernel>(n_stages, longest);
}
DrawKernel draw_logarithms_kernel(int n_stages, int longest) {
    return sum_kernel<ByLogarithms, DrawKernel>(n_stages, longest);
}

}  // namespace plain
}  // namespace stageguard
