#pragma once

#include <string_view>

/// The version of this build, as in CMakeLists.txt (the only place that states it).
std::string_view version();

/// Short commit hash of the sources, or "unknown" when built outside a checkout.
std::string_view git_commit();
