# The interface target nvidia_headers: the vendor's nvml.h, cuda.h and cudaTypedefs.h, fetched once into the cache by
# tools/fetch_headers.sh. HEDDLE_NVIDIA_HEADERS names a folder that already has them (an offline build).
include_guard(GLOBAL)
set(HEDDLE_NVIDIA_HEADERS "" CACHE PATH "Folder with nvml.h, cuda.h and cudaTypedefs.h; empty: fetched")
set(NVIDIA_HEADERS_DIR "${HEDDLE_NVIDIA_HEADERS}")
if(NOT NVIDIA_HEADERS_DIR)
  execute_process(
    COMMAND ${CMAKE_CURRENT_LIST_DIR}/../tools/fetch_headers.sh
    OUTPUT_VARIABLE NVIDIA_HEADERS_DIR OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE nvidia_headers_result)
  if(NOT nvidia_headers_result EQUAL 0)
    message(FATAL_ERROR "the NVIDIA headers could not be fetched; set HEDDLE_NVIDIA_HEADERS to a folder that has them")
  endif()
endif()
foreach(header nvml.h cuda.h cudaTypedefs.h)
  if(NOT EXISTS ${NVIDIA_HEADERS_DIR}/${header})
    message(FATAL_ERROR "${NVIDIA_HEADERS_DIR} has no ${header}")
  endif()
endforeach()
add_library(nvidia_headers INTERFACE)
target_include_directories(nvidia_headers SYSTEM INTERFACE ${NVIDIA_HEADERS_DIR})
