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
if(DOVETAIL_SANITIZE MATCHES "address")
  target_compile_options(dovetail_test_options INTERFACE -O0)
else()
  target_compile_options(dovetail_test_options INTERFACE -O1)
endif()
if(DOVETAIL_SANITIZE MATCHES "undefined")
  target_compile_options(dovetail_test_options INTERFACE -fno-sanitize=undefined)
endif()
target_link_libraries(dovetail_test_options INTERFACE dovetail_test_warnings)

# Most of what the compiler reads for a test is headers of libraries: they are parsed once.
set(DOVETAIL_HEADERS <algorithm> <array> <atomic> <chrono> <condition_variable> <deque> <filesystem> <fstream> <functional> <map>
    <memory> <mutex> <optional> <span> <sstream> <string> <string_view> <thread> <unordered_map> <variant> <vector>
    <fmt/core.h> <tl/expected.hpp>)

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

# What the fuzz targets of tests/fuzz are aimed at. Programs without a fuzzer take the same libraries: AddressSanitizer's runtime has
# empty functions for what the compiler inserts.
set(DOVETAIL_FUZZED dialog families grammar kv load observe pipeline_config pipeline_sample pipeline_schema schedule serve text)

# The rooms whose speed is the product's. The others wait for them, for a network or for a disk, and are compiled in half the
# time with -O1; for AddressSanitizer, whose checks the optimiser spends most of its time on, in a third with -O0.
set(DOVETAIL_OPTIMIZED base grammar cores kernels model kv schedule engine)

# dovetail_library(FOLDER [targets it uses...]): a static library of all sources right in the folder.
function(dovetail_library name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
  if(sources)
    add_library(dovetail_${name} STATIC ${sources} ${headers})
    # In a unity build most of a unit's time goes to headers and their templates: few units, half the time.
    set_target_properties(dovetail_${name} PROPERTIES UNITY_BUILD_BATCH_SIZE 24)
    target_link_libraries(dovetail_${name} PUBLIC dovetail_options ${ARGN} PRIVATE dovetail_warnings)
    if(NOT name IN_LIST DOVETAIL_OPTIMIZED)
      target_compile_options(dovetail_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
      if(DOVETAIL_SANITIZE MATCHES "address")
        target_compile_options(dovetail_${name} PRIVATE -O0)
      endif()
    endif()
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/mutation.h)
      # The folder once more, with the faults of its mutation.h. Their objects come before the library's, so that the
      # linker takes none of it. A fault is the checkers' to find, not an assertion's.
      add_library(dovetail_${name}_mutants OBJECT EXCLUDE_FROM_ALL ${sources})
      target_compile_definitions(dovetail_${name}_mutants PRIVATE NDEBUG PUBLIC DOVETAIL_MUTANTS)
      target_compile_options(dovetail_${name}_mutants PRIVATE -O1)
      target_link_libraries(dovetail_${name}_mutants PUBLIC dovetail_options ${ARGN} PRIVATE dovetail_warnings)
    endif()
    if(DOVETAIL_FUZZ AND name IN_LIST DOVETAIL_FUZZED)
      target_compile_options(dovetail_${name} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
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
  set_target_properties(dovetail_${name}_test PROPERTIES UNITY_BUILD_BATCH_SIZE 16)
  target_include_directories(dovetail_${name}_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(dovetail_${name}_test PRIVATE ${ARGN} dovetail_test_places dovetail_options dovetail_test_options GTest::gtest GTest::gtest_main GTest::gmock)
  dovetail_precompile(dovetail_${name}_test dovetail_test_headers ${sources})
  gtest_discover_tests(dovetail_${name}_test TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT 600)
endfunction()

# dovetail_mutant_program(TARGET ROOM sources...): a program of the sources and of src/ROOM with its faults, which takes the
# number of one as its first argument; 0: no fault. Built where tests ask for it, or with DOVETAIL_MUTANTS.
function(dovetail_mutant_program target room)
  add_executable(${target} ${ARGN})
  if(NOT DOVETAIL_MUTANTS)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()
  target_compile_definitions(${target} PRIVATE NDEBUG)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE dovetail_${room}_mutants dovetail_test_warnings)
  # The headers are compiled with NDEBUG only where all is.
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    dovetail_precompile(${target} dovetail_headers ${ARGN})
  endif()
endfunction()

# dovetail_mutant_tests(PREFIX TARGET ENUM [WILL_FAIL] [ONLY numbers...] [EXCEPT numbers...] [ARGUMENTS words...]): a test for
# each fault that the enum lists and for 0, without a fault, named PREFIX_<number>; none where DOVETAIL_MUTANTS is off. A
# program that is a test itself must fail with a fault (WILL_FAIL); others look for it.
function(dovetail_mutant_tests prefix target enum)
  if(NOT DOVETAIL_MUTANTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 3 arg "WILL_FAIL" "" "ONLY;EXCEPT;ARGUMENTS")
  get_target_property(rooms ${target} LINK_LIBRARIES)
  string(REGEX MATCH "dovetail_([a-z_]+)_mutants" room "${rooms}")
  get_target_property(folder ${room} SOURCE_DIR)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/mutation.h)
  file(READ ${folder}/mutation.h text)
  string(REGEX MATCH "enum class ${enum} {[^}]*}" text "${text}")
  string(REGEX MATCHALL "\n  k[A-Za-z]+" faults "${text}")
  list(LENGTH faults count)
  if(count LESS 3)
    message(FATAL_ERROR "${folder}/mutation.h: ${enum} lists no faults")
  endif()
  math(EXPR last "${count} - 2")  # without kNone and kCount
  foreach(number RANGE 0 ${last})
    if((arg_ONLY AND NOT number IN_LIST arg_ONLY) OR number IN_LIST arg_EXCEPT)
      continue()
    endif()
    add_test(NAME ${prefix}_${number} COMMAND ${target} ${number} ${arg_ARGUMENTS})
    set_tests_properties(${prefix}_${number} PROPERTIES TIMEOUT 600)
    if(arg_WILL_FAIL AND number GREATER 0)
      set_tests_properties(${prefix}_${number} PROPERTIES WILL_FAIL TRUE)
    endif()
  endforeach()
endfunction()
