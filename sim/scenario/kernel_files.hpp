#pragma once

#include <memory>

#include "models/cost/kernel_tables.hpp"

/// The GPU of a file in hardware/gpus, by its name or an alias.
Expected<GpuSpec> load_gpu_file(const std::string& name);

/// The tables of one GPU (hardware/tables/<tables_of>/*.table), or only those of some classes, made
/// ready for `gpu`. A GPU without tables gets none, which is no error; a damaged file is.
Expected<KernelTables> load_kernel_tables(const GpuSpec& gpu, const std::string& tables_of,
                                          const std::vector<std::string>& classes = {});

/// Adds the tables in a folder (*.table), or only those of some classes, made ready for `gpu`. What
/// is damaged is told and left out.
Diagnostics add_table_folder(KernelTables& tables, const std::string& folder, const GpuSpec& gpu,
                             const std::vector<std::string>& classes = {});

/// The tables of these classes (measured on the card `tables_of`, prepared for `gpu`) and those of
/// a folder of the box itself ("": none), read once and shared by all experiments of the process.
Expected<std::shared_ptr<const KernelTables>> shared_kernel_tables(
    const GpuSpec& gpu, const std::string& tables_of, const std::vector<std::string>& classes,
    const std::string& box_folder = {});
