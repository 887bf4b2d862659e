#pragma once

#include "hardware/gpu.hpp"

/// Moves the laws of a measured GPU to one that was not: rates of memory and arithmetic by the
/// ratio of the two cards' own, times per unit of work by their clocks; start-up times stay. Every
/// law that was moved is marked assumed, with a spread of at least 1.25.
void scale_laws(Settings& laws, const GpuSpec& measured, const GpuSpec& gpu);
