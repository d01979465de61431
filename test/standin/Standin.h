// What both stand-ins are told: PIPEC_STANDIN="devices=4 memory=16GiB latency=100us bandwidth=40GB/s log=PATH
// fault=DEVICE:CALL:NTH:HOW", each optional. They take the places of libcuda.so.1 and libnccl.so.2 and hold who calls
// them to the rules of both, more strictly than these do. Time is carried from deadline to deadline, in nanoseconds of
// CLOCK_MONOTONIC.
#pragma once

#include <cstdint>
#include <string>

namespace pipec::standin {

struct Settings {
  int devices = 1;
  int processors = 132;               // multiprocessors of a device
  int64_t memory = int64_t(64) << 30; // bytes of a device, for a process
  int64_t latency = 0;                // nanoseconds, between devices
  int64_t bandwidth = 0;              // bytes a second, likewise; 0: unlimited
  int version = 13000;                // of the driver, as cuDriverGetVersion says it
  int nccl = 22800;                   // NCCL's version, as ncclGetVersion says it
  std::string log;                    // each process's at this path with its id
  int issuers = 1;                    // threads that may put work on a stream
  int connections = 8;                // CUDA_DEVICE_MAX_CONNECTIONS, as CUDA reads it

  int64_t wire(int64_t bytes) const { return bandwidth ? int64_t(__int128(bytes) * 1'000'000'000 / bandwidth) : 0; }
};
const Settings &settings();

int64_t now();
void sleepUntil(int64_t time);

/// Notes a call in the log and does what the settings have for it: returns the error that it is to return, or 0; or
/// never returns.
int entered(const char *call);
/// The device of this process, for the settings' fault; before it has one it is that of LOCAL_RANK.
void chooseDevice(int device);
int chosenDevice();
/// Whether a communicator of this process is to report an error, and whether aborting it hangs.
bool asyncError();
bool abortHangs();

/// Keeps what was wrong for who asks what an error means, and says it on standard error. Returns `error`.
int refuse(int error, const std::string &why);
/// Of the last refusal in this process; empty: there was none.
const char *refusal();

} // namespace pipec::standin
