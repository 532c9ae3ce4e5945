# What a build may choose, and the flags that every target shares.
option(STRATA_TESTS "Build the tests" ON)
option(STRATA_BENCH "Build the benchmarks" OFF)
option(STRATA_TORCH "Build the libtorch adapter and `strata train`" ON)
option(STRATA_UCX "Build the UCX transport" ON)
option(STRATA_PRECOMPILE "Precompile the headers of libraries that most files include" ON)
option(STRATA_CUDA "Compile the CUDA kernels" OFF)
set(STRATA_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize= (address,undefined or thread)")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# A static layer hands its libraries on to whoever links it, in whatever folder.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)

# -ffp-contract=off: a fused multiply-add rounds once where two operations round twice, so the same
# source would give other bits on another compiler or target. See docs/decisions/0002-arithmetic.md.
set(STRATA_FLAGS -Wall -Wextra -Werror=return-type -Wno-missing-field-initializers
                 -ffp-contract=off -fno-math-errno)

if(STRATA_SANITIZE)
  list(APPEND STRATA_FLAGS -fsanitize=${STRATA_SANITIZE} -fno-omit-frame-pointer
              -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${STRATA_SANITIZE})
  add_compile_definitions(STRATA_SANITIZED=1)
endif()
add_compile_options("$<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:${STRATA_FLAGS}>")

find_program(STRATA_CCACHE ccache)
if(STRATA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without these ccache takes no file that uses a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros ${STRATA_CCACHE})
endif()
find_program(STRATA_MOLD mold)
if(STRATA_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
