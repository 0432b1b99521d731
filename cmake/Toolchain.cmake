# Compiler warnings, sanitizers and ccache: everything that is about how we compile.
find_package(Threads REQUIRED)

find_program(TL_CCACHE ccache)
if(TL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # A precompiled header defeats ccache unless it may ignore the header's time stamp.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${TL_CCACHE})
  add_compile_options(-fpch-preprocess)
endif()

add_library(tl_flags INTERFACE)
target_compile_options(tl_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
                       -Woverloaded-virtual -Wno-unknown-pragmas)
# Sources that are joined look like headers, of which GCC rightly expects no names of their own.
if(CMAKE_UNITY_BUILD)
  target_compile_options(tl_flags INTERFACE -Wno-subobject-linkage)
endif()
if(TL_WERROR)
  target_compile_options(tl_flags INTERFACE -Werror)
endif()
target_link_libraries(tl_flags INTERFACE Threads::Threads)

# The sanitizer's run time must be in every object and program, so it is set directory-wide. GCC's
# -Wmaybe-uninitialized does not understand instrumented code (std::regex). Instrumented code takes GCC more than
# twice as long at -O2 as at -O1.
if(TL_SANITIZE)
  add_compile_options(-fsanitize=${TL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1 -O1
                      -Wno-maybe-uninitialized)
  add_link_options(-fsanitize=${TL_SANITIZE})
endif()
