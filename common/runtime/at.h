// Ids of values, nodes and candidates are int, with -1 for none; what they index is counted in std::size_t.
#pragma once

#include <cstddef>

namespace tl {

/// The place in a vector of the thing with this id.
constexpr std::size_t at(int id) { return static_cast<std::size_t>(id); }

} // namespace tl
