#include "tools/piperun/Replanner.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <spdlog/spdlog.h>
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

/// Starts a program. What it says on standard output is no result of this one.
int spawn(const std::vector<std::string> &words, bool verbose, pid_t &child) {
  std::vector<char *> argv;
  for (const std::string &word : words)
    argv.push_back(const_cast<char *>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (verbose)
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  else
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP); // Ctrl-C is for the run, whose end is this one's
  posix_spawnattr_setpgroup(&attributes, 0);
  const int error = posix_spawn(&child, argv.front(), &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

int waitFor(pid_t child) {
  int how = 0;
  while (::waitpid(child, &how, 0) < 0 && errno == EINTR)
    ;
  return how;
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
