#pragma once

/// For our own mistakes, never for a user's input. On in every build: a wrong number is worse than
/// a core dump.
#define SIM_ASSERT(condition) \
  (static_cast<bool>(condition) ? void() : ::assertion_failed(#condition, __FILE__, __LINE__))

/// Marks a place that no input can reach.
#define SIM_UNREACHABLE(why) ::assertion_failed(why, __FILE__, __LINE__)

[[noreturn]] void assertion_failed(const char* what, const char* file, int line);
