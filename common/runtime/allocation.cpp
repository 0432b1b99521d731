#include "runtime/allocation.h"

#include <climits> // and with any header, whether this is glibc

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace tl {

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0); // large blocks from the heap, too
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

void give_back_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

} // namespace tl
