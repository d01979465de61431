// libcuda.so.1, as far as pipec calls it (runtime/device/cuda/CudaFunctions.h).
#include "test/standin/Memory.h"
#include "test/standin/Standin.h"
#include "test/standin/Streams.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <linux/futex.h>
#include <map>
#include <set>
#include <string_view>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace pipec::standin {

using namespace runtime::gpu;

// The kernels, from the source that a GPU runs.
#include "runtime/device/cuda/kernels.cu"

namespace {

constexpr CUresult kNotInitialized = 3, kInvalidContext = 201, kInvalidHandle = 400;

// As the driver's, what was made stays until the process is gone: streams run while it ends.
std::mutex mutex; // over what follows
bool initialized = false;
auto &connections = *new std::map<std::pair<int, int>, std::unique_ptr<Connection>>; // by device and number
auto &streams = *new std::vector<CUstream>;
int created = 0; // streams, in all
auto &events = *new std::set<CUevent>;

enum class Kernel : intptr_t { None, Spin, Fill, Check };

/// What a call is: its rules are checked when it begins.
enum class Rule { NoContext, None, Waits };

thread_local CUcontext current = nullptr;

CUresult begin(const char *call, Rule rule, bool needsInit = true) {
  if (const int error = entered(call))
    return error;
  std::lock_guard lock(mutex);
  if (needsInit && !initialized)
    return refuse(kNotInitialized, std::string(call) + ": cuInit was not called");
  if (needsInit && rule != Rule::NoContext && !current)
    return refuse(kInvalidContext, std::string(call) + ": this thread has no context");
  if (rule == Rule::Waits)
    for (size_t s = 0; s < streams.size(); ++s)
      if (!streams[s]->idle())
        return refuse(kCudaIllegalState, std::string(call) + ": would wait for stream " + std::to_string(s) +
                                             ", which has work that is not complete");
  return kCudaSuccess;
}

CUresult known(const char *call, CUstream stream) {
  std::lock_guard lock(mutex);
  if (std::find(streams.begin(), streams.end(), stream) == streams.end())
    return refuse(kInvalidHandle, std::string(call) + ": there is no such stream");
  if (int(stream->issuers.size()) < settings().issuers)
    stream->issuers.insert(std::this_thread::get_id());
  return stream->issuers.count(std::this_thread::get_id())
             ? kCudaSuccess
             : refuse(kInvalidContext, std::string(call) + ": a second thread issues work");
}

CUresult known(const char *call, CUevent event) {
  std::lock_guard lock(mutex);
  return events.count(event) ? kCudaSuccess : refuse(kInvalidHandle, std::string(call) + ": there is no such event");
}

#define BEGIN(call, rule)                                                                                              \
  if (const CUresult error = begin(#call, rule))                                                                       \
  return error
#define KNOWN(call, handle)                                                                                            \
  if (const CUresult error = known(#call, handle))                                                                     \
  return error

/// A word that processes wait for; futexes look at its lower half.
void wake(std::byte *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0); }

std::atomic_ref<uint64_t> wordAt(std::byte *data) {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t *>(data));
}

} // namespace

extern "C" {

CUresult cuInit(unsigned) {
  if (const int error = begin("cuInit", Rule::None, false))
    return error;
  std::lock_guard lock(mutex);
  if (settings().devices == 0)
    return kCudaNoDevice;
  initialized = true;
  return kCudaSuccess;
}

CUresult cuDriverGetVersion(int *version) {
  if (const int error = begin("cuDriverGetVersion", Rule::None, false))
    return error;
  *version = settings().version;
  return kCudaSuccess;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  static const std::map<CUresult, const char *> texts = {
      {kCudaInvalidValue, "invalid argument"},
      {kCudaOutOfMemory, "out of memory"},
      {kCudaNoDevice, "no CUDA-capable device is detected"},
      {kCudaIllegalAddress, "an illegal memory access was encountered"},
      {kCudaNotReady, "device not ready"}};
  const auto found = texts.find(error);
  *text = refusal()[0] != '\0' ? refusal() : found != texts.end() ? found->second : "unspecified failure";
  return kCudaSuccess;
}

CUresult cuDeviceGetCount(int *count) {
  BEGIN(cuDeviceGetCount, Rule::NoContext);
  *count = settings().devices;
  return kCudaSuccess;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  BEGIN(cuDeviceGet, Rule::NoContext);
  if (ordinal < 0 || ordinal >= settings().devices)
    return refuse(101, "cuDeviceGet: there is no device " + std::to_string(ordinal));
  *device = ordinal;
  return kCudaSuccess;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice) {
  BEGIN(cuDeviceGetAttribute, Rule::NoContext);
  if (attribute != kMultiprocessors)
    return refuse(kCudaInvalidValue, "cuDeviceGetAttribute: an attribute that is not known here");
  *value = settings().processors;
  return kCudaSuccess;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  BEGIN(cuDevicePrimaryCtxRetain, Rule::NoContext);
  chooseDevice(device);
  *context = reinterpret_cast<CUcontext>(intptr_t(device + 1));
  return kCudaSuccess;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  BEGIN(cuCtxSetCurrent, Rule::NoContext);
  current = context;
  return kCudaSuccess;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  BEGIN(cuCtxGetStreamPriorityRange, Rule::None);
  *least = 0;
  *greatest = -5;
  return kCudaSuccess;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  BEGIN(cuMemGetInfo_v2, Rule::None);
  *total = size_t(settings().memory);
  *free = *total - allocated();
  return kCudaSuccess;
}

CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes) {
  BEGIN(cuMemAlloc_v2, Rule::Waits);
  return allocate(memory, bytes);
}

CUresult cuMemFree_v2(CUdeviceptr memory) {
  BEGIN(cuMemFree_v2, Rule::Waits);
  return release("cuMemFree", memory, false);
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  BEGIN(cuMemHostAlloc, Rule::Waits);
  return pin(memory, bytes);
}

CUresult cuMemFreeHost(void *memory) {
  BEGIN(cuMemFreeHost, Rule::Waits);
  return unpin(memory);
}

CUresult cuMemsetD8_v2(CUdeviceptr memory, unsigned char value, size_t bytes) {
  BEGIN(cuMemsetD8_v2, Rule::Waits);
  const Place to = place("cuMemsetD8", memory, bytes);
  if (!to.data)
    return kCudaIllegalAddress;
  std::memset(to.data, value, bytes);
  return kCudaSuccess;
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  BEGIN(cuMemcpyDtoH_v2, Rule::Waits);
  const Place of = place("cuMemcpyDtoH", from, bytes);
  if (!of.data)
    return kCudaIllegalAddress;
  std::memcpy(to, of.data, bytes);
  return kCudaSuccess;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  BEGIN(cuMemcpyHtoD_v2, Rule::Waits);
  const Place into = place("cuMemcpyHtoD", to, bytes);
  if (!into.data)
    return kCudaIllegalAddress;
  std::memcpy(into.data, from, bytes);
  return kCudaSuccess;
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  BEGIN(cuMemcpyAsync, Rule::None);
  KNOWN(cuMemcpyAsync, stream);
  const Place source = place("cuMemcpyAsync", from, bytes), target = place("cuMemcpyAsync", to, bytes);
  if (!source.data || !target.data)
    return kCudaIllegalAddress;
  const int64_t duration = source.foreign || target.foreign ? settings().wire(int64_t(bytes)) : 0;
  stream->launch(0, [=](int64_t &time) {
    std::memcpy(target.data, source.data, bytes);
    time += duration;
    sleepUntil(time);
  });
  return kCudaSuccess;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr memory) {
  BEGIN(cuIpcGetMemHandle, Rule::None);
  return share(handle, memory);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *memory, CUipcMemHandle handle, unsigned) {
  BEGIN(cuIpcOpenMemHandle_v2, Rule::Waits);
  return openShared(memory, handle);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr memory) {
  BEGIN(cuIpcCloseMemHandle, Rule::Waits);
  return release("cuIpcCloseMemHandle", memory, true);
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int) {
  BEGIN(cuStreamCreateWithPriority, Rule::None);
  if (flags != kStreamNonBlocking)
    return refuse(kCudaInvalidValue, "cuStreamCreateWithPriority: the stream would wait for the default one");
  std::lock_guard lock(mutex);
  const int device = chosenDevice();
  auto &connection = connections[{device, created++ % settings().connections}];
  if (!connection)
    connection = std::make_unique<Connection>();
  streams.push_back(*stream = new CUstream_st(device, *connection));
  return kCudaSuccess;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  BEGIN(cuStreamDestroy_v2, Rule::None);
  KNOWN(cuStreamDestroy_v2, stream);
  {
    std::lock_guard lock(mutex);
    streams.erase(std::find(streams.begin(), streams.end(), stream));
  }
  stream->end();
  return kCudaSuccess;
}

CUresult cuStreamQuery(CUstream stream) {
  BEGIN(cuStreamQuery, Rule::None);
  KNOWN(cuStreamQuery, stream);
  return stream->idle() ? kCudaSuccess : kCudaNotReady;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  BEGIN(cuStreamWaitEvent, Rule::None);
  KNOWN(cuStreamWaitEvent, stream);
  KNOWN(cuStreamWaitEvent, event);
  if (!event->last)
    return refuse(kCudaInvalidValue, "cuStreamWaitEvent: the event was never recorded, so nothing would wait");
  stream->put([record = event->last](int64_t &time) {
    record->complete.wait(false);
    time = std::max(time, record->time);
  });
  return kCudaSuccess;
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags) {
  BEGIN(cuStreamWaitValue64_v2, Rule::None);
  KNOWN(cuStreamWaitValue64_v2, stream);
  const Place word = place("cuStreamWaitValue64", address, 8);
  if (!word.written || flags != kWaitValueAtLeast || address % 64)
    return refuse(kCudaInvalidValue, "cuStreamWaitValue64: expected a word that begins a line of device memory");
  stream->put([=](int64_t &time) {
    for (uint64_t found; int64_t((found = wordAt(word.data).load()) - value) < 0;)
      syscall(SYS_futex, word.data, FUTEX_WAIT, uint32_t(found), nullptr, nullptr, 0);
    time = std::max(time, int64_t(word.written[value % 8]));
  });
  return kCudaSuccess;
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags) {
  BEGIN(cuStreamWriteValue64_v2, Rule::None);
  KNOWN(cuStreamWriteValue64_v2, stream);
  const Place word = place("cuStreamWriteValue64", address, 8);
  if (!word.written || flags != kWriteValueDefault || address % 64)
    return refuse(kCudaInvalidValue, "cuStreamWriteValue64: expected a word that begins a line of device memory");
  stream->put([=](int64_t &time) {
    word.written[value % 8] = uint64_t(time + (word.foreign ? settings().latency : 0));
    wordAt(word.data).store(value);
    wake(word.data);
  });
  return kCudaSuccess;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
  BEGIN(cuLaunchHostFunc, Rule::None);
  KNOWN(cuLaunchHostFunc, stream);
  stream->put([=](int64_t &time) {
    sleepUntil(time);
    function(data);
  });
  return kCudaSuccess;
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
  BEGIN(cuEventCreate, Rule::None);
  std::lock_guard lock(mutex);
  events.insert(*event = new CUevent_st{flags != kEventDisableTiming, nullptr});
  return kCudaSuccess;
}

CUresult cuEventDestroy_v2(CUevent event) {
  BEGIN(cuEventDestroy_v2, Rule::None);
  KNOWN(cuEventDestroy_v2, event);
  std::lock_guard lock(mutex);
  events.erase(event);
  delete event;
  return kCudaSuccess;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  BEGIN(cuEventRecord, Rule::None);
  KNOWN(cuEventRecord, stream);
  KNOWN(cuEventRecord, event);
  event->last = std::make_shared<Record>();
  stream->put([](int64_t &time) { sleepUntil(time); }, event->last);
  return kCudaSuccess;
}

CUresult cuEventQuery(CUevent event) {
  BEGIN(cuEventQuery, Rule::NoContext);
  KNOWN(cuEventQuery, event);
  return !event->last || event->last->complete ? kCudaSuccess : kCudaNotReady;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent first, CUevent last) {
  BEGIN(cuEventElapsedTime, Rule::None);
  KNOWN(cuEventElapsedTime, first);
  KNOWN(cuEventElapsedTime, last);
  if (!first->timed || !last->timed || !first->last || !last->last)
    return refuse(kInvalidHandle, "cuEventElapsedTime: an event has no time");
  if (!first->last->complete || !last->last->complete)
    return kCudaNotReady;
  *milliseconds = float(double(last->last->time - first->last->time) / 1e6);
  return kCudaSuccess;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  BEGIN(cuModuleLoadData, Rule::Waits);
  if (std::string_view(static_cast<const char *>(image)).find(".visible .entry pipec_spin(") == std::string_view::npos)
    return refuse(200, "cuModuleLoadData: this is not the PTX of pipec's kernels");
  *module = reinterpret_cast<CUmodule>(intptr_t(1));
  return kCudaSuccess;
}

CUresult cuModuleUnload(CUmodule) {
  BEGIN(cuModuleUnload, Rule::Waits);
  return kCudaSuccess;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule, const char *name) {
  BEGIN(cuModuleGetFunction, Rule::None);
  static const std::map<std::string_view, Kernel> kernels = {
      {"pipec_spin", Kernel::Spin}, {"pipec_fill", Kernel::Fill}, {"pipec_check", Kernel::Check}};
  const auto found = kernels.find(name);
  if (found == kernels.end())
    return refuse(kCudaNotFound, std::string("cuModuleGetFunction: there is no ") + name);
  *function = reinterpret_cast<CUfunction>(found->second);
  return kCudaSuccess;
}

CUresult cuLaunchKernel(CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        CUstream stream, void **parameters, void **) {
  BEGIN(cuLaunchKernel, Rule::None);
  KNOWN(cuLaunchKernel, stream);
  const auto number = [&](int n) { return *static_cast<uint64_t *>(parameters[n]); };
  const auto memory = [&](int n, uint64_t bytes) { return place("cuLaunchKernel", number(n), bytes); };
  const auto words = [](const Place &of) { return reinterpret_cast<u64 *>(of.data); };
  switch (Kernel(reinterpret_cast<intptr_t>(function))) {
  case Kernel::Spin: {
    const Place times = number(1) ? memory(1, 16) : Place();
    if (number(1) && !times.data)
      return kCudaIllegalAddress;
    stream->launch(1, [times, words, duration = int64_t(number(0))](int64_t &time) {
      if (times.data) {
        words(times)[0] = u64(time);
        words(times)[1] = u64(time + duration);
      }
      time += duration;
      sleepUntil(time);
    });
    return kCudaSuccess;
  }
  case Kernel::Fill: {
    const Place data = memory(0, number(1) * 8);
    if (!data.data)
      return kCudaIllegalAddress;
    stream->launch(1, [=, count = number(1), seed = number(2)](int64_t &) { pipec_fill(words(data), count, seed); });
    return kCudaSuccess;
  }
  case Kernel::Check: {
    const Place data = memory(0, number(1) * 8), wrong = memory(3, 8);
    if (!data.data || !wrong.data)
      return kCudaIllegalAddress;
    stream->launch(1, [=, count = number(1), seed = number(2)](int64_t &) {
      pipec_check(words(data), count, seed, words(wrong));
    });
    return kCudaSuccess;
  }
  case Kernel::None:
    break;
  }
  return refuse(kInvalidHandle, "cuLaunchKernel: there is no such kernel");
}

} // extern "C"

} // namespace pipec::standin
