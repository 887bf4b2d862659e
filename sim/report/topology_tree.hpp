#pragma once

#include <string>
#include <vector>

#include "hardware/topology/topology.hpp"

/// The graph of a box as text: a tree from its sockets down to the GPUs, equal devices side by side
/// in one line, then the links that lead across it.
std::string render_tree(const Topology& topology);

/// The parts that the host's own links hold together: sockets, as the graph has them.
int socket_count(const Topology& topology);

/// "gpu0..3, gpu6": runs of numbers of one name, in the order given.
std::string name_ranges(const std::vector<std::string>& names);

/// "Gen5 x16"; empty when the operating system reports nothing.
std::string reported(const Link& link);

/// "assumed, x or / 1.4": what a link's bandwidth rests on.
std::string rests_on(Provenance basis, double spread);
