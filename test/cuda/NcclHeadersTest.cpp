// Our declarations of NCCL's functions are those of its header.
#include "runtime/transport/nccl/NcclFunctions.h"

#include <gtest/gtest.h>

#ifdef PIPEC_HAS_NCCL_H
#include <nccl.h>

using namespace pipec::runtime;

namespace {

// Handles are the same, enumerations are numbers, and two structs are declared on each side.
template <typename T> struct Plain {
  using type = T;
};
template <typename T>
  requires std::is_enum_v<T>
struct Plain<T> {
  using type = int;
};
template <> struct Plain<ncclUniqueId> {
  using type = gpu::NcclId;
};
template <> struct Plain<ncclConfig_t> {
  using type = gpu::NcclConfig;
};
template <typename T> struct Plain<T *> {
  using type = typename Plain<T>::type *;
};
template <typename R, typename... P> struct Plain<R(P...)> {
  using type = typename Plain<R>::type(typename Plain<P>::type...);
};

#define COMPARE(name)                                                                                                  \
  static_assert(std::is_same_v<std::remove_pointer_t<decltype(gpu::NcclFunctions::name.address)>,                      \
                               Plain<decltype(::name)>::type>)
COMPARE(ncclGetVersion);
COMPARE(ncclGetUniqueId);
COMPARE(ncclCommInitRankConfig);
COMPARE(ncclCommGetAsyncError);
COMPARE(ncclCommAbort);
COMPARE(ncclGetErrorString);
COMPARE(ncclGetLastError);
COMPARE(ncclSend);
COMPARE(ncclRecv);
COMPARE(ncclAllReduce);
COMPARE(ncclReduce);
COMPARE(ncclBroadcast);
COMPARE(ncclGroupStart);
COMPARE(ncclGroupEnd);

TEST(NcclHeaders, AllFunctionsAreCompared) {
  int functions = 0;
#define COUNT(symbol, result, parameters) ++functions;
  PIPEC_NCCL_FUNCTIONS(COUNT)
  EXPECT_EQ(functions, 14) << "compare the new one above";
}

TEST(NcclHeaders, NumbersAndLayoutsAreTheHeaders) {
  EXPECT_EQ(gpu::kNcclSuccess, int(ncclSuccess));
  EXPECT_EQ(gpu::kNcclSystemError, int(ncclSystemError));
  EXPECT_EQ(gpu::kNcclInvalidArgument, int(ncclInvalidArgument));
  EXPECT_EQ(gpu::kNcclInvalidUsage, int(ncclInvalidUsage));
  EXPECT_EQ(gpu::kNcclRemoteError, int(ncclRemoteError));
  EXPECT_EQ(gpu::kNcclInProgress, int(ncclInProgress));
  EXPECT_EQ(gpu::kNcclInt8, int(ncclInt8));
  EXPECT_EQ(gpu::kNcclFloat64, int(ncclFloat64));
  EXPECT_EQ(gpu::kNcclSum, int(ncclSum));
  EXPECT_EQ(gpu::kNcclNeeded, NCCL_VERSION(2, 28, 0));
  EXPECT_EQ(sizeof(gpu::NcclId), sizeof(ncclUniqueId));
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const gpu::NcclConfig ours;
  EXPECT_EQ(sizeof ours, theirs.size);
  EXPECT_EQ(ours.magic, theirs.magic);
  EXPECT_EQ(offsetof(gpu::NcclConfig, blocking), offsetof(ncclConfig_t, blocking));
  EXPECT_EQ(offsetof(gpu::NcclConfig, maxCTAs), offsetof(ncclConfig_t, maxCTAs));
  EXPECT_EQ(offsetof(gpu::NcclConfig, commName), offsetof(ncclConfig_t, commName));
  EXPECT_EQ(offsetof(gpu::NcclConfig, nvlinkCentricSched), offsetof(ncclConfig_t, nvlinkCentricSched));
  EXPECT_EQ(ours.minCTAs, theirs.minCTAs);
}

} // namespace
#else
TEST(NcclHeaders, AllFunctionsAreCompared) { GTEST_SKIP() << "no nccl.h here"; }
#endif
