# MLIR out of tree, linked statically from only the archives needed: a tool starts in 2 ms and runs where no LLVM is installed.
# HINTS and a version, MLIR before LLVM: another LLVM may own the unversioned names.
find_package(MLIR ${PIPEC_LLVM_VERSION} REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM) # add_public_tablegen_target
include(AddMLIR) # mlir_tablegen

# The distribution's archives all name the shared libLLVM; the part that MLIR's core needs is the archive LLVMSupport.
get_property(mlir_libs GLOBAL PROPERTY MLIR_ALL_LIBS)
foreach(lib IN LISTS mlir_libs)
  if(TARGET ${lib})
    get_target_property(deps ${lib} INTERFACE_LINK_LIBRARIES)
    if(deps)
      list(TRANSFORM deps REPLACE "^LLVM$" "LLVMSupport")
      set_property(TARGET ${lib} PROPERTY INTERFACE_LINK_LIBRARIES "${deps}")
    endif()
  endif()
endforeach()

add_library(pipec_llvm INTERFACE)
separate_arguments(llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
if(PIPEC_PRECOMPILE) # what old C++ needed for C's <stdint.h>: with it no other target's precompiled headers would do
  list(FILTER llvm_definitions EXCLUDE REGEX "__STDC_(CONSTANT|FORMAT|LIMIT)_MACROS")
endif()
target_compile_options(pipec_llvm INTERFACE ${llvm_definitions})
target_include_directories(pipec_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})

# pipec_link_mlir(target MLIRIR MLIRPass …)
function(pipec_link_mlir target)
  target_include_directories(${target} SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS})
  target_link_libraries(${target} PUBLIC pipec_llvm pipec_options ${ARGN})
endfunction()

# pipec_reference(name generated committed): the test reference-name fails where the two differ; update-reference copies.
add_custom_target(update-reference)
function(pipec_reference name generated committed)
  add_custom_target(reference-${name} ALL DEPENDS ${generated})
  add_custom_target(update-reference-${name} COMMAND ${CMAKE_COMMAND} -E copy ${generated} ${committed}
                    DEPENDS ${generated})
  add_dependencies(update-reference update-reference-${name})
  if(PIPEC_BUILD_TESTS)
    add_test(NAME reference-${name} COMMAND ${CMAKE_COMMAND} -E compare_files ${generated} ${committed})
  endif()
endfunction()
