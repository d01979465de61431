#include "test/standin/Standin.h"

#include "runtime/plan/Units.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <sstream>
#include <unistd.h>

namespace pipec::standin {

namespace {

struct Fault {
  int device = -1;
  std::string call, how;
  int64_t nth = 0;
};

struct Given {
  Settings settings;
  Fault fault;
};

[[noreturn]] void wrong(const std::string &what) {
  std::fprintf(stderr, "PIPEC_STANDIN: %s\n", what.c_str());
  std::_Exit(2);
}

Given read() {
  Given given;
  const char *variable = std::getenv("PIPEC_STANDIN");
  std::istringstream words(variable ? variable : "");
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
    const auto take = [&](const units::Quantity &quantity) {
      if (!quantity.ok())
        wrong(key + ": " + quantity.error);
      return quantity.value;
    };
    if (key == "devices")
      given.settings.devices = int(take(units::parseInteger(value, 0, 64)));
    else if (key == "driver")
      given.settings.version = int(take(units::parseInteger(value, 0, 1'000'000)));
    else if (key == "nccl")
      given.settings.nccl = int(take(units::parseInteger(value, 0, 1'000'000)));
    else if (key == "processors")
      given.settings.processors = int(take(units::parseInteger(value, 1, 1024)));
    else if (key == "issuers")
      given.settings.issuers = int(take(units::parseInteger(value, 1, 64)));
    else if (key == "memory")
      given.settings.memory = take(units::parseSize(value));
    else if (key == "latency")
      given.settings.latency = take(units::parseDuration(value)) / 1000;
    else if (key == "bandwidth")
      given.settings.bandwidth = take(units::parseBandwidth(value));
    else if (key == "log")
      given.settings.log = value + "." + std::to_string(getpid());
    else if (key == "fault") {
      std::istringstream parts(value);
      std::string device, nth;
      std::getline(parts, device, ':');
      std::getline(parts, given.fault.call, ':');
      std::getline(parts, nth, ':');
      std::getline(parts, given.fault.how);
      given.fault.device = int(take(units::parseInteger(device, 0, 63)));
      given.fault.nth = take(units::parseInteger(nth, 1, INT64_MAX));
      if (given.fault.how.empty())
        wrong("fault: expected DEVICE:CALL:NTH:HOW");
    } else {
      wrong("there is no " + key);
    }
  }
  if (const char *connections = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"))
    given.settings.connections = std::max(std::atoi(connections), 1);
  return given;
}

const Given &given() {
  static const Given once = read();
  return once;
}

std::mutex mutex; // over what follows
std::map<std::string, int64_t> calls;
std::string last;
std::atomic<int> device{-1};
std::atomic<bool> broken{false}, stuck{false};

} // namespace

const Settings &settings() { return given().settings; }

int64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

void sleepUntil(int64_t time) {
  const timespec t{time_t(time / 1'000'000'000), long(time % 1'000'000'000)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR)
    ;
}

int entered(const char *call) {
  const Fault &fault = given().fault;
  bool hangs = false;
  {
    std::lock_guard lock(mutex);
    if (!settings().log.empty()) {
      static std::FILE *log = std::fopen(settings().log.c_str(), "w");
      if (log) {
        std::fprintf(log, "%s\n", call);
        std::fflush(log);
      }
    }
    if (fault.call != call || ++calls[call] != fault.nth)
      return 0;
    const char *rank = std::getenv("LOCAL_RANK");
    const int here = device >= 0                  ? device.load()
                     : rank && settings().devices ? std::atoi(rank) % settings().devices
                                                  : 0;
    if (here != fault.device)
      return 0;
    hangs = fault.how == "hang";
    broken = fault.how == "async" || fault.how == "abort";
    stuck = fault.how == "abort";
  }
  while (hangs)
    pause();
  return broken ? 0 : std::atoi(fault.how.c_str());
}

void chooseDevice(int chosen) { device = chosen; }
int chosenDevice() { return std::max(device.load(), 0); }
bool asyncError() { return broken; }
bool abortHangs() { return stuck; }

int refuse(int error, const std::string &why) {
  std::lock_guard lock(mutex);
  last = why.substr(why.find(": ") + 2); // who asks knows the call
  std::fprintf(stderr, "standin: %s\n", why.c_str());
  return error;
}

const char *refusal() {
  std::lock_guard lock(mutex);
  return last.c_str();
}

} // namespace pipec::standin
