// A profile for people.
#pragma once

#include "plan/profile.h"

#include <string>

namespace tl::profile {

/// Several lines: the host, the data, the link, and for a model one line for each value at the end of
/// a measured segment: name, shape, bytes, milliseconds a record up to it, MFLOP a record up to it.
std::string table(const plan::Profile &profile);

} // namespace tl::profile
