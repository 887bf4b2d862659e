#pragma once

#include <string>

#include "sim/base/registry.hpp"

/// Version of a library that a plug-in links, for the raw file:
/// `const Registered<LibraryVersion> me("cublaslt", [] { return ...; });`
using LibraryVersion = std::string (*)();
