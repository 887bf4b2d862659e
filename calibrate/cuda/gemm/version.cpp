#include <cublasLt.h>

#include "calibrate/cuda/harness/versions.hpp"

namespace {
const Registered<LibraryVersion> me("cublaslt",
                                    [] { return std::to_string(cublasLtGetVersion()); });
}
