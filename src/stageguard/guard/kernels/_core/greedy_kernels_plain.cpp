// The greedy pass for any processor.
#define STAGEGUARD_VARIANT plain
#include "greedy.hpp"
