# PIPEC_PRECOMPILE: headers that many files begin with, compiled once for all that share them. Files include what they use
# all the same. ccache keeps what is made with them under CCACHE_SLOPPINESS=pch_defines,time_macros alone, which tools/test
# and tools/quickstart set.

# pipec_precompiled(name [SHARED] LINK fmt::fmt … HEADERS <vector> … FOR PipecPlan …): GCC takes it only where the command
# line has the macros that it was made with, and makes code of the same kind (SHARED: as the runtime's libraries do).
function(pipec_precompiled name)
  cmake_parse_arguments(arg "SHARED" "" "LINK;HEADERS;FOR" ${ARGN})
  set(source ${PROJECT_BINARY_DIR}/precompiled/${name}.cpp)
  if(NOT EXISTS ${source})
    file(WRITE ${source} "// Precompiled headers belong to a library, which has a file.\n")
  endif()
  add_library(precompiled-${name} OBJECT ${source})
  target_link_libraries(precompiled-${name} PRIVATE pipec_options ${arg_LINK})
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang") # else it would hold the times of headers against what comes out of a cache
    target_compile_options(precompiled-${name} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
  if(arg_SHARED)
    pipec_shared_code(precompiled-${name})
  endif()
  target_precompile_headers(precompiled-${name} PRIVATE ${arg_HEADERS})
  foreach(target IN LISTS arg_FOR)
    target_precompile_headers(${target} REUSE_FROM precompiled-${name})
  endforeach()
endfunction()

if(PIPEC_PRECOMPILE)
  set(plain <algorithm> <array> <cstdint> <functional> <map> <memory> <numeric> <optional> <span> <string> <string_view>
            <tuple> <utility> <vector> <fmt/format.h>)
  # spdlog compiles the whole of fmt's formatting into each file that writes to the log, where libfmt.so has it already.
  list(APPEND plain ${PROJECT_SOURCE_DIR}/tools/cmake/FmtInLibrary.h)
  set(asio ${plain} <nlohmann/json.hpp> <asio.hpp>)
  set(mlir ${plain} <mlir/Bytecode/BytecodeOpInterface.h> <mlir/IR/Builders.h> <mlir/IR/BuiltinAttributes.h>
           <mlir/IR/BuiltinOps.h> <mlir/IR/Diagnostics.h> <mlir/IR/DialectImplementation.h>
           <mlir/IR/OpImplementation.h> <mlir/IR/RegionKindInterface.h> <mlir/IR/SymbolTable.h> <mlir/Pass/Pass.h>
           <llvm/ADT/TypeSwitch.h>)

  pipec_precompiled(runtime SHARED LINK fmt::fmt HEADERS ${plain}
    FOR PipecPlan PipecLibrary PipecSimulate PipecTrace PipecDevice PipecJob PipecStage PipecAdapt PipecCheckpoint)
  pipec_precompiled(asio SHARED LINK fmt::fmt pipec_asio HEADERS ${asio}
    FOR PipecTransport PipecInterpreter PipecLaunch PipecBackend PipecEmbed PipecResult)
  if(PIPEC_BUILD_COMPILER)
    pipec_precompiled(plain LINK fmt::fmt HEADERS ${plain}
      FOR PipecSpec PipecModel PipecEvaluate PipecBounds PipecImprove PipecConstruct PipecCatalogue PipecSearch
          PipecOverlap PipecExact PipecCut PipecExchange PipecRecompute PipecTorch PipecTransfers PipecJobs PipecBurst
          PipecPortions PipecEmit PipecExplain PipecPictures pipec)
    target_link_libraries(PipecPipe PUBLIC fmt::fmt) # only for the macro that says how fmt is linked
    pipec_precompiled(mlir LINK fmt::fmt pipec_llvm HEADERS ${mlir}
      FOR PipecPipe PipecProgram PipecPasses PipecDriver PipecShards PipecWidths PipecReplicas PipecCompare PipecReplan
          pipe-opt)
  endif()
  if(PIPEC_BUILD_TESTS)
    get_property(tests GLOBAL PROPERTY pipec_tests)
    set(asio_tests TransportTest InterpreterTest LaunchTest LocalRunTest ReplicatedRunTest ShardedRunTest
                   ConformanceTest)
    set(mlir_tests DriverAgreementTest DriverCutAutoTest DriverDesignLevelTest DriverRecomputeAutoTest DriverRingsTest
                   ExplainLimitsTest ProgramExchangeTextTest ProgramSetTest ReplanTest ReplicasTest TransfersOrderTest)
    list(REMOVE_ITEM tests ${asio_tests} ${mlir_tests})
    set(gtest <random> <gtest/gtest.h>)
    pipec_precompiled(gtest LINK fmt::fmt GTest::gtest HEADERS ${plain} ${gtest}
      FOR ${tests})
    pipec_precompiled(gtest-asio LINK fmt::fmt pipec_asio GTest::gtest
      HEADERS ${asio} ${gtest} FOR ${asio_tests})
    if(PIPEC_BUILD_COMPILER)
      pipec_precompiled(gtest-mlir LINK fmt::fmt pipec_llvm GTest::gtest
        HEADERS ${mlir} ${gtest} FOR ${mlir_tests})
    endif()
  endif()
endif()
