// The trace of events written by hand: names, tracks, arrows, live bytes, merging.
#include "runtime/trace/Read.h"
#include "test/plan/MakePlan.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <tuple>

namespace pipec::trace {
namespace {

using nlohmann::json;
using plan::Kind;
using plan::Payload;
using plan::Time;

/// Two ranks, each instruction after the one before, receives longer than their queue is held.
struct Sample {
  plan::Plan plan;
  std::vector<Event> events;

  explicit Sample(bool deferred = false) {
    plan::test::Make make;
    make.ranks = 2;
    make.deferred = deferred;
    plan = plan::test::makePlan(make);
    for (int64_t step = 0; step < 2; ++step)
      for (const plan::Program &program : variant().programs) {
        Time now = 1'000'000'000'000 * step + 123;
        for (plan::Cursor c(program); !c.done(); c.next()) {
          const plan::Step s = c.at();
          const plan::Operation &o = *s.operation;
          Time length = o.cost;
          if (o.kind == Kind::Recv) // arrives while the next one already runs
            length += 3 * o.cost;
          events.push_back({program.rank, s.instruction->queue, o.kind, o.of, o.stage, o.peer, s.microbatch(), step, 1,
                            now, now + length});
          now += o.cost / (o.kind == Kind::Recv ? 100 : 1);
        }
      }
  }
  const plan::Variant &variant() const { return plan.variants[0]; }
  json traced() const { return json::parse(toJson(variant(), events))["traceEvents"]; }
};

std::vector<json> ofPhase(const json &events, const std::string &phase) {
  std::vector<json> found;
  for (const json &event : events)
    if (event["ph"] == phase)
      found.push_back(event);
  return found;
}

TEST(Trace, OneSliceAnInstruction) {
  const Sample run;
  const std::vector<json> slices = ofPhase(run.traced(), "X");
  ASSERT_EQ(slices.size(), run.events.size());
  EXPECT_EQ(slices[0], json::parse(R"({"ph":"X","name":"F0","cat":"compute","pid":0,"tid":0,"ts":0.000123,"dur":10000.0,
    "args":{"step":0,"stage":0,"kind":"F","microbatch":0,"epoch":1}})"));
  EXPECT_EQ(slices[1]["name"], "send F0");
  EXPECT_EQ(slices[1]["args"]["of"], "F");
  EXPECT_EQ(slices[1]["args"]["kind"], "send");
  std::set<std::string> kinds;
  for (const json &slice : slices)
    kinds.insert(slice["args"]["kind"].get<std::string>());
  EXPECT_EQ(kinds, (std::set<std::string>{"F", "BW", "send", "recv", "optimizer"}));
}

TEST(Trace, PicosecondsAreKept) {
  Sample run;
  run.events.resize(1);
  run.events[0].start = 1'234'567'890'123'456;
  run.events[0].end = run.events[0].start + 1;
  const std::string text = toJson(run.variant(), run.events);
  EXPECT_NE(text.find("\"ts\":1234567890.123456,\"dur\":0.000001,"), std::string::npos) << text;
}

TEST(Trace, MicrobatchesOfASecondCopyGoOnFromTheFirsts) {
  Sample run;
  run.plan.variants[0].copies = run.variant().stages; // each stage is a copy
  int forwards = 0;
  for (const json &slice : ofPhase(run.traced(), "X")) {
    if (slice["args"]["kind"] != "F")
      continue;
    const int64_t own = slice["args"]["microbatch"],
                  before = int64_t(slice["args"]["stage"]) * run.variant().microbatches;
    EXPECT_EQ(slice["name"], json("F").get<std::string>().append(std::to_string(own + before)));
    ++forwards;
  }
  EXPECT_GT(forwards, run.variant().microbatches);
}

TEST(Trace, Names) {
  const Sample run;
  std::map<std::pair<int, int>, std::string> threads;
  std::map<int, std::string> processes;
  for (const json &event : ofPhase(run.traced(), "M")) {
    if (event["name"] == "thread_name")
      threads[{event["pid"], event["tid"]}] = event["args"]["name"];
    if (event["name"] == "process_name")
      processes[event["pid"]] = event["args"]["name"];
  }
  EXPECT_EQ(processes, (std::map<int, std::string>{{0, "rank 0"}, {1, "rank 1"}}));
  EXPECT_EQ((threads[{0, 0}]), "compute");
  EXPECT_EQ((threads[{0, 1}]), "send to 1");
  EXPECT_EQ((threads[{0, 2}]), "recv from 1");
  const std::vector<Rank> ranks = describe(run.variant());
  EXPECT_EQ(ranks[1].queues, (std::vector<std::string>{"compute", "recv from 0", "send to 0"}));
}

TEST(Trace, SlicesOfATrackNeverOverlap) {
  Sample run;
  // Two receives under way at once, on one queue.
  for (int n = 0; n < 3; ++n)
    run.events.push_back(
        {1, 1, Kind::Recv, Payload::Forward, 1, 0, n, 9, 0, 9'000'000'000'000 + n * 10, 9'000'000'000'025 + n * 10});
  const json events = run.traced();
  std::map<std::pair<int, int64_t>, std::vector<std::pair<double, double>>> tracks;
  for (const json &slice : ofPhase(events, "X"))
    tracks[{slice["pid"], slice["tid"]}].push_back({slice["ts"], double(slice["ts"]) + double(slice["dur"])});
  EXPECT_TRUE(tracks.count({1, 2001})) << "three at once";
  for (auto &[track, slices] : tracks) {
    std::sort(slices.begin(), slices.end());
    for (size_t i = 1; i < slices.size(); ++i)
      EXPECT_LE(slices[i - 1].second, slices[i].first + 1e-7) << track.first << " " << track.second;
  }
  EXPECT_NE(events.dump().find("\"recv from 0 (3)\""), std::string::npos);
}

TEST(Trace, ArrowsPairUp) {
  const Sample run;
  const json events = run.traced();
  std::map<std::string, std::vector<int>> sends, receives;
  for (const json &event : ofPhase(events, "s"))
    sends[event["id"]].push_back(event["pid"]);
  for (const json &event : ofPhase(events, "f")) {
    EXPECT_EQ(event["bp"], "e");
    receives[event["id"]].push_back(event["pid"]);
  }
  EXPECT_EQ(sends.size(), 2u * 2 * 8); // steps, payloads, microbatches
  ASSERT_EQ(sends.size(), receives.size());
  for (const auto &[id, from] : sends) {
    ASSERT_EQ(from.size(), 1u) << id;
    ASSERT_EQ(receives[id].size(), 1u) << id;
    EXPECT_NE(receives[id][0], from[0]);
  }
}

TEST(Trace, LiveBytesEndAtZero) {
  for (const bool deferred : {false, true}) {
    const Sample run(deferred);
    std::map<int, int64_t> last, most;
    std::map<int, double> time;
    for (const json &event : ofPhase(run.traced(), "C")) {
      const int rank = event["pid"];
      EXPECT_GT(double(event["ts"]), time[rank]);
      time[rank] = event["ts"];
      last[rank] = event["args"]["bytes"];
      EXPECT_GE(last[rank], 0);
      most[rank] = std::max(most[rank], last[rank]);
    }
    EXPECT_EQ(last, (std::map<int, int64_t>{{0, 0}, {1, 0}}));
    if (!deferred) {
      const plan::test::Make make;
      EXPECT_EQ(most[0], 2 * (make.activation + make.context)) << "rank 0 of two holds two microbatches";
    }
  }
}

TEST(Trace, NoEvents) { EXPECT_TRUE(json::parse(toJson(Sample().variant(), {}))["traceEvents"].empty()); }

TEST(Trace, ReadsBackWhatIsWritten) {
  const Sample run;
  trace::Run again;
  const Status status = fromJson(toJson(run.variant(), run.events), again);
  ASSERT_TRUE(status.ok()) << status.message;
  ASSERT_EQ(again.events.size(), run.events.size());
  EXPECT_TRUE(again.decisions.empty());
  for (size_t i = 0; i != again.events.size(); ++i) {
    const Event &a = run.events[i], &b = again.events[i];
    EXPECT_EQ(std::tie(a.rank, a.kind, a.of, a.stage, a.microbatch, a.step, a.epoch, a.start, a.end),
              std::tie(b.rank, b.kind, b.of, b.stage, b.microbatch, b.step, b.epoch, b.start, b.end));
  }
}

TEST(Trace, ReadPassesOverWhatIsNotOurs) {
  const std::string ours = R"({"ph":"X","pid":0,"ts":1,"dur":2,"args":{"step":0,"stage":0,"kind":"F","microbatch":3}})";
  const std::string strange[] = {
      "7",
      R"({"ph":"X"})",
      R"({"ph":"X","pid":0,"ts":1,"dur":2,"args":7})",
      R"({"ph":"X","pid":-1,"ts":1,"dur":2,"args":{"kind":"kernel","stream":3}})",
      R"({"ph":"i","pid":-1,"ts":1,"dur":2,"args":{"step":0,"stage":0,"kind":"F","microbatch":3}})",
      R"({"ph":"i","ts":1,"args":{"step":0,"from":"k=1","to":"k=2"}})",
      R"({"ph":"i","cat":"decision","ts":1,"args":{"step":0,"threshold":7}})"};
  for (const std::string &each : strange) {
    trace::Run run;
    const Status status = fromJson("{\"traceEvents\":[" + each + "," + ours + "]}", run);
    ASSERT_TRUE(status.ok()) << each << ": " << status.message;
    ASSERT_EQ(run.events.size(), 1u) << each;
    EXPECT_EQ(run.events[0].microbatch, 3);
    EXPECT_EQ(run.events[0].end, 3'000'000);
    EXPECT_TRUE(run.decisions.empty());
  }
}

TEST(Trace, ReadKeepsNothingOfWhatIsNotOurs) {
  const std::string ours = R"({"ph":"X","pid":0,"ts":1,"dur":2,"args":{"step":0,"stage":0,"kind":"F","microbatch":3}})";
  const std::string other =
      R"({"ph":"X","pid":9,"ts":1,"dur":2,"args":{"step":0,"stage":0,"kind":"F","microbatch":9}})";
  for (const std::string &text :
       {"{\"other\":[" + other + "],\"traceEvents\":[" + ours + "]}", // only what stands among the events
        "{\"traceEvents\":[[" + other + "]," + ours + ",{\"x\":[" + other + "],\"args\":[" + other + "]}]}",
        "{\"traceEvents\":[{\"args\":7,\"x\":{\"args\":" + other + "}}," + ours + "],\"y\":{\"traceEvents\":[" + other +
            "]}}"}) {
    trace::Run run;
    const Status status = fromJson(text, run);
    ASSERT_TRUE(status.ok()) << text << ": " << status.message;
    ASSERT_EQ(run.events.size(), 1u) << text;
    EXPECT_EQ(run.events[0].microbatch, 3);
  }
}

TEST(Trace, ReadRefusesWhatIsNoTrace) {
  trace::Run run;
  for (const char *bad : {"", "{", "[]", "7", "{\"traceEvents\":7}", "{\"traceEvents\":[]}"}) {
    const Status status = fromJson(bad, run);
    EXPECT_EQ(status.code, Code::Input) << bad;
    EXPECT_EQ(status.message.substr(0, 9), "the trace") << status.message;
  }
}

TEST(Trace, SaysWhereItIsDamaged) {
  trace::Run run;
  const Status status = fromJson("{\"traceEvents\":[\n  {\"ts\": NaN}]}", run);
  EXPECT_EQ(status.message, "the trace is damaged at line 2, column 10: expected JSON");
}

TEST(Trace, SaysWhichInstructionIsDamaged) {
  const std::string damaged[][2] = {
      {R"("pid":-1,"ts":1,"dur":2,"args":{"step":0,"stage":0,"kind":"F","microbatch":3}})",
       "a whole number from 0 to 65535 as \"pid\" of an instruction, found -1"},
      {R"("pid":18446744073709551615,"ts":1,"dur":2,"args":{"step":0,"stage":0,"kind":"F","microbatch":3}})",
       "a whole number from 0 to 65535 as \"pid\" of an instruction, found 18446744073709551615"},
      {R"("pid":0,"ts":1e300,"dur":2,"args":{"step":0,"stage":0,"kind":"F","microbatch":3}})",
       "microseconds, of at most 11 days, as \"ts\" of an instruction, found 1e+300"},
      {R"("pid":0,"ts":1,"dur":-2,"args":{"step":0,"stage":0,"kind":"F","microbatch":3}})",
       "microseconds from 0 on, of at most 11 days, as \"dur\" of an instruction, found -2"},
      {R"("pid":0,"ts":1,"dur":2,"args":{"step":0,"stage":0,"kind":"Q","microbatch":3}})",
       "F, B, W or another kind as \"kind\" of an instruction, found \"Q\""},
      {R"("pid":0,"ts":1,"args":{"step":0,"stage":0,"kind":"F","microbatch":3}})",
       "microseconds from 0 on, of at most 11 days, as \"dur\" of an instruction, found none"},
      {R"("pid":0,"ts":1,"dur":2,"args":{"step":0,"kind":"F"}})",
       "a whole number from 0 to 1048575 as \"stage\" of an instruction, found none"}};
  const std::string ours = R"({"ph":"X","pid":0,"ts":1,"dur":2,"args":{"step":0,"stage":0,"kind":"F","microbatch":3}})";
  for (const auto &[rest, expected] : damaged) {
    trace::Run run;
    const Status status =
        fromJson("{\"traceEvents\":[\n" + ours + ",\n  {\"ph\":\"X\"," + rest + ",\n" + ours + "]}", run);
    EXPECT_EQ(status.message, "the trace is damaged at line 3, column 3: expected " + expected);
    EXPECT_TRUE(run.events.empty());
  }
}

Event piece(int32_t rank, Time start, Time end, int64_t atoms) {
  Event made;
  made.rank = rank;
  made.queue = 7;
  made.step = 1;
  made.start = start;
  made.end = end;
  made.atoms = atoms;
  return made;
}

TEST(Trace, PiecesOfJobsStandOnATrackOfTheirOwn) {
  const Sample sample;
  std::vector<Event> events = sample.events;
  const auto queues = uint32_t(sample.variant().programs[1].queues.size());
  for (const int64_t n : {0, 1}) {
    events.push_back(piece(1, 1'000'001 + n * 5'000'000, 3'000'002 + n * 5'000'000, 4));
    events.back().queue = queues;
  }
  const std::string text = toJson(describe(sample.variant()), events);
  int named = 0;
  for (const json &each : ofPhase(json::parse(text)["traceEvents"], "M"))
    named += each["name"] == "thread_name" && each["args"]["name"] == "jobs" && each["pid"] == 1;
  EXPECT_EQ(named, 1);
  EXPECT_NE(text.find(R"("name":"job","cat":"job","pid":1,)"), std::string::npos);
  trace::Run run;
  const Status status = fromJson(text, run);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(run.events.size(), sample.events.size());
  ASSERT_EQ(run.pieces.size(), 2u);
  EXPECT_EQ(run.pieces[1].rank, 1);
  EXPECT_EQ(run.pieces[1].step, 1);
  EXPECT_EQ(run.pieces[1].start, 6'000'001);
  EXPECT_EQ(run.pieces[1].end, 8'000'002);
  EXPECT_EQ(run.pieces[1].atoms, 4);
}

TEST(Trace, SaysWhichPieceIsDamaged) {
  const std::string damaged[][2] = {
      {R"("pid":-1,"ts":1,"dur":2,"args":{"step":0,"kind":"job","atoms":3})",
       "a whole number from 0 to 65535 as \"pid\" of a job's piece, found -1"},
      {R"("pid":0,"ts":1,"dur":2,"args":{"step":0,"kind":"job","atoms":-3})",
       "a whole number from 0 to 1000000000000000000 as \"atoms\" of a job's piece, found -3"},
      {R"("pid":0,"ts":1,"args":{"step":0,"kind":"job","atoms":3})",
       "microseconds from 0 on, of at most 11 days, as \"dur\" of a job's piece, found none"}};
  for (const auto &[rest, expected] : damaged) {
    trace::Run run;
    const Status status = fromJson("{\"traceEvents\":[\n  {\"ph\":\"X\",\"cat\":\"job\"," + rest + "}\n]}", run);
    EXPECT_EQ(status.message, "the trace is damaged at line 2, column 3: expected " + expected);
  }
}

const std::vector<Decision> kDecisions = {
    {1'234'567'890'123, 7, "k=1", "k=2", "now 15 %", "1834 us a step for 50 steps, against 400 us for the swap"},
    {-1, 0, "k=\"2\"\\", "größer\n\x01", "", "</script>"}};

TEST(Trace, DecisionsAreMarksAcrossAllRanks) {
  const Sample run;
  const std::string without = toJson(describe(run.variant()), run.events),
                    with = toJson(describe(run.variant()), run.events, kDecisions);
  EXPECT_EQ(toJson(describe(run.variant()), run.events, {}), without);
  const std::string shared = without.substr(0, without.find("\n]}"));
  EXPECT_EQ(with.substr(0, shared.size()), shared) << "all else is as it was";
  const std::vector<json> marks = ofPhase(json::parse(with)["traceEvents"], "i");
  ASSERT_EQ(marks.size(), 2u);
  EXPECT_EQ(marks[0],
            json::parse(R"({"ph":"i","s":"g","name":"k=1 -> k=2","cat":"decision","pid":0,"tid":0,"ts":1234567.890123,
    "args":{"step":7,"from":"k=1","to":"k=2","policy":"now 15 %",
            "why":"1834 us a step for 50 steps, against 400 us for the swap"}})"));
}

TEST(Trace, ReadsDecisionsBack) {
  const Sample sample;
  trace::Run run;
  const Status status = fromJson(toJson(describe(sample.variant()), sample.events, kDecisions), run);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(run.events.size(), sample.events.size());
  EXPECT_EQ(run.decisions, kDecisions);
}

TEST(Trace, NamesThatAreNotUtf8AreWrittenAllTheSame) {
  const Sample sample;
  trace::Run run;
  const std::vector<Decision> strange = {{1, 2, "\xff", "b", "now", ""}};
  ASSERT_TRUE(fromJson(toJson(describe(sample.variant()), sample.events, strange), run).ok());
  ASSERT_EQ(run.decisions.size(), 1u);
  EXPECT_EQ(run.decisions[0].from, "\xef\xbf\xbd");
}

TEST(Trace, SaysWhichDecisionIsDamaged) {
  const std::string damaged[][2] = {
      {R"("ts":"now","args":{"step":1,"from":"a","to":"b","policy":"now","why":"x"})",
       "microseconds, of at most 11 days, as \"ts\" of a decision, found \"now\""},
      {R"("ts":1,"args":{"step":-1,"from":"a","to":"b","policy":"now","why":"x"})",
       "a whole number from 0 to 1099511627776 as \"step\" of a decision, found -1"},
      {R"("ts":1,"args":{"step":1,"from":0,"to":"b","policy":"now","why":"x"})",
       "a text as \"from\" of a decision, found 0"},
      {R"("ts":1,"args":{"from":"a","to":"b","policy":"now","why":"x"})",
       "a whole number from 0 to 1099511627776 as \"step\" of a decision, found none"},
      {R"("ts":1,"args":{"step":1,"from":"a","policy":"now","why":"x"})", "a text as \"to\" of a decision, found none"},
      {R"("ts":1,"args":{"step":1,"from":"a","to":"b","policy":null,"why":"x"})",
       "a text as \"policy\" of a decision, found null"},
      {R"("ts":1,"args":{"step":1,"from":"a","to":"b","policy":"now","why":true})",
       "a text as \"why\" of a decision, found true"}};
  const std::string ours = R"({"ph":"X","pid":0,"ts":1,"dur":2,"args":{"step":0,"stage":0,"kind":"F","microbatch":3}})";
  for (const auto &[rest, expected] : damaged) {
    trace::Run run;
    const Status status = fromJson(
        "{\"traceEvents\":[\n" + ours + ",\n  {\"ph\":\"i\",\"cat\":\"decision\"," + rest + "},\n" + ours + "]}", run);
    EXPECT_EQ(status.message, "the trace is damaged at line 3, column 3: expected " + expected);
    EXPECT_TRUE(run.events.empty());
  }
}

TEST(Trace, Write) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "pipec-trace-test.json";
  ASSERT_TRUE(write(path, "{}").ok());
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), "{}");
  std::filesystem::remove(path);
  EXPECT_FALSE(write(path / "below", "{}").ok());
}

} // namespace
} // namespace pipec::trace
