#include "tools/piperun/Replanner.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace pipec::piperun {

namespace {

std::string findPipec() {
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  std::vector<std::filesystem::path> folders;
  if (!error)
    folders.push_back(own.parent_path());
  const char *path = std::getenv("PATH");
  for (std::string rest = path ? path : ""; !rest.empty();) {
    const size_t end = std::min(rest.find(':'), rest.size());
    folders.push_back(rest.substr(0, end));
    rest.erase(0, end + 1);
  }
  for (const std::filesystem::path &folder : folders)
    if (const std::filesystem::path found = folder / "pipec"; ::access(found.c_str(), X_OK) == 0)
      return found.string();
  return "";
}

int waitFor(pid_t child) {
  int how = 0;
  while (::waitpid(child, &how, 0) < 0 && errno == EINTR)
    ;
  return how;
}

/// The child's side of a fork of a process with threads: only calls that signal handlers may make too. Returns why the
/// program could not be started.
int become(char *const *argv, bool verbose, pid_t parent) {
  ::setpgid(0, 0); // Ctrl-C is for the run, whose end is this one's
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) // it had ended before
    ::_exit(int(Code::Run));
  const int out = verbose ? STDERR_FILENO : ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (out >= 0 && ::dup2(out, STDOUT_FILENO) >= 0)
    ::execv(argv[0], argv);
  return errno;
}

/// Starts a program, which ends with the calling thread whatever ends that. What it says on standard output is no
/// result of this one.
int spawn(const std::vector<std::string> &words, bool verbose, pid_t &child) {
  std::vector<char *> argv;
  for (const std::string &word : words)
    argv.push_back(const_cast<char *>(word.c_str()));
  argv.push_back(nullptr);
  int ends[2]; // through which the child says what was wrong, before it is the program
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return errno;
  const pid_t parent = ::getpid();
  child = ::fork();
  if (child == 0) {
    const int wrong = become(argv.data(), verbose, parent);
    const ssize_t written = ::write(ends[1], &wrong, sizeof wrong);
    ::_exit(written == sizeof wrong ? int(Code::Run) : 127);
  }
  int error = child < 0 ? errno : 0;
  ::close(ends[1]);
  if (child > 0 && ::read(ends[0], &error, sizeof error) == sizeof error) {
    waitFor(child);
    child = -1;
  }
  ::close(ends[0]);
  return error;
}

Status cannotStart(const std::string &program, int error) {
  return Status::run(fmt::format("--replan: cannot start {}: {}", program, std::strerror(error)));
}

} // namespace

Replanner::~Replanner() {
  if (child > 0) {
    ::kill(child, SIGTERM);
    waitFor(child);
  }
  std::error_code ignored;
  if (!folder.empty())
    std::filesystem::remove_all(folder, ignored);
}

void Replanner::watch() {
  int how = 0;
  if (child <= 0 || ::waitpid(child, &how, WNOHANG) != child)
    return;
  child = -1;
  if (WIFSIGNALED(how))
    spdlog::warn("pipec replan was killed by signal {}: the run goes on as it is", WTERMSIG(how));
  else if (WEXITSTATUS(how) != 0)
    spdlog::warn("pipec replan ended with exit code {}: the run goes on as it is", WEXITSTATUS(how));
}

Status Replanner::check(const std::string &given, const std::string &plan) {
  spec = given;
  pipec = findPipec();
  if (pipec.empty())
    return Status::usage("--replan needs pipec, which is neither beside piperun nor in PATH");
  pid_t checking = -1;
  if (const int error = spawn({pipec, "replan", spec, "--check", plan}, verbose, checking); error != 0)
    return cannotStart(pipec, error);
  const int how = waitFor(checking);
  if (WIFEXITED(how) && WEXITSTATUS(how) == 0)
    return {};
  return {WIFEXITED(how) && WEXITSTATUS(how) <= int(Code::Run) ? Code(WEXITSTATUS(how)) : Code::Run,
          "--replan: nothing can be planned for this run by this spec"};
}

Status Replanner::makeSocket(std::string &path) {
  std::error_code error;
  std::string name = (std::filesystem::temp_directory_path(error) / "piperun-XXXXXX").string();
  if (error || !::mkdtemp(name.data()))
    return Status::run(fmt::format("--replan: no folder for a socket: {}", std::strerror(errno)));
  folder = name;
  path = (folder / "control").string();
  return {};
}

Status Replanner::start(const std::string &control) {
  std::vector<std::string> words{pipec, "replan", spec, "--control", control};
  if (cut)
    words.emplace_back("--cut");
  const int error = spawn(words, verbose, child);
  return error == 0 ? Status{} : cannotStart(pipec, error);
}

} // namespace pipec::piperun
