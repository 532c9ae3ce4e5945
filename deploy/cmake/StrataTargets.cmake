# strata_layer(NAME SOURCES … DEPENDS …): one library per layer, alias strata::NAME.
# A layer links only what it names, so that a dependency upwards does not link.
find_package(Threads REQUIRED)
find_package(absl REQUIRED)

# strata_precompile(TARGET): TARGET's files get the headers of libraries precompiled, once for all
# libraries and once for all executables, whose code is compiled with other flags. What a file
# includes it still names: `./dev lint`, which parses without, finds what is missing.
set(STRATA_PRECOMPILED <algorithm> <functional> <map> <memory> <optional> <span> <string> <vector>
    <absl/functional/any_invocable.h> <absl/status/statusor.h> <absl/strings/str_cat.h>
    <absl/strings/str_format.h> <absl/strings/str_join.h> <absl/time/clock.h>)
if(STRATA_PRECOMPILE)
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cc CONTENT "int main() {}\n")
  add_library(strata_precompiled_library STATIC ${CMAKE_BINARY_DIR}/precompiled.cc)
  target_link_libraries(strata_precompiled_library PRIVATE absl::statusor absl::str_format absl::time)
  target_precompile_headers(strata_precompiled_library PRIVATE ${STRATA_PRECOMPILED})
  if(STRATA_TESTS)
    find_package(GTest REQUIRED)
    add_executable(strata_precompiled_executable ${CMAKE_BINARY_DIR}/precompiled.cc)
    target_link_libraries(strata_precompiled_executable PRIVATE absl::statusor absl::str_format
                          absl::time GTest::gmock)
    target_precompile_headers(strata_precompiled_executable PRIVATE ${STRATA_PRECOMPILED}
                              <gmock/gmock.h> <gtest/gtest.h>)
  endif()
endif()

function(strata_precompile target)
  if(NOT STRATA_PRECOMPILE)
    return()
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    target_precompile_headers(${target} REUSE_FROM strata_precompiled_executable)
  else()
    target_precompile_headers(${target} REUSE_FROM strata_precompiled_library)
  endif()
endfunction()

function(strata_layer name)
  cmake_parse_arguments(LAYER "" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  add_library(strata_${name} STATIC ${LAYER_SOURCES})
  add_library(strata::${name} ALIAS strata_${name})
  set_target_properties(strata_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(strata_${name} PUBLIC
      $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<INSTALL_INTERFACE:include/strata>)
  target_compile_features(strata_${name} PUBLIC cxx_std_20)
  target_link_libraries(strata_${name} PUBLIC ${LAYER_DEPENDS} PRIVATE ${LAYER_PRIVATE})
  strata_precompile(strata_${name})
endfunction()

# strata_test(NAME RING unit|contract|sim|proc|netns|gpu|lint|install [SERIAL] [TIMEOUT s]
#             SOURCES … LINK …): one GoogleTest binary, registered as one CTest test, labelled by ring.
function(strata_test name)
  cmake_parse_arguments(TEST "SERIAL" "RING;TIMEOUT" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE ${TEST_LINK} strata_test_support GTest::gmock)
  strata_precompile(${name})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 120)
  endif()
  add_test(NAME ${TEST_RING}.${name} COMMAND ${name})
  set_tests_properties(${TEST_RING}.${name} PROPERTIES LABELS ${TEST_RING} TIMEOUT ${TEST_TIMEOUT}
                       RUN_SERIAL $<BOOL:${TEST_SERIAL}>)
endfunction()
