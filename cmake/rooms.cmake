# SPDX-License-Identifier: Apache-2.0
# errand_room(name [DIR dir] [LINKS ...] [PRIVATE_LINKS ...] [PUBLIC_HEADERS])
#
# Makes the library errand_<name> from the sources of one folder, and errand_<name>_test from its *_test.cc files.
# The room's headers are included as "<name>/x.h" through a link folder of its own, so that only a target that links
# the room can include them: a wrong arrow does not build.

# A test whose suite is named *Serial* runs beside no other; one named *Stress* does so too, and ./check --quick leaves
# it out (label stress; ERRAND_STRESS=full in its environment asks for the long form).

find_package(Threads REQUIRED)
if(BUILD_TESTING)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

set(ERRAND_ROOMS ${CMAKE_BINARY_DIR}/rooms)

add_library(errand_flags INTERFACE)
target_compile_options(errand_flags INTERFACE -Wall -Wextra -Wpedantic -Werror -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers)
# g++ 12 sees overlaps in std::string's own operator+ and assign (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(errand_flags INTERFACE -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # libstdc++ 12's own stable_sort uses what C++17 deprecated, and clang tells its callers.
  target_compile_options(errand_flags INTERFACE -Wthread-safety -Wno-deprecated-declarations)
endif()
if(ERRAND_SANITIZE)
  target_compile_options(errand_flags INTERFACE -fsanitize=${ERRAND_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(errand_flags INTERFACE -fsanitize=${ERRAND_SANITIZE})
  if(ERRAND_SANITIZE MATCHES undefined)
    # Its check of virtual tables asks the kernel through a pipe whether memory is there, and takes "no descriptor left"
    # for "no": tests that use up all descriptors would fail by it.
    target_compile_options(errand_flags INTERFACE -fno-sanitize=vptr)
  endif()
endif()

# Each TEST of errand_<name>_test becomes a test of ctest with the label KIND.<name>, or KIND.<name>.stress. (One label:
# a list does not survive gtest_discover_tests.)
function(errand_discover_tests name kind)
  set(target errand_${name}_test)
  gtest_discover_tests(${target} TEST_PREFIX "${name}/" TEST_FILTER "-*Serial*:*Stress*" TEST_LIST ${target}_parallel
    DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300 LABELS ${kind}.${name})
  gtest_discover_tests(${target} TEST_PREFIX "${name}/" TEST_FILTER "*Serial*:-*Stress*" TEST_LIST ${target}_serial
    DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300 LABELS ${kind}.${name} RUN_SERIAL ON)
  gtest_discover_tests(${target} TEST_PREFIX "${name}/" TEST_FILTER "*Stress*" TEST_LIST ${target}_stress
    DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 1800 LABELS ${kind}.${name}.stress RUN_SERIAL ON)
endfunction()

function(errand_room name)
  cmake_parse_arguments(ROOM "PUBLIC_HEADERS" "DIR" "LINKS;PRIVATE_LINKS" ${ARGN})
  if(NOT ROOM_DIR)
    set(ROOM_DIR src/${name})
  endif()
  set(dir ${PROJECT_SOURCE_DIR}/${ROOM_DIR})
  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.cc)
  file(GLOB tests CONFIGURE_DEPENDS ${dir}/*_test.cc)
  file(GLOB test_helpers CONFIGURE_DEPENDS ${dir}/*_testing.cc)
  list(FILTER sources EXCLUDE REGEX "_test(ing)?\\.cc$")

  file(MAKE_DIRECTORY ${ERRAND_ROOMS}/${name})
  file(CREATE_LINK ${dir} ${ERRAND_ROOMS}/${name}/${name} SYMBOLIC)

  set(links)
  foreach(link IN LISTS ROOM_LINKS)
    if(TARGET errand_${link})
      list(APPEND links errand_${link})
    else()
      list(APPEND links ${link})
    endif()
  endforeach()

  if(sources)
    add_library(errand_${name} STATIC ${sources})
    set(scope PUBLIC)
    target_link_libraries(errand_${name} PRIVATE errand_flags ${ROOM_PRIVATE_LINKS})
  else()
    add_library(errand_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(errand_${name} ${scope} $<BUILD_INTERFACE:${ERRAND_ROOMS}/${name}>)
  if(ROOM_PUBLIC_HEADERS)
    target_include_directories(errand_${name} ${scope}
      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
  endif()
  target_link_libraries(errand_${name} ${scope} ${links} Threads::Threads)

  if(BUILD_TESTING AND tests)
    add_executable(errand_${name}_test ${tests} ${test_helpers})
    target_link_libraries(errand_${name}_test PRIVATE errand_${name} errand_flags ${ROOM_PRIVATE_LINKS} GTest::gtest_main GTest::gmock)
    target_compile_definitions(errand_${name}_test PRIVATE ERRAND_BUILD_DIR="${CMAKE_BINARY_DIR}")
    add_dependencies(errand_${name}_test errand-keeper errand_test_trees)
    errand_discover_tests(${name} unit)
  endif()
endfunction()
