#pragma once

#include <cuda_runtime_api.h>

/// A kernel of one thread that does nothing.
cudaError_t launch_empty(cudaStream_t stream);
