# Targets of the house. Every folder of src/ is one library, every folder of tests/ one test binary.

add_library(dovetail_options INTERFACE)
target_include_directories(dovetail_options INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
# Floating-point contraction is off so that a sum has the same bits wherever the compiler inlines it;
# kernels ask for fused multiply-add by intrinsics.
target_compile_options(dovetail_options INTERFACE -ffp-contract=off -fno-math-errno)
if(DOVETAIL_SANITIZE)
  target_compile_options(dovetail_options INTERFACE -fsanitize=${DOVETAIL_SANITIZE}
                         -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(dovetail_options INTERFACE -fsanitize=${DOVETAIL_SANITIZE})
endif()

add_library(dovetail_warnings INTERFACE)
target_compile_options(dovetail_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                       -Wnon-virtual-dtor -Wold-style-cast)
if(DOVETAIL_WERROR)
  target_compile_options(dovetail_warnings INTERFACE -Werror)
endif()

# dovetail_library(FOLDER [targets it uses...]): a static library of all sources right in the folder.
function(dovetail_library name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
  if(sources)
    add_library(dovetail_${name} STATIC ${sources} ${headers})
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
  target_link_libraries(dovetail_${name}_test PRIVATE ${ARGN} dovetail_options GTest::gtest GTest::gtest_main GTest::gmock)
  target_compile_options(dovetail_${name}_test PRIVATE -Wall -Wextra $<$<BOOL:${DOVETAIL_WERROR}>:-Werror>)
  target_compile_definitions(dovetail_${name}_test PRIVATE
    DOVETAIL_SOURCE_DIR="${CMAKE_SOURCE_DIR}" DOVETAIL_SHARED_DIR="${DOVETAIL_SHARED_DIR}")
  gtest_discover_tests(dovetail_${name}_test TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT 600)
endfunction()
