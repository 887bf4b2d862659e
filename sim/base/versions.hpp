#pragma once

#include <string>

// Versions of engines as their builds state them: "0.5.6.post2", "1.3.0rc20", "2026-05".

/// How far two versions lie apart: the first number that differs decides. 0 when equal.
double version_distance(const std::string& a, const std::string& b);

/// Whether a version comes before another; false for one without numbers. A date is later than any
/// release number.
bool older(const std::string& version, const std::string& than);
