// Work spread over threads, and the memory that each thread works in.
#pragma once

#include <cstddef>
#include <functional>

#include "rules.hpp"

namespace stageguard {

Workspace& workspace();  // of this thread

// Runs `run(i)` for each of n items, on up to n_threads threads. Items share nothing, so the result does not depend on how they
// were spread. What `run` throws ends the other threads after the item in hand and is thrown again here, for an exception that
// leaves a thread ends the program.
void for_each_item(std::size_t n, int n_threads, const std::function<void(std::size_t)>& run);

}  // namespace stageguard
