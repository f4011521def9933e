# SPDX-License-Identifier: Apache-2.0
# The target tree_sitter_bash: the shell grammar's C sources, which npm ships as they were generated. Nothing of the
# package is run: its install script would build an addon for node, so scripts are always ignored.
#
# Where the sources are looked for: ERRAND_NPM_DIR when it is given; <source>/build/npm, which the set-up script fills;
# else a cache that all build trees of a user share, keyed by the lock file, which is filled here when it is missing.

set(ERRAND_NPM_DIR "" CACHE PATH "Folder whose node_modules holds what cmake/npm/package-lock.json names")

# Installs into a folder beside `dir` first and renames it, so that builds configured at once see all or nothing.
function(errand_npm_install dir)
  find_program(ERRAND_NPM npm)
  if(NOT ERRAND_NPM)
    message(FATAL_ERROR "npm is missing: install the packages nodejs and npm, or give -DERRAND_NPM_DIR=")
  endif()
  string(RANDOM LENGTH 8 suffix)
  set(fresh ${dir}.${suffix})
  file(MAKE_DIRECTORY ${fresh})
  file(COPY ${PROJECT_SOURCE_DIR}/cmake/npm/package.json ${PROJECT_SOURCE_DIR}/cmake/npm/package-lock.json
       DESTINATION ${fresh})
  message(STATUS "Fetching the shell grammar with npm into ${dir}")
  execute_process(COMMAND ${ERRAND_NPM} ci --ignore-scripts --no-audit --no-fund --no-update-notifier
                  WORKING_DIRECTORY ${fresh} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    file(REMOVE_RECURSE ${fresh})
    message(FATAL_ERROR "npm ci failed (${result}):\n${output}")
  endif()
  file(RENAME ${fresh} ${dir} RESULT result)
  if(NOT result STREQUAL "0")
    file(REMOVE_RECURSE ${fresh})
    if(NOT EXISTS ${dir}/node_modules)
      message(FATAL_ERROR "cannot rename ${fresh} to ${dir}: ${result}")
    endif()
  endif()
endfunction()

function(errand_find_grammar out)
  set(inside node_modules/tree-sitter-bash/src)
  if(ERRAND_NPM_DIR)
    if(NOT EXISTS ${ERRAND_NPM_DIR}/${inside}/parser.c)
      errand_npm_install(${ERRAND_NPM_DIR})
    endif()
    set(${out} ${ERRAND_NPM_DIR}/${inside} PARENT_SCOPE)
    return()
  endif()

  set(lock ${PROJECT_SOURCE_DIR}/cmake/npm/package-lock.json)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${lock})
  file(SHA256 ${lock} key)
  string(SUBSTRING ${key} 0 16 key)

  # The set-up's folder counts only when it was made from this lock file.
  set(set_up ${PROJECT_SOURCE_DIR}/build/npm)
  if(EXISTS ${set_up}/${inside}/parser.c AND EXISTS ${set_up}/package-lock.json)
    file(SHA256 ${set_up}/package-lock.json set_up_key)
    string(SUBSTRING ${set_up_key} 0 16 set_up_key)
    if(set_up_key STREQUAL key)
      set(${out} ${set_up}/${inside} PARENT_SCOPE)
      return()
    endif()
  endif()

  set(cache ${CMAKE_BINARY_DIR}/npm-cache)
  if(DEFINED ENV{XDG_CACHE_HOME} AND IS_ABSOLUTE "$ENV{XDG_CACHE_HOME}")
    set(cache $ENV{XDG_CACHE_HOME}/errand-build)
  elseif(DEFINED ENV{HOME} AND IS_DIRECTORY "$ENV{HOME}")
    set(cache $ENV{HOME}/.cache/errand-build)
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} -E make_directory ${cache} RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
  execute_process(COMMAND test -w ${cache} RESULT_VARIABLE writable)
  if(NOT result EQUAL 0 OR NOT writable EQUAL 0)
    set(cache ${CMAKE_BINARY_DIR}/npm-cache)
    file(MAKE_DIRECTORY ${cache})
  endif()
  set(dir ${cache}/npm-${key})
  if(NOT EXISTS ${dir}/${inside}/parser.c)
    file(REMOVE_RECURSE ${dir})
    errand_npm_install(${dir})
  endif()
  set(${out} ${dir}/${inside} PARENT_SCOPE)
endfunction()

errand_find_grammar(ERRAND_GRAMMAR)
add_library(tree_sitter_bash STATIC ${ERRAND_GRAMMAR}/parser.c ${ERRAND_GRAMMAR}/scanner.c)
# parser.c is one table of several megabytes: its warnings are not ours, and unoptimised it is slow to parse with.
target_compile_options(tree_sitter_bash PRIVATE -w -O2)
target_include_directories(tree_sitter_bash PRIVATE ${ERRAND_GRAMMAR})
