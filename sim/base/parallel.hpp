#pragma once

#include <cstddef>
#include <functional>

/// How many threads parallel_for() may use: the environment variable CEILING_THREADS where it is a
/// positive number, else as many as the machine runs at once (of those this process may use).
std::size_t thread_count();

/// Calls work(0) to work(n - 1), each once, on up to thread_count() threads, this one among them,
/// in no order. Returns when all have ended. What the calls share they must not change, or guard.
/// If some throw, the rest are still called, and the exception of the lowest number is thrown on.
void parallel_for(std::size_t n, const std::function<void(std::size_t)>& work);
