// How fast this machine is, as far as this process may use it.
#pragma once

#include "plan/profile.h"

namespace tl::profile {

/// Measures matrix products (f32, and bf16 through LibTorch), copies of memory, and what streams of features
/// cost; takes about 2 s.
/// `threads` 0: all cores.
plan::HostProfile measure_host(int threads = 0);

/// A warning for people when the BLAS is a slow one, else "".
std::string blas_warning(const plan::HostProfile &host);

} // namespace tl::profile
