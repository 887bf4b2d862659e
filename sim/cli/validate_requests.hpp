#pragma once

#include "sim/cli/command.hpp"

/// `ceiling validate --requests LOG SCENARIO...`: predictions request by request against an
/// engine's own log, beside those of others that the log holds.
Exit validate_requests(const std::vector<Scenario>& scenarios, const std::string& log,
                       const std::string& format);
