# Every library comes from Debian; nothing is downloaded or vendored.
find_package(nlohmann_json 3.10 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(doctest 2.4 REQUIRED)
find_package(OpenCV 4.5 REQUIRED COMPONENTS core imgproc imgcodecs)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(valijson REQUIRED)
find_package(Torch 1.13 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

# LibTorch, with its headers as system headers: their warnings are not ours.
add_library(tl_torch INTERFACE)
target_include_directories(tl_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(tl_torch INTERFACE ${TORCH_LIBRARIES})
separate_arguments(tl_torch_flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
target_compile_options(tl_torch INTERFACE ${tl_torch_flags})
