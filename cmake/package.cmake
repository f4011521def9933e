# SPDX-License-Identifier: Apache-2.0
# The engine as others take it: the target errand::engine, from an installation through find_package(errand), or from
# this tree as a subproject. One archive holds the engine and the rooms below it; include/errand is all that is public.
#
# Two components, each complete: `program` (bin/errand and its keeper), `library` (archive, headers, CMake files, and
# the keeper). `cmake --install build --prefix P --component library` installs one of them, without --component both.
include(CMakePackageConfigHelpers)

set(ERRAND_KEEPER_DIR ${CMAKE_INSTALL_LIBEXECDIR}/errand)
set(ERRAND_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/errand)

add_library(errand_library STATIC $<TARGET_OBJECTS:errand_engine> $<TARGET_OBJECTS:errand_base>)
add_library(errand::engine ALIAS errand_library)
set_target_properties(errand_library PROPERTIES OUTPUT_NAME errand EXPORT_NAME engine LINKER_LANGUAGE CXX)
target_compile_features(errand_library INTERFACE cxx_std_20)
target_link_libraries(errand_library PUBLIC Threads::Threads)
get_target_property(engine_links errand_engine LINK_LIBRARIES)
if("PkgConfig::RE2" IN_LIST engine_links)
  target_link_libraries(errand_library PRIVATE PkgConfig::RE2)
endif()
target_include_directories(errand_library INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# A static library does not know where it was installed to, but whoever finds the package does: this source is compiled
# into the user's program and tells the library where the keeper is.
target_sources(errand_library INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/cmake/package_keeper.cc>
  $<INSTALL_INTERFACE:${ERRAND_PACKAGE_DIR}/package_keeper.cc>)
target_compile_definitions(errand_library INTERFACE
  $<BUILD_INTERFACE:ERRAND_PACKAGE_KEEPER="$<TARGET_FILE:errand-keeper>">
  $<INSTALL_INTERFACE:ERRAND_PACKAGE_KEEPER="$<TARGET_FILE:errand::keeper>">)
add_dependencies(errand_library errand-keeper)
set_target_properties(errand-keeper PROPERTIES EXPORT_NAME keeper)
add_executable(errand::keeper ALIAS errand-keeper)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/errand-config.cmake.in
  ${CMAKE_BINARY_DIR}/package/errand-config.cmake INSTALL_DESTINATION ${ERRAND_PACKAGE_DIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/errand-config-version.cmake
  COMPATIBILITY SameMinorVersion)

install(TARGETS errand_library errand-keeper EXPORT errand-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
  RUNTIME DESTINATION ${ERRAND_KEEPER_DIR} COMPONENT library)
install(EXPORT errand-targets NAMESPACE errand:: DESTINATION ${ERRAND_PACKAGE_DIR} COMPONENT library)
install(FILES ${CMAKE_BINARY_DIR}/package/errand-config.cmake ${CMAKE_BINARY_DIR}/package/errand-config-version.cmake
  ${PROJECT_SOURCE_DIR}/cmake/package_keeper.cc DESTINATION ${ERRAND_PACKAGE_DIR} COMPONENT library)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/errand DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library
  FILES_MATCHING PATTERN "*.h")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT library)

if(TARGET errand)
  install(TARGETS errand RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  install(PROGRAMS $<TARGET_FILE:errand-keeper> DESTINATION ${ERRAND_KEEPER_DIR} COMPONENT program)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
endif()
