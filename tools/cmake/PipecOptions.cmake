# What every target shares: the language, the warnings, the sanitizers, the include roots.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(PIPEC_MOLD mold)
if(PIPEC_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_library(pipec_options INTERFACE)
# Includes are written from the repository's root; what is generated is a SYSTEM include, so it raises no warnings of ours.
target_include_directories(pipec_options INTERFACE ${PROJECT_SOURCE_DIR})
target_include_directories(pipec_options SYSTEM INTERFACE ${PROJECT_BINARY_DIR})
target_compile_options(pipec_options INTERFACE -Wall -Wextra $<$<BOOL:${PIPEC_WERROR}>:-Werror>)
option(PIPEC_PRECOMPILE "Compile the headers that many files share once; tools/test and tools/quickstart do" OFF)
if(PIPEC_SANITIZE)
  target_compile_options(pipec_options INTERFACE -fsanitize=${PIPEC_SANITIZE} -fno-sanitize-recover=undefined
                                                 -fno-omit-frame-pointer)
  target_link_options(pipec_options INTERFACE -fsanitize=${PIPEC_SANITIZE})
endif()

# What ends in a shared library. Its functions are called from within, and may be inlined, all the same.
function(pipec_shared_code target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE -fno-semantic-interposition)
endfunction()

# pipec_library(Name SOURCES a.cpp … LINK PipecPlan …): one folder, one library, its dependencies written out.
function(pipec_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC pipec_options ${arg_LINK})
  if(PIPEC_SHARED_CODE)
    pipec_shared_code(${name})
  endif()
endfunction()

# pipec_test(NameTest [SOAKS] SOURCES a.cpp … LINK PipecPlan …): a GoogleTest program, each of its tests known to CTest.
# SOAKS: with PIPEC_SOAK in the environment it runs longer, and tools/soak runs it.
function(pipec_test name)
  cmake_parse_arguments(arg "SOAKS" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE pipec_options ${arg_LINK} GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE PIPEC_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  set(properties TIMEOUT 1800) # hangs end there, and nothing else
  if(arg_SOAKS)
    list(APPEND properties LABELS soak)
  endif()
  set_property(GLOBAL APPEND PROPERTY pipec_tests ${name})
  list(APPEND properties ENVIRONMENT "ASAN_OPTIONS=allow_user_poisoning=0")
  if(PIPEC_SANITIZE) # where a process for each test would cost more than most tests
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES ${properties})
  else()
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 600 PROPERTIES ${properties})
  endif()
endfunction()
