# The interface target ascend_headers: the vendor's ACL headers (acl/acl.h and what it includes), fetched once into the
# cache by tools/fetch_headers.sh, and our own declarations of what no package carries (abi/ascend_abi/).
# HEDDLE_ASCEND_HEADERS names a folder that already has the vendor's (an offline build).
include_guard(GLOBAL)
set(HEDDLE_ASCEND_HEADERS "" CACHE PATH "Folder with acl/acl.h; empty: fetched")
set(ASCEND_HEADERS_DIR "${HEDDLE_ASCEND_HEADERS}")
if(NOT ASCEND_HEADERS_DIR)
  execute_process(
    COMMAND ${CMAKE_CURRENT_LIST_DIR}/../tools/fetch_headers.sh ascend
    OUTPUT_VARIABLE ASCEND_HEADERS_DIR OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE ascend_headers_result)
  if(NOT ascend_headers_result EQUAL 0)
    message(FATAL_ERROR "the Ascend headers could not be fetched; set HEDDLE_ASCEND_HEADERS to a folder that has them")
  endif()
endif()
foreach(header acl/acl.h acl/acl_rt.h acl/error_codes/rt_error_codes.h)
  if(NOT EXISTS ${ASCEND_HEADERS_DIR}/${header})
    message(FATAL_ERROR "${ASCEND_HEADERS_DIR} has no ${header}")
  endif()
endforeach()
set(ASCEND_ABI_DIR ${CMAKE_CURRENT_LIST_DIR}/../abi)
add_library(ascend_headers INTERFACE)
target_include_directories(ascend_headers SYSTEM INTERFACE ${ASCEND_HEADERS_DIR} INTERFACE ${ASCEND_ABI_DIR})
