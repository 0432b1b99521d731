#pragma once

namespace tl {

/// Lets the process keep freed memory for its next allocations. By default, glibc gives blocks of
/// many megabytes back to the system at once, and each layer of a network pays for fresh pages:
/// a third to a half of the time of MobileNetV2 at a batch of 32. Programs that run networks call it
/// once, first.
void keep_freed_memory();

/// Gives what was freed back to the system after all, at the price of fresh pages for the next allocations.
void give_back_freed_memory();

} // namespace tl
