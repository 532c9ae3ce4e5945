# The CUDA compiler and what it compiles for; included only where the kernels are wanted.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_package(CUDAToolkit 12 QUIET)
  if(NOT CUDAToolkit_NVCC_EXECUTABLE)
    message(FATAL_ERROR "STRATA_CUDA=ON needs the CUDA toolkit, 12 or later, and none was found: "
                        "name its nvcc with -DCMAKE_CUDA_COMPILER=… or CUDACXX, or configure with "
                        "-DSTRATA_CUDA=OFF")
  endif()
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
endif()
# Code for A100 and H100 or H200, and PTX that the driver compiles for what came later.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
endif()
enable_language(CUDA)
find_package(CUDAToolkit 12 REQUIRED)
set(CMAKE_CUDA_STANDARD 17)  # the newest that CMake 3.25 knows of nvcc
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
if(STRATA_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${STRATA_CCACHE})
endif()
