# strata_layer(NAME SOURCES … DEPENDS …): one library per layer, alias strata::NAME.
# A layer links only what it names, so that a dependency upwards does not link.
find_package(Threads REQUIRED)
find_package(absl REQUIRED)

function(strata_layer name)
  cmake_parse_arguments(LAYER "" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  add_library(strata_${name} STATIC ${LAYER_SOURCES})
  add_library(strata::${name} ALIAS strata_${name})
  set_target_properties(strata_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(strata_${name} PUBLIC
      $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<INSTALL_INTERFACE:include/strata>)
  target_compile_features(strata_${name} PUBLIC cxx_std_20)
  target_link_libraries(strata_${name} PUBLIC ${LAYER_DEPENDS} PRIVATE ${LAYER_PRIVATE})
endfunction()

# strata_test(NAME RING unit|contract|sim|proc|netns|gpu|lint|install [SERIAL] [TIMEOUT s]
#             SOURCES … LINK …): one GoogleTest binary, registered as one CTest test, labelled by ring.
function(strata_test name)
  cmake_parse_arguments(TEST "SERIAL" "RING;TIMEOUT" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE ${TEST_LINK} strata_test_support GTest::gmock)
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 120)
  endif()
  add_test(NAME ${TEST_RING}.${name} COMMAND ${name})
  set_tests_properties(${TEST_RING}.${name} PROPERTIES LABELS ${TEST_RING} TIMEOUT ${TEST_TIMEOUT}
                       RUN_SERIAL $<BOOL:${TEST_SERIAL}>)
endfunction()
