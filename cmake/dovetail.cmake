# Targets of the house. Every folder of src/ is one library, every folder of tests/ one test binary.

add_library(dovetail_options INTERFACE)
target_include_directories(dovetail_options INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
# Floating-point contraction is off so that a sum has the same bits wherever the compiler inlines it;
# kernels ask for fused multiply-add by intrinsics.
target_compile_options(dovetail_options INTERFACE -ffp-contract=off -fno-math-errno)
if(DOVETAIL_SANITIZE)
  # The check of function types is clang's alone, which cannot place it in all inline functions.
  target_compile_options(dovetail_options INTERFACE -fsanitize=${DOVETAIL_SANITIZE}
                         $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function> -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(dovetail_options INTERFACE -fsanitize=${DOVETAIL_SANITIZE})
endif()

add_library(dovetail_warnings INTERFACE)
target_compile_options(dovetail_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                       -Wnon-virtual-dtor -Wold-style-cast)
if(CMAKE_UNITY_BUILD)
  # They speak of names in unnamed namespaces, which are another source's here.
  target_compile_options(dovetail_warnings INTERFACE -Wno-error=shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()
if(DOVETAIL_WERROR)
  target_compile_options(dovetail_warnings INTERFACE -Werror)
endif()

add_library(dovetail_test_warnings INTERFACE)
target_compile_options(dovetail_test_warnings INTERFACE -Wall -Wextra $<$<BOOL:${DOVETAIL_WERROR}>:-Werror>)

# Tests are compiled more often than they run; what UBSan looks for is in the product.
add_library(dovetail_test_options INTERFACE)
target_compile_options(dovetail_test_options INTERFACE -O1)
if(DOVETAIL_SANITIZE MATCHES "undefined")
  target_compile_options(dovetail_test_options INTERFACE -fno-sanitize=undefined)
endif()
target_link_libraries(dovetail_test_options INTERFACE dovetail_test_warnings)

# Most of what the compiler reads for a test is headers of libraries: they are parsed once.
set(DOVETAIL_HEADERS <algorithm> <array> <atomic> <chrono> <condition_variable> <deque> <filesystem> <fstream> <functional> <map>
    <memory> <mutex> <optional> <span> <sstream> <string> <string_view> <thread> <unordered_map> <variant> <vector>
    <fmt/format.h> <tl/expected.hpp>)

# dovetail_header_set(NAME OPTIONS headers...): a set of headers for targets with these options.
function(dovetail_header_set name options)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${name}.cpp CONTENT "")
  add_library(${name} STATIC ${CMAKE_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE dovetail_options ${options} fmt::fmt)
  target_precompile_headers(${name} PRIVATE ${ARGN})
endfunction()

# dovetail_precompile(TARGET SET sources...): gives the target's sources the set, or the set with JSON if one includes it.
function(dovetail_precompile target set)
  foreach(source IN LISTS ARGN)
    file(STRINGS ${source} includes REGEX "^#include <nlohmann/json.hpp>")
    if(includes)
      set(set ${set}_json)
      break()
    endif()
  endforeach()
  target_precompile_headers(${target} REUSE_FROM ${set})
endfunction()

# dovetail_library(FOLDER [targets it uses...]): a static library of all sources right in the folder.
function(dovetail_library name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
  if(sources)
    add_library(dovetail_${name} STATIC ${sources} ${headers})
    # Mutants replace the objects of these sources by their own.
    foreach(source IN LISTS sources)
      file(STRINGS ${source} asks REGEX "/mutation.h")
      if(asks)
        set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      endif()
    endforeach()
    target_link_libraries(dovetail_${name} PUBLIC dovetail_options ${ARGN} PRIVATE dovetail_warnings)
  else()
    add_library(dovetail_${name} INTERFACE)
    target_link_libraries(dovetail_${name} INTERFACE dovetail_options ${ARGN})
  endif()
endfunction()

# dovetail_test(FOLDER [targets it uses...]): one GoogleTest binary of all *_test.cpp in the folder.
function(dovetail_test name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(dovetail_${name}_test ${sources})
  target_include_directories(dovetail_${name}_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(dovetail_${name}_test PRIVATE ${ARGN} dovetail_options dovetail_test_options GTest::gtest GTest::gtest_main GTest::gmock)
  dovetail_precompile(dovetail_${name}_test dovetail_test_headers ${sources})
  # Only for those that look at files, so that the others do not depend on where the checkout lies.
  foreach(source IN LISTS sources)
    file(STRINGS ${source} looks REGEX "DOVETAIL_(SOURCE|SHARED)_DIR")
    if(looks)
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS
                   DOVETAIL_SOURCE_DIR="${CMAKE_SOURCE_DIR}" DOVETAIL_SHARED_DIR="${DOVETAIL_SHARED_DIR}")
    endif()
  endforeach()
  gtest_discover_tests(dovetail_${name}_test TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT 600)
endfunction()

# dovetail_mutants(NAMES LAST): the numbers of the mutants to build, 0 (no fault) to LAST; 0 alone without DOVETAIL_MUTANTS.
function(dovetail_mutants names last)
  set(numbers 0)
  if(DOVETAIL_MUTANTS)
    foreach(number RANGE 1 ${last})
      list(APPEND numbers ${number})
    endforeach()
  endif()
  set(${names} ${numbers} PARENT_SCOPE)
endfunction()

# dovetail_mutant(TARGET FAULT NUMBER): the target is compiled with one fault. It is the checkers' to find, not an assertion's.
function(dovetail_mutant target fault number)
  target_compile_definitions(${target} PRIVATE ${fault}=${number} NDEBUG)
  target_link_libraries(${target} PRIVATE dovetail_test_warnings)
  # The headers are compiled with NDEBUG only where all is.
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    get_target_property(sources ${target} SOURCES)
    dovetail_precompile(${target} dovetail_headers ${sources})
  endif()
endfunction()
