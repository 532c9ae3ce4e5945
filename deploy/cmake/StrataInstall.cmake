# What `cmake --install` puts where; consumed by find_package(strata). Proven by tests/install.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(STRATA_CMAKE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/strata)

install(TARGETS strata RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS strata_kernels strata_comm strata_scheduler strata_runtime EXPORT strata
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT strata NAMESPACE strata:: FILE strataTargets.cmake
        DESTINATION ${STRATA_CMAKE_FOLDER})
install(DIRECTORY kernels comm scheduler runtime DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/strata
        FILES_MATCHING PATTERN "*.h" PATTERN torch EXCLUDE PATTERN sim EXCLUDE
        PATTERN cuda EXCLUDE)

# Components of their own: who embeds only the runtime needs neither libtorch nor CUDA.
if(STRATA_TORCH)
  install(TARGETS strata_torch_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(TARGETS strata_torch EXPORT strata_torch ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT strata_torch NAMESPACE strata:: FILE strataTorchTargets.cmake
          DESTINATION ${STRATA_CMAKE_FOLDER})
  install(DIRECTORY runtime/torch DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/strata/runtime
          FILES_MATCHING PATTERN "*.h")
endif()

if(STRATA_CUDA)
  install(TARGETS strata_cuda EXPORT strata_cuda ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT strata_cuda NAMESPACE strata:: FILE strataCudaTargets.cmake
          DESTINATION ${STRATA_CMAKE_FOLDER})
  install(DIRECTORY kernels/cuda DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/strata/kernels
          FILES_MATCHING PATTERN "*.h")
endif()

configure_package_config_file(deploy/cmake/strataConfig.cmake.in strataConfig.cmake
                              INSTALL_DESTINATION ${STRATA_CMAKE_FOLDER})
write_basic_package_version_file(strataConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/strataConfig.cmake ${CMAKE_BINARY_DIR}/strataConfigVersion.cmake
        DESTINATION ${STRATA_CMAKE_FOLDER})
