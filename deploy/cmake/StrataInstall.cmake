# Installed by `cmake --install`; consumed by find_package(strata). Filled in with the install test.
include(GNUInstallDirs)
