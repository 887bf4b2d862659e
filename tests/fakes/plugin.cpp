// A plug-in without a GPU. The words of a point say what happens: `act`, on `rank` ("all": each).
//   FAKE_FOLDER      gets one file named by each process that opens it
//   FAKE_JOIN        the rank that refuses to join
//   NCCL_TOPO_DUMP_FILE  gets a box without GPUs from rank 0 when it joins, as from NCCL

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "calibrate/cuda/plugin.hpp"

namespace {

int mine = 0, all = 1;
std::string act;
double first_us = 0;

void say(PluginText out, const std::string& text) {
  std::snprintf(out.data, out.room, "%s", text.c_str());
}

int open(int, PluginText) {
  if (const char* folder = std::getenv("FAKE_FOLDER"))
    if (std::FILE* file =
            std::fopen((std::string(folder) + "/" + std::to_string(getpid())).c_str(), "w"))
      std::fclose(file);
  return plugin_ok;
}
int facts(PluginText out) { return say(out, "device=fake\n"), plugin_ok; }
int offers(const char*, const char*) { return 1; }
int make_id(PluginText id, PluginText) { return say(id, "an \"id\"\n"), plugin_ok; }
int join(const char* id, int rank, int ranks, PluginText why) {
  mine = rank;
  all = ranks;
  if (std::strcmp(id, "an \"id\"\n") != 0) return say(why, "another id"), plugin_failed;
  const char* refuses = std::getenv("FAKE_JOIN");
  if (refuses && rank == std::atoi(refuses))
    return say(why, "no peer acc\xc3\xa8s"), plugin_unsupported;
  const char* dump = std::getenv("NCCL_TOPO_DUMP_FILE");
  if (std::FILE* file = dump && rank == 0 ? std::fopen(dump, "w") : nullptr)
    std::fputs("<system version=\"1\"></system>\n", file), std::fclose(file);
  return plugin_ok;
}
// What `act` asks for in the step "prepare" or "measure"; a state.
int perform(const std::string& step, PluginText why) {
  if (act == step + " prints") std::puts("a library writes to stdout"), std::fflush(stdout);
  if (act == step + " dies") raise(SIGKILL);
  if (act == step + " ends") _exit(7);
  if (act == step + " hangs")
    for (;;) pause();
  if (act == step + " fails") return say(why, "out of memory"), plugin_failed;
  if (act == step + " is unsupported") return say(why, "no such kernel"), plugin_unsupported;
  if (act == step + " is unverified") return say(why, "off by one"), plugin_unverified;
  return plugin_ok;
}
int prepare(const PluginPoint* point, PluginText why) {
  act.clear();
  for (auto word = point->words; *word; word += 2) {
    if (std::strcmp(word[0], "act") == 0) act = word[1];
    if (std::strcmp(word[0], "rank") == 0 && std::strcmp(word[1], "all") != 0 &&
        std::atoi(word[1]) != mine) {
      act = act.substr(0, act.find(' ')) + " waits";
    }
  }
  first_us = point->x[0];
  return perform("prepare", why);
}
// Sample i is slow on rank i % all, and there only.
int measure(PluginSample* samples, int count, PluginText why) {
  if (perform("measure", why) != plugin_ok) return -1;
  if (act == "measure is short") --count;
  for (int i = 0; i < count; ++i)
    samples[i] = {first_us + i + (i % all == mine ? 100.25 : 0), 1000.0 + mine, i == mine,
                  i == mine + 1};
  if (act == "measure is negative" && count > 0) samples[0].us = -1;
  return count;
}
void close() {}

const PluginApi api{plugin_abi, "fake", open,    facts,   offers,
                    make_id,    join,   prepare, measure, close};

}  // namespace

extern "C" const PluginApi* ceiling_plugin() { return &api; }
