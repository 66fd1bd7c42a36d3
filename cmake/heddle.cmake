# Everything that a target of this tree shares: language mode, warnings, hardening, sanitizers, and the helpers that
# declare libraries, tests and programs. A module's CMakeLists.txt is then only a list of its own files.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/archive)

find_program(HEDDLE_CCACHE ccache)
if(HEDDLE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Relative paths, so that a fresh checkout in another folder finds what an earlier one compiled.
  set(launcher /usr/bin/env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${HEDDLE_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()
find_program(HEDDLE_LLD NAMES ld.lld-19 ld.lld)
set(HEDDLE_SANITIZE "" CACHE STRING "Sanitizers for every target, as -fsanitize= takes them")

add_library(heddle_flags INTERFACE)
target_compile_options(heddle_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wimplicit-fallthrough -Werror
  -fno-omit-frame-pointer -fstack-protector-strong -fvisibility=hidden
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual>)
# clang 19 blames the caller of std::stable_sort for a deprecated helper inside libstdc++ 12.
target_compile_options(heddle_flags INTERFACE $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
# GCC 12 sees dangling and uninitialised values in libstdc++'s own optional and variant at -O2; clang checks these for us.
target_compile_options(heddle_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-restrict>)
target_compile_definitions(heddle_flags INTERFACE _GLIBCXX_ASSERTIONS HEDDLE_VERSION="${PROJECT_VERSION}")
if(HEDDLE_SANITIZE)
  add_compile_options(-fsanitize=${HEDDLE_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${HEDDLE_SANITIZE})
else()
  target_compile_definitions(heddle_flags INTERFACE $<$<NOT:$<CONFIG:Debug>>:_FORTIFY_SOURCE=2>)
endif()
target_link_options(heddle_flags INTERFACE -Wl,-z,relro,-z,now)

# heddle_library(NAME SOURCES a.cc ... DEPS heddle::x ... PRIVATE_DEPS lib ...): target heddle_NAME, alias heddle::NAME.
function(heddle_library name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  if(A_SOURCES)
    add_library(heddle_${name} STATIC ${A_SOURCES})
    target_link_libraries(heddle_${name} PRIVATE heddle_flags ${A_PRIVATE_DEPS} PUBLIC ${A_DEPS})
    target_include_directories(heddle_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  else()
    add_library(heddle_${name} INTERFACE)
    target_link_libraries(heddle_${name} INTERFACE ${A_DEPS})
    target_include_directories(heddle_${name} INTERFACE ${CMAKE_SOURCE_DIR}/src)
  endif()
  add_library(heddle::${name} ALIAS heddle_${name})
endfunction()

# What runs under the sanitizers: the unit tests and the fuzz targets, not the programs. Under the thread sanitizer only
# those with the label `threads`: the others have one thread.
add_custom_target(unit_tests)
add_custom_target(threaded_tests)

# heddle_test(NAME SOURCES a_test.cc ... DEPS heddle::x ... [LABELS l ...] [TIMEOUT seconds] [ENVIRONMENT A=1 ...]): a GoogleTest
# program. Its cases are known to ctest one by one; a program that needs an environment is one test (gtest_discover_tests
# of CMake 3.25 cuts lists in properties).
function(heddle_test name)
  cmake_parse_arguments(A "" "TIMEOUT" "SOURCES;DEPS;LABELS;ENVIRONMENT" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE heddle_flags ${A_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
  if(NOT A_LABELS)
    set(A_LABELS unit)
  endif()
  if("unit" IN_LIST A_LABELS)
    add_dependencies(unit_tests ${name})
  endif()
  if("threads" IN_LIST A_LABELS)
    add_dependencies(threaded_tests ${name})
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  if(A_ENVIRONMENT)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS "${A_LABELS}" TIMEOUT ${A_TIMEOUT} ENVIRONMENT "${A_ENVIRONMENT}")
    return()
  endif()
  # One label only is kept of a list here (see above), so that `unit threads` becomes `unit-threads`: ctest -L finds both parts.
  string(REPLACE ";" "-" label "${A_LABELS}")
  include(GoogleTest)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS "${label}" TIMEOUT ${A_TIMEOUT})
endfunction()

# heddle_program(NAME SOURCES main.cc DEPS ...): an executable in build/<preset>/bin.
function(heddle_program name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE heddle_flags ${A_DEPS})
  if(HEDDLE_LLD)
    target_link_options(${name} PRIVATE -fuse-ld=lld -B/usr/lib/llvm-19/bin)
  endif()
endfunction()

find_package(GTest REQUIRED)
find_package(fmt REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(CURL REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
