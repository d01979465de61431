// The compiler's command line: options here, work in Commands.cpp. Exit codes as in runtime/plan/Status.h.
#include "compiler/driver/Files.h"
#include "compiler/driver/Traces.h"
#include "compiler/schedule/catalogue/Catalogue.h"
#include "compiler/spec/Keys.h"
#include "runtime/plan/Units.h"
#include "runtime/plan/Write.h"
#include "tools/commandline/CommandLine.h"
#include "tools/commandline/Standard.h"
#include "tools/pipec/Commands.h"
#include "tools/pipec/Inputs.h"

#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <string_view>
#include <vector>

namespace {

constexpr int kUsage = 2;

struct Subcommand {
  const char *name, *help, *example;
  void (*declare)(CLI::App &, pipec::CommandOptions &);
  int (*run)(const pipec::CommandOptions &); // null: the command describes the command line itself
};

void input(CLI::App &app, pipec::CommandOptions &options, const char *what) {
  app.add_option("INPUT", options.input, what)->required()->check(pipec::fileName());
}
CLI::Option *output(CLI::App &app, pipec::CommandOptions &options, const char *what) {
  return app.add_option("-o,--output", options.output, what)->check(pipec::fileName());
}
void set(CLI::App &app, pipec::CommandOptions &options) {
  app.add_option("--set", options.set, "key.path=value laid over the spec; may be repeated")->allow_extra_args(false);
}
void time(CLI::App &app, pipec::CommandOptions &options) {
  app.add_option(
      "--time", options.time,
      "that the search for an order, a cut or stages to recompute may take (10s): then the best so far is the "
      "answer, which says so (default: as long as it takes)");
}
/// Adds the option of commands that show a variant's programs.
void variant(CLI::App &app, pipec::CommandOptions &options, const std::string &what) {
  const CLI::Range numbers(0, 255);
  app.add_option_function<std::string>(
         "--variant",
         [&options](const std::string &text) {
           options.variant = text == "evaluate" ? pipec::kEvaluate : std::stoi(text);
         },
         what + "; evaluate: the forwards alone with which runs evaluate")
      ->check(
          CLI::Validator([numbers](std::string &text) { return text == "evaluate" ? std::string() : numbers(text); },
                         "0 to 255, or {evaluate}"));
}
void json(CLI::App &app, pipec::CommandOptions &options) {
  app.add_flag("--json", options.json, "one JSON object on standard output");
}

const Subcommand kSubcommands[] = {
    {"compile", "compile a spec into a plan",
     "pipec compile specs/1f1b.yaml -o 1f1b.pipe\n"
     "pipec compile specs/1f1b.yaml -o 1f1b.pipe --set pipeline.microbatches=32\n"
     "pipec compile specs/zb-v.yaml --emit=torch-csv --torch=2.12 -o zb-v.csv\n"
     "pipec compile specs/zb-v.yaml --emit=svg -o zb-v.svg",
     [](CLI::App &app, pipec::CommandOptions &options) {
       input(app, options, "the spec");
       output(app, options, "the file to write (default: beside the spec, .pipe)");
       set(app, options);
       app.add_option("--emit", options.emit,
                      "plan, pipe (the building block), programs (after all passes), torch-csv (with transfers), "
                      "torch-csv-compute, perfetto, svg (a figure) or html (a page to explore)")
           ->check(CLI::IsMember(
               {"plan", "pipe", "programs", "torch-csv", "torch-csv-compute", "perfetto", "svg", "html"}));
       app.add_option("--torch", options.torch, "the release of PyTorch that reads the CSV (default: 2.15)");
       app.add_option("--steps", options.tracedSteps, "with --emit=perfetto: so many steps (default: 1)")
           ->check(CLI::Range(1, 10'000));
       time(app, options);
       json(app, options);
     },
     pipec::compileCommand},
    {"report", "certificate, bubble rates, peak memory, instruction counts",
     "pipec report specs/1f1b.yaml\n"
     "pipec report specs/1f1b.yaml --json --set costs.link.latency=1ms\n"
     "pipec report specs/kfkb-variants.yaml --network specs/networks/congestion.json --steps 20\n"
     "pipec report specs/kfkb-variants.yaml --network specs/networks/congestion.json --steps 300 --adapt\n"
     "pipec report specs/replan.yaml --network specs/networks/slows-down.json --steps 200 --adapt --replan "
     "specs/replan.yaml",
     [](CLI::App &app, pipec::CommandOptions &options) {
       input(app, options, "a spec or a plan");
       set(app, options);
       auto *network = app.add_option("--network", options.network,
                                      "a scenario (specs/networks): simulate steps under it and list their times")
                           ->check(pipec::fileName());
       app.add_option("--steps", options.steps, "so many steps (default: 10)")
           ->check(CLI::Range(1, 1'000'000))
           ->needs(network);
       time(app, options);
       app.add_flag("--adapt", options.adapt,
                    "choose the variant of each step by what was measured before it, beside each variant fixed, two "
                    "tuners, and an oracle that knows the network")
           ->needs(network);
       app.add_option(
              "--replan", options.replan,
              "with --adapt: this spec is compiled for what was measured, every 10 s and where a link or a rank has "
              "changed, and what pays may be chosen 2 s later")
           ->check(pipec::fileName())
           ->needs("--adapt");
       json(app, options);
     },
     pipec::reportCommand},
    {"search",
     "the schedules that a spec allows, the best first; time against memory; policies of data parallelism; "
     "widths of layers",
     "pipec search specs/auto.yaml\n"
     "pipec search specs/auto.yaml --sweep memory\n"
     "pipec search specs/data-parallel.yaml --sweep data-parallel\n"
     "pipec search specs/burst.yaml",
     [](CLI::App &app, pipec::CommandOptions &options) {
       input(app, options, "the spec");
       set(app, options);
       auto *sweep =
           app.add_option("--sweep", options.sweep,
                          "memory: what the search finds under one limit after another; data-parallel: what a step "
                          "takes under each policy of exchanging gradients between replicas")
               ->check(CLI::IsMember({"memory", "data-parallel"}));
       auto *exact = app.add_flag("--exact", options.exact, "prove the best order optimal, or how far from it it is");
       exact->excludes(sweep);
       app.add_option(
           "--time", options.time,
           "that all of it may take: then come the rows that there are. With --exact what the search has begun "
           "it ends, then nothing more is asked (default: as long as it takes; with --exact 10s)");
       output(app, options, "the best order, as a file for {name: order}")->needs(exact);
       json(app, options);
     },
     pipec::searchCommand},
    {"show", "the timeline in the terminal or as a figure; two plans on one scale; a real run under its prediction",
     "pipec show specs/1f1b.yaml specs/gpipe.yaml\n"
     "pipec show specs/1f1b.yaml --network specs/networks/slow-link.json\n"
     "pipec show specs/pytorch/zb-v.csv\n"
     "pipec show specs/v-half.yaml --emit=svg -o v-half.svg\n"
     "pipec show specs/v-half.yaml --emit=html -o v-half.html\n"
     "pipec compile specs/1f1b.yaml -o 1f1b.pipe && piperun 1f1b.pipe --local --steps 3 --trace run.json\n"
     "pipec show 1f1b.pipe --trace run.json",
     [](CLI::App &app, pipec::CommandOptions &options) {
       input(app, options, "a spec, a plan or an order file");
       app.add_option("OTHER", options.second, "a second one, drawn below on the same scale")->check(pipec::fileName());
       set(app, options);
       app.add_option("--trace", options.trace,
                      "a run of the plan (piperun --trace), drawn under what was predicted, with its decisions; "
                      "'run.*.json': of "
                      "a launched run, a file a rank")
           ->check(pipec::fileName());
       app.add_option("--step", options.step, "which step of that run, from 0 (default: the last that is whole)")
           ->check(CLI::Range(0, 1'000'000));
       app.add_option("--network", options.network,
                      "a scenario (specs/networks): draw what is predicted under it; --step says which step then too "
                      "(default: 0)")
           ->check(pipec::fileName());
       variant(app, options, "which variant (default: 0, and of a run the one that it ran)");
       app.add_option("--emit", options.emit, "svg: a figure instead of text; html: a page to explore")
           ->check(CLI::IsMember({"svg", "html"}));
       output(app, options, "the file to write (default: standard output)");
       app.add_option("--width,--columns", options.columns,
                      "columns (default: COLUMNS, the terminal's, else 80); of a figure pixels (default: 900)")
           ->check(CLI::Range(20, 10000));
       app.add_option("--color", options.colour, "auto, always or never; auto heeds NO_COLOR")
           ->check(CLI::IsMember({"auto", "always", "never"}));
       app.add_flag("--no-color", options.noColour, "as --color never");
     },
     pipec::showCommand},
    {"schedules", "the catalogue: formulas and sources",
     "pipec schedules\n"
     "pipec schedules zb-v",
     [](CLI::App &app, pipec::CommandOptions &options) {
       app.add_option("NAME", options.name, "one schedule (default: all)");
       json(app, options);
     },
     pipec::schedulesCommand},
    {"verify", "check a plan or a PyTorch order: every rule, and that every run of it ends",
     "pipec compile specs/1f1b.yaml -o 1f1b.pipe && pipec verify 1f1b.pipe\n"
     "pipec compile specs/1f1b.yaml -o 1f1b.pipe && pipec verify 1f1b.pipe --communicator=launch_order\n"
     "pipec compile specs/zb-v.yaml --emit=torch-csv -o order.csv && pipec verify order.csv --communicator=per_pair",
     [](CLI::App &app, pipec::CommandOptions &options) {
       input(app, options, "a plan, or an order file of torch.distributed.pipelining (compute_only or compute_comms)");
       app.add_option(
              "--communicator", options.communicator,
              "how an order's transfers queue: per_edge, per_pair, launch_order or shared (default: shared); of "
              "a plan, which says its own, launch_order: whether it ends, and in what time, where transfers start "
              "in the order of issue (NCCL on GPUs)")
           ->check(CLI::IsMember({"per_edge", "per_pair", "launch_order", "shared"}));
       json(app, options);
     },
     pipec::verifyCommand},
    {"explain", "why a rank is idle or busy at a moment; without one, what the schedule's time is made of",
     "pipec explain specs/1f1b.yaml\n"
     "pipec explain specs/1f1b.yaml --rank 1 --at 30ms\n"
     "pipec compile specs/1f1b.yaml -o 1f1b.pipe && piperun 1f1b.pipe --local --steps 3 --trace run.json\n"
     "pipec explain 1f1b.pipe --trace run.json --rank 1 --at 30ms",
     [](CLI::App &app, pipec::CommandOptions &options) {
       input(app, options, "a spec or a plan");
       set(app, options);
       app.add_option("--rank", options.rank, "the rank")->check(CLI::Range(0, 65535));
       app.add_option("--at", options.at, "the moment, from the start of the first step (30ms)");
       app.add_option("--variant", options.variant, "which variant (default: 0)")->check(CLI::Range(0, 255));
       app.add_option("--trace", options.trace,
                      "of a run (piperun --trace) instead, what really held the rank up; 'run.*.json': of a launched "
                      "run, a file a rank")
           ->check(pipec::fileName());
       app.add_option("--step", options.step, "which step of that run, from 0 (default: the last that is whole)")
           ->check(CLI::Range(0, 1'000'000));
       json(app, options);
     },
     pipec::explainCommand},
    {"replan", "plan anew for what a run that adapts has measured, and let it choose what pays",
     "pipec compile specs/replan.yaml -o replan.pipe && pipec replan specs/replan.yaml --check replan.pipe\n"
     "piperun replan.pipe --local --steps 40 --replan specs/replan.yaml",
     [](CLI::App &app, pipec::CommandOptions &options) {
       input(app, options, "the spec");
       set(app, options);
       auto *control = app.add_option("--control", options.control, "the socket of the run (piperun --control)")
                           ->check(pipec::fileName());
       app.add_option("--check", options.check, "a plan: only say whether plans of the spec may run in its place")
           ->check(pipec::fileName())
           ->excludes(control);
       app.add_option("--every", options.every,
                      "from one round to the next, unless a link or a rank changes (default: 10s)");
       app.add_option("--gain", options.gain, "that a step must gain at least, for a plan to be loaded (default: 2%)");
       app.add_flag("--cut", options.cut,
                    "move layers between stages too where that pays, through a checkpoint between two steps: the run "
                    "needs --checkpoint, and a stage library that saves by layer");
       app.add_flag("--once", options.once, "one round (default: until the run ends)");
       app.add_flag("--dry-run", options.dryRun, "load nothing");
       json(app, options);
     },
     pipec::replanCommand},
    {"disasm", "a plan as text", "pipec compile specs/1f1b.yaml -o 1f1b.pipe && pipec disasm 1f1b.pipe --rank 0",
     [](CLI::App &app, pipec::CommandOptions &options) {
       input(app, options, "a plan");
       app.add_option("--rank", options.rank, "one rank (default: all)")->check(CLI::Range(0, 65535));
       variant(app, options, "one variant (default: all)");
     },
     pipec::disasmCommand},
    {"completion", "a script that completes this command line in bash or zsh",
     "source <(pipec completion bash)\n"
     "pipec completion zsh > _pipec",
     [](CLI::App &app, pipec::CommandOptions &options) {
       app.add_option("SHELL", options.name, "bash or zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
     },
     nullptr},
    {"man", "a manual page: of pipec, or of one of its commands",
     "pipec man show > pipec-show.1\n"
     "pipec man > pipec.1",
     [](CLI::App &app, pipec::CommandOptions &options) {
       app.add_option("COMMAND", options.name, "one command (default: pipec itself)");
     },
     nullptr},
};

std::string examplesOf(const Subcommand &command) {
  std::string text = "Examples:";
  for (std::string_view rest = command.example; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    text += fmt::format("\n  {}", rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return text;
}

int unknownCommand(const std::string &name, bool json) {
  std::vector<std::string_view> known;
  for (const Subcommand &each : kSubcommands)
    known.push_back(each.name);
  const std::string_view near = pipec::spec::nearest(name, known);
  const std::string message = fmt::format("unknown command {}, {}", pipec::units::quoted(name),
                                          near.empty() ? fmt::format("expected one of {}", fmt::join(known, ", "))
                                                       : fmt::format("did you mean '{}'?", near));
  pipec::say("pipec: error: {}\nRun pipec --help for more information.\n", message);
  if (json)
    pipec::printFailure(message, kUsage);
  return kUsage;
}

/// Prints what is wrong with a command's options, and where to read on; names the nearest known option for an unknown
/// one. Returns the exit code.
int wrongUsage(const CLI::ParseError &error, const CLI::App &app, int argc, char **argv) {
  const auto chosen = app.get_subcommands();
  const std::string name = chosen.empty() ? "pipec" : "pipec " + chosen.front()->get_name();
  std::string message = error.what();
  const std::string extra = "not expected: ";
  if (const size_t at = message.find(extra); at != std::string::npos) {
    // Of several unknown words the first option, as the others may be its values.
    std::string found;
    for (std::string_view rest = std::string_view(message).substr(at + extra.size()); !rest.empty();) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(word.size() + 1, rest.size()));
      if (found.empty() || (word.starts_with("-") && !found.starts_with("-")))
        found = word;
    }
    std::vector<std::string> names;
    for (const CLI::Option *option : (chosen.empty() ? app : *chosen.front()).get_options())
      for (const std::string &each : option->get_lnames())
        names.push_back("--" + each);
    const std::vector<std::string_view> known(names.begin(), names.end());
    const std::string_view near = pipec::spec::nearest(found, known);
    message = fmt::format("unexpected argument {}{}", pipec::units::quoted(found),
                          near.empty() ? "" : fmt::format(", did you mean '{}'?", near));
  }
  pipec::say("{}: error: {}\nRun {} --help for more information.\n", name, message, name);
  if (std::find(argv, argv + argc, std::string_view("--json")) != argv + argc)
    pipec::printFailure(message, kUsage);
  return kUsage;
}

/// Prints what describes the command line itself. Returns the exit code.
int describe(const CLI::App &app, std::string_view command, const std::string &name) {
  std::string text;
  if (command == "completion") {
    pipec::Choices choices;
    for (const pipec::schedule::Entry &entry : pipec::schedule::catalogue())
      choices["schedules"].emplace_back(entry.name);
    for (const Subcommand &each : kSubcommands)
      choices["man"].emplace_back(each.name);
    text = pipec::completion(app, name, choices);
  } else if (name.empty() || std::any_of(std::begin(kSubcommands), std::end(kSubcommands),
                                         [&](const Subcommand &each) { return name == each.name; })) {
    text = pipec::manual(app, name, PIPEC_VERSION);
  } else {
    return unknownCommand(name, false);
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

/// Reports that memory ran out although the estimate (compiler/driver/CompileMemory.h) did not refuse the compile.
/// Returns the exit code.
int outOfMemory() {
  pipec::say("pipec: error: out of memory: expected fewer microbatches or stages, or more memory\n");
  return int(pipec::Code::Run);
}

} // namespace

int main(int argc, char **argv) {
  pipec::guardStandardStreams();
  // By default LLVM would abort.
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { std::_Exit(outOfMemory()); });
  struct Messages {
    ~Messages() {
      llvm::errs().clear_error();
    } // else LLVM would end the process for a message that could not be written
  } messages;
  CLI::App app(
      "pipec compiles pipeline-parallel training schedules: a YAML spec becomes a checked plan that piperun runs");
  app.name("pipec");
  app.set_version_flag("--version", "pipec " PIPEC_VERSION);
  app.require_subcommand(1);
  app.footer("Examples:\n"
             "  pipec show specs/1f1b.yaml\n"
             "  pipec report specs/1f1b.yaml --set pipeline.microbatches=32\n"
             "  pipec compile specs/1f1b.yaml -o 1f1b.pipe && piperun 1f1b.pipe --local\n"
             "  pipec compile --help\n\n"
             "Exit codes: 0 done, 1 the input is wrong, 2 the usage is wrong, 3 a check failed, 4 the run failed, "
             "130 a search was interrupted.");
  pipec::CommandOptions options;
  std::map<CLI::App *, const Subcommand *> known;
  for (const Subcommand &each : kSubcommands) {
    CLI::App *sub = app.add_subcommand(each.name, each.help);
    sub->footer(examplesOf(each));
    each.declare(*sub, options);
    known[sub] = &each;
  }
  const auto isFirst = [&](const Subcommand &each) { return std::string_view(argv[1]) == each.name; };
  if (argc > 1 && argv[1][0] != '-' && std::none_of(std::begin(kSubcommands), std::end(kSubcommands), isFirst))
    return unknownCommand(argv[1], std::find(argv, argv + argc, std::string_view("--json")) != argv + argc);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &asked) { // --help, --version
    app.exit(asked);
    return pipec::outputWritten() ? 0 : pipec::outputFailed("pipec");
  } catch (const CLI::ParseError &error) {
    return wrongUsage(error, app, argc, argv);
  }
  int code = 0;
  try {
    std::vector<std::string> read;
    (void)pipec::traceFiles(options.trace, read); // errors are reported when the files are read
    read.insert(read.end(), {options.input, options.second, options.network, options.replan, options.check});
    for (const std::string &file : read)
      if (const pipec::Status status = pipec::keepsInputs(options.output, {file}); !status.ok())
        return pipec::fail(options, options.input, status);
    if (const pipec::Status status = pipec::plan::canWrite(options.output == pipec::kStandard ? "" : options.output);
        !status.ok())
      return pipec::fail(options, options.output, status);
    const Subcommand &chosen = *known.at(app.get_subcommands().front());
    code = chosen.run ? chosen.run(options) : describe(app, chosen.name, options.name);
  } catch (const std::bad_alloc &) {
    return outOfMemory();
  } catch (const std::system_error &) { // the output does not fit into a buffer and cannot be written
    return pipec::outputFailed("pipec");
  }
  return pipec::outputWritten() ? code : pipec::outputFailed("pipec");
}
