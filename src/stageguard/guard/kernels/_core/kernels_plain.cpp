// The kernels for any processor.
#define STAGEGUARD_VARIANT plain
#include "kernels.hpp"
#include "sum_kernels.hpp"
