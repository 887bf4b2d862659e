#pragma once

#include <string>

/// Has NCCL write the box as it sees it to `file`: an XML that `ceiling import topology` reads, and
/// in it what a guest does not show elsewhere (the way between two GPUs that NCCL believes in).
/// Starts a rank on each of `gpus` GPUs, as a server does, which takes seconds. Returns why there
/// is no file,
/// "" when there is; a file that was there is replaced whole or left alone.
std::string dump_nccl_topology(int gpus, const std::string& file);
