// The greedy pass for processors with AVX2.
#define STAGEGUARD_VARIANT avx2
#include "greedy.hpp"
