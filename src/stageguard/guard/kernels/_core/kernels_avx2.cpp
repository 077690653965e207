// The kernels for processors with AVX2; this file alone is compiled for it.
#define STAGEGUARD_VARIANT avx2
#include "kernels.hpp"
#include "sum_kernels.hpp"
