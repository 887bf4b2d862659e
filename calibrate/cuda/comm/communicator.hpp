#pragma once

#include <nccl.h>

#include <cuda_runtime_api.h>

/// Throws GpuError with `what` and NCCL's own words.
void must(ncclResult_t code, const char* what);

/// The ranks that this process has joined.
struct Communicator {
  ncclComm_t comm = nullptr;  // null: it has joined none
  int rank = 0, ranks = 1;
};
const Communicator& communicator();

/// Ranks meet on the stream: a sum of one number. Nothing where no ranks were joined.
void meet(cudaStream_t stream);
