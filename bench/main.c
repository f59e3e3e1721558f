/* SPDX-License-Identifier: Apache-2.0
 * bench/main.c: the command `anydnn`: finds the subcommand and passes the arguments on. */
#include "commands.h"
#include <anydnn/anydnn.h>

#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: anydnn COMMAND ...\n"
    "\n"
    "  info                           devices, their limits, and why a backend is absent\n"
    "  list [--device D]              operations, the engines of each device, their traits and dtypes\n"
    "  explain [--device D] LINE      every engine's answer to a problem: verdict, reason, cost, workspace\n"
    "  check [options] LINE | -f FILE... | --random N\n"
    "                                 compares a problem on a device with the CPU reference\n"
    "  bench [options] ...            times problems (anydnn bench --help)\n"
    "  tune [options] LINE | -f FILE  measures engines and keeps the best in a file (anydnn tune --help)\n"
    "  train [options] ...            trains a small network (anydnn train --help)\n"
    "  help, --version\n"
    "\n"
    "D is cpu, cuda, opencl (all of that kind), cuda:0, opencl:1 ..., or all.\n"
    "LINE is one problem, quoted or as several words:\n"
    "  conv_forward x=8x64x56x56:nhwc/f16 w=64x64x3x3:nhwc/f16 pad=1,1\n"
    "\n"
    "Options of check:\n"
    "  --device D      device under test (default all)\n"
    "  --engine E      only this engine (default: each engine that accepts the problem)\n"
    "  --seed N        data of exactly this seed; otherwise derived from the text of the line\n"
    "  --random N      N lines drawn at random, from --seed (default: the clock); what fails is made smaller\n"
    "  --seconds T     with --random: no new line after T seconds\n"
    "  --op NAME       with --random: only lines of this operation\n"
    "  --junit FILE    writes the results as JUnit XML, too\n"
    "  --shard I/N     only the I-th of N parts of the lines (I from 1)\n"
    "  --full          also lines marked !full, and all classes of alpha and beta\n"
    "  --list-skips    name what was skipped, with the reason\n"
    "  -v              name what passed\n"
    "\n"
    "Exit codes: 0 good; 1 a check failed or the work could not be done; 2 wrong usage or a malformed line;\n"
    "            3 nothing was run; 77 the named device is not here.\n";

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    { "info", anydnn_info_main },       { "list", anydnn_list_main },
    { "explain", anydnn_explain_main }, { "check", anydnn_check_main },
#ifdef ANYDNN_WITH_BENCH
    { "bench", anydnn_bench_main },
#endif
    { "tune", anydnn_tune_main },
#ifdef ANYDNN_WITH_TRAIN
    { "train", anydnn_train_main },
#endif
};

int main(int argc, char **argv)
{
    size_t i;
    if (argc < 2) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        fputs(usage, stdout);
        return EXIT_GOOD;
    }
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "version")) {
        const int v = anydnn_version();
        printf("anydnn %d.%d.%d\n", v / 10000, v / 100 % 100, v % 100);
        return EXIT_GOOD;
    }
    for (i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(argv[1], commands[i].name)) return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "anydnn: unknown command \"%s\"; try: anydnn help\n", argv[1]);
    return EXIT_USAGE;
}
